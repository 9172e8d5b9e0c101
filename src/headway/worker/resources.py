"""Live things that stay in this process between the states of an instance: a browser, a connection."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from logging import getLogger
from math import inf
from typing import Any

from headway.errors import EngineError
from headway.store.port import Store
from headway.store.rows import InstanceRow, Key, WorkRow

LOG = getLogger("headway.worker")


class ResourceTakenError(EngineError):
    """Another worker holds a live resource under this name."""


class Held:
    """A live thing, whose it is, and until when it is this worker's by the monotonic clock."""

    __slots__ = ("beat_at", "close", "instance", "lease", "rhythm", "until", "value")

    def __init__(self, row: WorkRow, value: object, close: Callable[[], object] | None) -> None:
        self.value = value
        self.close = close
        self.instance: Key = (row.tenant, row.instance)
        self.lease, self.rhythm = row.lease, row.heartbeat / 1_000
        self.until = self.beat_at = inf

    def extended(self, at: float) -> None:
        """The lease was asked for at this time, and granted."""
        self.until = at + self.lease / 1_000
        self.beat_at = at + self.rhythm


class Resources:
    """What a worker holds, by affinity; each under a lease that keeps its work at this worker."""

    def __init__(self, store: Store, worker: str, monotonic: Callable[[], float]) -> None:
        self._store, self._worker, self._monotonic = store, worker, monotonic
        self._held: dict[Key, Held] = {}
        self._closings: set[asyncio.Task[None]] = set()

    def get(self, name: Key) -> Any:
        """What is held under a name, or None."""
        held = self._held.get(name)
        return None if held is None else held.value

    async def is_lost(self, name: Key) -> bool:
        """Whether there was a live thing under this name, and it is gone without having been let go."""
        return name not in self._held and await self._store.leases.get(name) is not None

    async def hold(self, name: Key, row: WorkRow, value: object, close: Callable[[], object] | None) -> None:
        """Keep a live thing in place of what was there; raises ResourceTakenError."""
        held, now = Held(row, value, close), self._monotonic()
        if name not in await self._store.leases.hold([name], self._worker, held.lease):
            raise ResourceTakenError(f"another worker holds a resource for {name[1]}")
        held.extended(now)
        before = self._held.get(name)
        self._held[name] = held
        if before is not None and before.value is not value:
            await _close(name, before)

    async def let_go(self, name: Key) -> None:
        """Close what is held under a name, and leave the name to others."""
        held = self._held.pop(name, None)
        if held is not None:
            await _close(name, held)
            await self._store.leases.release([name], self._worker)

    async def close(self) -> None:
        """Let go of everything; without the database the leases run out by themselves."""
        for gone in await asyncio.gather(*map(self.let_go, list(self._held)), return_exceptions=True):
            if gone is not None:
                LOG.warning("a lease could not be given up: %s", gone)
        await asyncio.gather(*self._closings)

    def next_beat(self) -> float:
        """When the next lease is to be extended."""
        return min((held.beat_at for held in self._held.values()), default=inf)

    def next_lapse(self) -> float:
        """When the next lease runs out."""
        return min((held.until for held in self._held.values()), default=inf)

    async def beat(self, now: float) -> None:
        """Extend the leases that are due; close what is lost, or whose instance has ended."""
        due = {name: held for name, held in self._held.items() if held.beat_at <= now}
        if not due:
            return
        for lease in {held.lease for held in due.values()}:
            names = [name for name, held in due.items() if held.lease == lease]
            granted = set(await self._store.leases.hold(names, self._worker, lease))
            for name in names:
                if name in granted:
                    due[name].extended(now)
                else:
                    self._drop(name, due[name])
        instances = {held.instance for held in due.values()}
        living = {
            (row.tenant, row.id) for row in await self._store.instances.look_up(instances) if not row.ended
        }
        for instance in instances - living:
            self._leave(instance)

    def lapse(self, now: float) -> None:
        """Close what may be another worker's by now."""
        for name, held in list(self._held.items()):
            if held.until <= now:
                self._drop(name, held)

    def follow(self, rows: Iterable[InstanceRow]) -> None:
        """Let go of what belongs to instances that have ended."""
        if self._held:
            for row in rows:
                if row.ended:
                    self._leave((row.tenant, row.id))

    def _leave(self, instance: Key) -> None:
        for name, held in list(self._held.items()):
            if held.instance == instance:
                self._spawn(self.let_go(name))

    def _drop(self, name: Key, held: Held) -> None:
        if self._held.get(name) is held:
            del self._held[name]
            self._spawn(_close(name, held))

    def _spawn(self, closing: Any) -> None:
        task = asyncio.ensure_future(closing)
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)


async def _close(name: Key, held: Held) -> None:
    try:
        closing = held.close() if held.close is not None else None
        if inspect.isawaitable(closing):
            await closing
    except Exception:
        LOG.exception("the resource %s could not be closed", name[1])
