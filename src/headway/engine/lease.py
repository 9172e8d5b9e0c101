"""A lease: of many nodes one does a job, and another takes over when that one is gone."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress
from datetime import datetime

from headway.engine.engine import Engine
from headway.engine.service import Service
from headway.errors import StoreError
from headway.store.port import Store
from headway.store.rows import Key

LASTS = 15.0


class Lease:
    """A name that one holder has at a time; extended when a third of its time has passed.

    `at` is the time in seconds, by any clock that the holder always uses; without it the event loop's.
    """

    def __init__(self, store: Store, name: str, holder: str, *, lasts: float = LASTS) -> None:
        self._store = store
        self.name, self.holder, self.lasts = name, holder, lasts
        self._key: Key = ("", name)
        self._asked_at = 0.0
        self._may_be_stored = False
        self.is_held = False
        """Whether this holder got it when it last asked."""

    async def hold(self, at: float | None = None) -> bool:
        """Whether this holder has it; takes or extends it when that is due."""
        at = asyncio.get_running_loop().time() if at is None else at
        return self.is_fresh(at) or await self.extend(at)

    async def extend(self, at: float) -> bool:
        """Take or extend it now; False when another holder has it."""
        self._may_be_stored = True
        self.is_held = bool(
            await self._store.leases.hold([self._key], self.holder, round(self.lasts * 1_000))
        )
        self._may_be_stored = self.is_held
        self._asked_at = at
        return self.is_held

    def is_fresh(self, at: float) -> bool:
        """Whether it is held and need not be extended yet."""
        return self.is_held and 0 <= at - self._asked_at < self.lasts / 3

    def has_lapsed(self, at: float) -> bool:
        """Whether it was held and not extended in time, so that another may have had it."""
        return self.is_held and not 0 <= at - self._asked_at < self.lasts

    def forget(self) -> None:
        """Ask for it again before the next use."""
        self.is_held = False

    async def release(self) -> None:
        """Give it up, so that another can take it at once."""
        self.is_held = False
        if self._may_be_stored:
            await self._store.leases.release([self._key], self.holder)
            self._may_be_stored = False


class SoleService(Service):
    """A service that runs on one node at a time; another node takes over when that one is gone.

    With `by_versions` it serves instances of the chart versions that its node knows, and runs on one of the
    nodes that know the same versions. What two sets of versions share may be done twice; that is harmless,
    because instances accept each event once.
    """

    by_versions = False
    lasts = LASTS

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self._lease = self._new_lease()

    def _new_lease(self) -> Lease:
        return Lease(self.engine.store, self._lease_name, self.engine.node, lasts=self.lasts)

    @property
    def _lease_name(self) -> str:
        return f"{self.name} {self.engine.charts.fingerprint}" if self.by_versions else self.name

    async def turn(self) -> bool:
        """Act, if this node holds the lease."""
        if (self._lease.name, self._lease.lasts) != (self._lease_name, self.lasts):
            await self._lease.release()  # a chart was registered meanwhile
            self._lease = self._new_lease()
        return await self._lease.hold() and await self.act()

    @abstractmethod
    async def act(self) -> bool:
        """Do what is due now; True if there may be more."""

    async def rest_until(self, at: datetime | None, shortest: float = 0.0) -> float:
        """Seconds to rest until a time of the store; the longest rest if there is none."""
        if at is None:
            return self.longest_rest
        ahead = at - await self.engine.store.now()
        return min(max(ahead.total_seconds(), shortest), self.longest_rest)

    async def stop(self) -> None:
        """Stop, and let another node take over at once."""
        await super().stop()
        with suppress(StoreError):  # without the database the lease runs out by itself
            await self._lease.release()
