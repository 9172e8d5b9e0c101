"""Where claims from outside wait until there is work for them."""

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

LOOKS_EVERY = 1.0
"""So often one of those who wait for the same looks by itself: not all that is new is announced."""

Line = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[Version, ...]]
"""Those who wait for the same: tenants, queues, handlers and versions."""


class WaitingRoom:
    """Wakes as many as there is work for, those first who have waited longest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lines: dict[Line, dict[Waiting, None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._listens = False

    async def open(self) -> None:
        """Hear of new work, of this process and of others."""
        if not self._listens:
            self._listens = True
            self._engine.watch(self._changed)
            try:
                await self._engine.store.listen(self._heard)
            except Exception:
                # The next one who comes tries again.
                self._listens = False
                self._engine.unwatch(self._changed)
                raise

    def enter(self, claim: Claim) -> Waiting:
        """Stand in line; a call that comes from now on is heard."""
        waiting = Waiting(self, (claim.tenants, claim.queues, claim.handlers, claim.versions))
        self._lines.setdefault(waiting.line, {})[waiting] = None
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._keep_looking(), name="headway waiting room")
        return waiting

    def leave(self, waiting: Waiting) -> None:
        """Stand in line no more."""
        line = self._lines.get(waiting.line, {})
        line.pop(waiting, None)
        if not line:
            self._lines.pop(waiting.line, None)
        if not self._lines and self._looking is not None:
            self._looking.cancel()
            # Not done before its next step: who comes meanwhile must not count on it.
            self._looking = None

    def call_next(self, line: Line) -> None:
        """There may be more for those who wait for this."""
        for waiting in self._lines.get(line, ()):
            if not waiting.called.is_set():
                waiting.called.set()
                return

    def _heard(self, topic: str) -> None:
        if topic in {"work", ANYTHING}:
            self.call_all()

    def call_all(self) -> None:
        """One of each line, who calls the next when there is more than enough."""
        for line in self._lines:
            self.call_next(line)

    def _changed(self, changes: Changes) -> None:
        """What is due later is found when one looks."""
        if not self._lines or not changes.work:
            return
        now = max((row.updated_at for row in (*changes.updated, *changes.created)), default=None)
        for row in changes.work:
            if now is None or row.due <= now:
                self._call_for(row)

    def _call_for(self, row: WorkRow) -> None:
        for line in self._lines:
            if _takes(line, row):
                self.call_next(line)
                return

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOKS_EVERY)
            self.call_all()


class Waiting:
    """A place in a line."""

    __slots__ = ("_room", "called", "line")

    def __init__(self, room: WaitingRoom, line: Line) -> None:
        self._room, self.line = room, line
        self.called = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.leave(self)

    async def wait(self, seconds: float) -> None:
        """Until one is called, or so many seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.called.wait()


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
