"""Long polling: claims of remote workers wait here until there is work for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from headway.engine.engine import Engine
from headway.store.port import ANYTHING
from headway.store.queries import Claim
from headway.store.rows import Version, WorkRow
from headway.store.unit import Changes

POLL_INTERVAL = 1.0
"""How often the first claim of each line looks by itself: not all new work is announced."""

Line = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[Version, ...]]
"""Claims for the same tenants, queues, handlers and versions wait in one line."""


class WaitingClaims:
    """Wakes as many claims as there is work for, those that have waited longest first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lines: dict[Line, dict[WaitingClaim, None]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._listens = False

    async def listen(self) -> None:
        """Learn of new work that this process or another one commits."""
        if not self._listens:
            self._listens = True
            self._engine.watch(self._look)
            try:
                await self._engine.store.listen(self._heard)
            except Exception:
                # The next claim tries again.
                self._listens = False
                self._engine.unwatch(self._look)
                raise

    def enter(self, claim: Claim) -> WaitingClaim:
        """Put a claim at the end of its line; from now on it is woken."""
        waiting = WaitingClaim(self, (claim.tenants, claim.queues, claim.handlers, claim.versions))
        self._lines.setdefault(waiting.line, {})[waiting] = None
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll(), name="headway waiting claims")
        return waiting

    def leave(self, waiting: WaitingClaim) -> None:
        """Take a claim out of its line."""
        line = self._lines.get(waiting.line, {})
        line.pop(waiting, None)
        if not line:
            self._lines.pop(waiting.line, None)
        if not self._lines and self._polling is not None:
            self._polling.cancel()
            # The task is not done until its next step: a claim that comes before must start another.
            self._polling = None

    def wake_next(self, line: Line) -> None:
        """There may be more work for this line."""
        for waiting in self._lines.get(line, ()):
            if not waiting.woken.is_set():
                waiting.woken.set()
                return

    def wake_all(self) -> None:
        """Wake one claim of each line; it wakes the next if there is more than it takes."""
        for line in self._lines:
            self.wake_next(line)

    def _heard(self, topic: str) -> None:
        if topic in {"work", ANYTHING}:
            self.wake_all()

    def _look(self, changes: Changes) -> None:
        """Wake claims for work that was committed; what is due later is found by polling."""
        if not self._lines or not changes.work:
            return
        now = max((row.updated_at for row in (*changes.updated, *changes.created)), default=None)
        for row in changes.work:
            if now is None or row.due <= now:
                self._wake_for(row)

    def _wake_for(self, row: WorkRow) -> None:
        for line in self._lines:
            if _takes(line, row):
                self.wake_next(line)
                return

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            self.wake_all()


class WaitingClaim:
    """The place of a claim in its line."""

    __slots__ = ("_claims", "line", "woken")

    def __init__(self, claims: WaitingClaims, line: Line) -> None:
        self._claims, self.line = claims, line
        self.woken = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._claims.leave(self)

    async def wait(self, seconds: float) -> None:
        """Wait until woken, at most for the given seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.woken.wait()


def _takes(line: Line, row: WorkRow) -> bool:
    tenants, queues, handlers, versions = line
    return (
        row.worker is None
        and row.queue in queues
        and (row.chart, row.version) in versions
        and _is_among(row.tenant, tenants)
        and _is_among(row.handler, handlers)
    )


def _is_among(name: str, names: Sequence[str]) -> bool:
    return not names or name in names
