"""The store in memory: every call happens at one moment, at the store's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from typing import TypeVar

from headway.clock import Clock
from headway.errors import STORE_NOT_OPEN, StoreUnavailableError
from headway.store.unit import Submissions, Unit
from headway.testing.memory.asks import MemoryAsks
from headway.testing.memory.charts import MemoryCharts
from headway.testing.memory.history import MemoryEvents, MemoryHistory
from headway.testing.memory.instances import MemoryInstances
from headway.testing.memory.keys import MemoryKeys
from headway.testing.memory.leases import MemoryLeases, MemoryNodes
from headway.testing.memory.letters import MemoryLetters
from headway.testing.memory.messages import MemoryMessages
from headway.testing.memory.requests import MemoryRequests
from headway.testing.memory.tables import Tables
from headway.testing.memory.timers import MemoryTimers
from headway.testing.memory.unit import run_unit
from headway.testing.memory.work import MemoryWork

T = TypeVar("T")
Job = Callable[[Tables, datetime], T]


class MemoryStore(Submissions):
    """Keeps rows in tables that it shares with other stores.

    A subclass decides in `call` when a call reaches the tables, and whether its answer arrives.
    """

    lanes = 1

    def __init__(self, tables: Tables, clock: Clock) -> None:
        super().__init__()
        self.tables = tables
        self._clock = clock
        self._opened = False
        self._listener: Callable[[str], None] | None = None
        self.instances = MemoryInstances(self.call)
        self.history = MemoryHistory(self.call)
        self.events = MemoryEvents(self.call)
        self.timers = MemoryTimers(self.call)
        self.work = MemoryWork(self.call)
        self.asks = MemoryAsks(self.call)
        self.leases = MemoryLeases(self.call, lambda: self._opened)
        self.messages = MemoryMessages(self.call)
        self.letters = MemoryLetters(self.call)
        self.charts = MemoryCharts(self.call)
        self.keys = MemoryKeys(self.call)
        self.nodes = MemoryNodes(self.call)
        self.requests = MemoryRequests(self.call)
        self.commands = {
            **self.instances.commands,
            **self.work.commands,
            **self.letters.commands,
            **self.keys.commands,
        }

    async def call(self, job: Job[T], *, writes: bool = False) -> T:  # noqa: ARG002 - for those that derive
        """Do something with the tables at one moment; raises StoreUnavailableError when not open."""
        if not self._opened:
            raise StoreUnavailableError(STORE_NOT_OPEN)
        answer = job(self.tables, self._clock.now())
        await asyncio.sleep(0)  # as with any other store, others have their turn meanwhile
        return answer

    async def open(self) -> None:
        """Begin to take calls."""
        self._opened = True

    async def close(self) -> None:
        """Take no more calls."""
        self._opened = False
        if self._listener is not None:
            self.tables.listeners.remove(self._listener)
            self._listener = None

    async def run(self, unit: Unit) -> None:
        """Run a unit atomically; on return its changes are stored."""
        await self.call(lambda tables, now: run_unit(tables, unit, now, self.commands), writes=True)

    async def now(self) -> datetime:
        """The time of the store's clock."""
        return await self.call(lambda _, now: now)

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic that another store on the same tables announces."""
        self._listener = heard
        self.tables.listeners.append(heard)

    async def announce(self, topics: Collection[str]) -> None:
        """Notify the other stores on the same tables."""
        for listener in self.tables.listeners:
            if listener is not self._listener:
                for topic in sorted(topics):
                    listener(topic)
