"""`Harness`: a whole node in a test, in the test's own time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Self

from headway.clock import milliseconds
from headway.engine.tenant import Tenant
from headway.errors import HeadwayError
from headway.node import DEFAULT_TENANT, Node
from headway.statechart.chart import Charted
from headway.store.port import LetterQuery
from headway.testing.clock import FakeClock
from headway.worker.handlers import Handlers
from headway.worker.worker import Worker

MEMORY = "sqlite:///:memory:"
MOST_TURNS = 10_000
MOST_LETTERS = 1_000


class Harness:
    """A node on SQLite whose clock stands still: nothing runs but when the test says so.

    `run_until_idle` lets everything happen that is due now; `advance("2d")` lets time pass, and all
    that becomes due on the way happens in its turn and at its time.
    """

    def __init__(
        self,
        *charts: Charted,
        handlers: Handlers | None = None,
        database: str = MEMORY,
        clock: FakeClock | None = None,
        tenant: str = DEFAULT_TENANT,
        **settings: Any,
    ) -> None:
        """`settings` are those of `Node`: destinations, facts, secrets, retention, queues."""
        self.clock = clock or FakeClock()
        self._tenant = tenant
        self._database, self._charts = database, charts
        self._settings = {"handlers": handlers, **settings}
        self.node = self._made()

    @property
    def tenant(self) -> Tenant:
        """The engine as the test's tenant sees it."""
        return self.node.tenant(self._tenant)

    async def run_until_idle(self) -> int:
        """Let everything happen that is due now; answers how many turns that took."""
        for turns in range(MOST_TURNS):
            if not await self._turn():
                return turns
        raise HeadwayError(f"something is still going on after {MOST_TURNS} turns: is there a circle?")

    async def advance(self, duration: str | float | timedelta) -> datetime:
        """Let time pass, with all that becomes due on the way; answers the new time."""
        until = self.clock.now() + timedelta(milliseconds=milliseconds(duration))
        await self.run_until_idle()
        # What is due already and has not happened will not happen: another node has the lease.
        while (due := await self._next_due()) is not None and self.clock.now() < due <= until:
            self.clock.move_to(due)
            await self.run_until_idle()
        self.clock.move_to(until)
        await self.run_until_idle()
        return until

    async def restart(self) -> None:
        """Go on as a new process does: what is not in the database is lost.

        Raises HeadwayError for a database in memory, which a new process would not find.
        """
        if self._database == MEMORY:
            raise HeadwayError("a restart needs a file: Harness(..., database='sqlite:////tmp/test.db')")
        await self.node.stop()
        self.node = self._made()
        await self.node.open()

    async def __aenter__(self) -> Self:
        """Open the database."""
        await self.node.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.node.stop()

    def _made(self) -> Node:
        """A node on the same database and the same clock; a file is made when it is missing."""
        return Node(self._database, self._charts, clock=self.clock, **self._settings)

    async def _turn(self) -> bool:
        """Let every service do what is due; whether anything happened."""
        before = self._activity()
        for service in self.node.services:
            await service.turn()
            if isinstance(service, Worker):
                await service.settled()
        return self._activity() != before

    def _activity(self) -> int:
        engine, services = self.node.engine, self.node.services
        return engine.tally.total() + sum(service.tally.total() for service in services)

    async def _next_due(self) -> datetime | None:
        store = self.node.engine.store
        letters = await store.letters(LetterQuery(dead=False, limit=MOST_LETTERS))
        dues = [await store.next_timer(), await store.next_work(), *(letter.due for letter in letters)]
        now = self.clock.now()
        return min((due for due in dues if due is not None and due > now), default=None)
