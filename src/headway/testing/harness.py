"""`Harness`: a whole node in a test, in the test's own time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Self

from headway.clock import milliseconds
from headway.engine.tenant import Tenant
from headway.errors import HeadwayError
from headway.node import DEFAULT_TENANT, Node
from headway.statechart.chart import Charted
from headway.store.queries import LetterQuery
from headway.testing.clock import FakeClock
from headway.worker.attempt import RunningAttempt, StopReason
from headway.worker.handlers import Handlers
from headway.worker.worker import Worker

MEMORY = "sqlite:///:memory:"
MOST_TURNS = 10_000
MOST_LETTERS = 1_000
LOOK = 0.01
EPOCH = datetime.fromtimestamp(0, UTC)
MILLISECOND = timedelta(milliseconds=1)


class Harness:
    """A node on SQLite whose clock stands still: nothing runs but when the test says so.

    `run_until_idle` lets everything happen that is due now; `advance("2d")` lets time pass, and all
    that becomes due on the way happens in its turn and at its time. Work whose handler waits meanwhile is
    under way until the handler ends, or its timeout passes by the clock.
    """

    def __init__(
        self,
        *charts: Charted,
        handlers: Handlers | None = None,
        database: str = MEMORY,
        clock: FakeClock | None = None,
        tenant: str = DEFAULT_TENANT,
        patience: float = 1.0,
        **settings: Any,
    ) -> None:
        """`settings` are those of `Node`: destinations, facts, secrets, retention, queues.

        A handler whose work has a timeout, and which has not ended after `patience` real seconds, counts
        as one that waits for time to pass; one that waits by `clock.sleep` does so at once.
        """
        self.clock = clock or FakeClock()
        self._looks = max(1, round(patience / LOOK))
        self._waiting: set[tuple[RunningAttempt, StopReason | None]] = set()
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
            await self._move_to(due)
            await self.run_until_idle()
        await self._move_to(until)
        await self.run_until_idle()
        return until

    async def restart(self) -> None:
        """Continue as a new process: what is not in the database is lost.

        Raises HeadwayError for a database in memory, which a new process would not find.
        """
        if self._database == MEMORY:
            raise HeadwayError("a restart needs a file: Harness(..., database='sqlite:////tmp/test.db')")
        await self.node.stop()
        self.node = self._made()
        await self._open()

    async def __aenter__(self) -> Self:
        """Open the database."""
        await self._open()
        return self

    async def _open(self) -> None:
        """Open the database; destinations that are new get what is published from now on, as in a node."""
        await self.node.open()
        for relay in self.node.relays:
            if relay.destination.policy.begins == "now":
                await relay.take_up()

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.node.stop()

    def _made(self) -> Node:
        """A node on the same database and the same clock; a file is made when it is missing."""
        node = Node(self._database, self._charts, clock=self.clock, **self._settings)
        if node.worker is not None:
            node.worker.grace = 0.0  # the test's time does not pass while the node stops
        return node

    async def _turn(self) -> bool:
        """Let every service do what is due; whether anything happened."""
        before = self._activity()
        for service in self.node.services:
            await service.turn()
            if isinstance(service, Worker):
                await service.beat()
                await self._settled(service)
        return self._activity() != before

    def _activity(self) -> int:
        engine, services = self.node.engine, self.node.services
        return engine.tally.total() + sum(service.tally.total() for service in services)

    async def _settled(self, worker: Worker) -> None:
        """Wait until all that runs has ended, or waits for time to pass."""
        looks = 0
        while (busy := self._busy(worker)) and looks < self._looks:
            tasks = [running.task for running in busy if running.task is not None]
            done, _ = await asyncio.wait(tasks, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            # Looks are counted, not seconds: a machine that stands still for a while takes none.
            looks = 0 if done or not all(map(_is_limited, busy)) else looks + 1
        self._waiting = {(running, running.cancelled) for running in _running(worker)}

    def _busy(self, worker: Worker) -> list[RunningAttempt]:
        """Handlers that can continue without time passing."""
        asleep = self.clock.asleep
        return [
            running for running in _running(worker) if running.task not in asleep and not self._waits(running)
        ]

    def _waits(self, running: RunningAttempt) -> bool:
        return _is_limited(running) and (running, running.cancelled) in self._waiting

    async def _move_to(self, at: datetime) -> None:
        """Let time pass; the worker shows on the way that it lives, so that nobody takes its work."""
        worker = self.node.worker
        while worker is not None and (beat := _time_of(_next_beat(worker))) is not None and beat < at:
            self.clock.move_to(beat)
            await worker.beat()
        self.clock.move_to(at)

    async def _next_due(self) -> datetime | None:
        store, worker = self.node.engine.store, self.node.worker
        letters = await store.letters.page(LetterQuery(dead=False, limit=MOST_LETTERS))
        timer = await store.timers.next(self.node.engine.charts.versions)
        dues = [timer, await store.work.next(), *(letter.due for letter in letters)]
        dues.append(self.clock.next_waking)
        dues.append(None if worker is None else _time_of(_next_limit(worker)))
        now = self.clock.now()
        return min((due for due in dues if due is not None and due > now), default=None)


def _running(worker: Worker) -> list[RunningAttempt]:
    """The attempts that have not ended."""
    attempts = worker._attempts  # noqa: SLF001 - in a test the worker's loops do not run: the harness does
    everything = (*attempts.held.values(), *attempts.lingering)
    return [running for running in everything if running.task is not None and not running.task.done()]


def _is_limited(running: RunningAttempt) -> bool:
    """Whether it need not be waited for: its time is limited, or it is over already."""
    return running.deadline < inf or running.cancelled is not None or running.given_up


def _next_beat(worker: Worker) -> float:
    return worker._heartbeat.next_due()  # noqa: SLF001 - as above


def _next_limit(worker: Worker) -> float:
    return min(worker._deadlines.next_due(), worker._reports.next_due())  # noqa: SLF001 - as above


def _time_of(seconds: float) -> datetime | None:
    """The first time of a clock, in whole milliseconds, at which `seconds` have passed."""
    if seconds == inf:
        return None
    at = EPOCH + timedelta(milliseconds=round(seconds * 1_000))
    return at if at.timestamp() >= seconds else at + MILLISECOND
