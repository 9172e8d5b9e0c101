"""A lease by which of many nodes one does a job, and another takes over when it is gone."""

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
    """A name that one holder has at a time; asked for again when a third of its time has passed."""

    def __init__(self, store: Store, name: str, holder: str, *, lasts: float = LASTS) -> None:
        self._store, self._holder = store, holder
        self.name, self.lasts = name, lasts
        self._key: Key = ("", name)
        self._held_until = 0.0
        self._asked_at = 0.0

    async def held(self) -> bool:
        """Whether this holder has it, taking or extending it when that is due."""
        now = asyncio.get_running_loop().time()
        if now < self._held_until and now - self._asked_at < self.lasts / 3:
            return True
        held = await self._store.leases.hold([self._key], self._holder, round(self.lasts * 1_000))
        self._asked_at = now
        self._held_until = now + self.lasts if held else 0.0
        return bool(held)

    @property
    def is_held(self) -> bool:
        """Whether this holder got it when it last asked."""
        return self._held_until > 0

    async def let_go(self) -> None:
        """Give it up, so that another can take it at once."""
        if self._held_until:
            self._held_until = 0.0
            await self._store.leases.release([self._key], self._holder)


class SoleService(Service):
    """A service of which one turns at a time among all nodes; another takes over when that one is gone.

    One that acts `by_versions` serves instances of the versions that its node knows: then one of those
    nodes turns that know the same. What two of them know both may do; instances take it once.
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
        """Do what is to be done now, if it is this node's to do."""
        if (self._lease.name, self._lease.lasts) != (self._lease_name, self.lasts):
            await self._lease.let_go()  # a chart was registered meanwhile
            self._lease = self._new_lease()
        return await self._lease.held() and await self.act()

    @abstractmethod
    async def act(self) -> bool:
        """Do what is to be done now; True when there may be more."""

    async def rest_until(self, at: datetime | None, shortest: float = 0.0) -> float:
        """For how many seconds to rest until a time of the store, or as long as can be when there is none."""
        if at is None:
            return self.longest_rest
        ahead = at - await self.engine.store.now()
        return min(max(ahead.total_seconds(), shortest), self.longest_rest)

    async def stop(self) -> None:
        """Stop, and let another node take over at once."""
        await super().stop()
        with suppress(StoreError):  # without the database the lease runs out by itself
            await self._lease.let_go()
