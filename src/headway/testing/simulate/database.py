"""The database that all processes share, and the unreliable way to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

from headway.errors import STORE_NOT_OPEN, StoreUnavailableError
from headway.store.unit import Done, Unit
from headway.testing.memory.store import Job, MemoryStore
from headway.testing.memory.tables import Tables
from headway.testing.memory.unit import decide, run_unit
from headway.testing.simulate.loop import PROCESS, Loop

T = TypeVar("T")
Answered = Callable[[Any, Exception | None], None]
"""Called with the result of a store call, or with its error."""
BEGINNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
NEAR = 0.002
FAR = 2.0


class DatabaseClock:
    """The database's clock: the loop's time, plus all jumps."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._ahead = 0.0

    def now(self) -> datetime:
        """The time."""
        return BEGINNING + timedelta(seconds=self._loop.now + self._ahead)

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back if `seconds` is negative."""
        self._ahead += seconds


class ConnectionFaults:
    """Faults of the connection to the database; each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.slow = 0.0
        self.starts_over = 0.0
        self.hints_lost = 0.0
        self.down = False

    def stop(self) -> None:
        """No more faults from now on."""
        self.fails = self.slow = self.starts_over = self.hints_lost = 0.0
        self.down = False

    def travel(self) -> float:
        """Seconds that a call takes to arrive."""
        if self.slow and self.random.random() < self.slow:
            return self.random.random() * FAR
        return self.random.random() * NEAR

    def happens(self, probability: float) -> bool:
        """A random choice: true with the given probability."""
        return bool(probability) and self.random.random() < probability


class UnreliableStore(MemoryStore):
    """A process's connection: calls take time, and fail before or after they had their effect.

    A call that was sent before the process ended may still arrive.
    """

    lanes = 2

    def __init__(
        self, tables: Tables, clock: DatabaseClock, loop: Loop, connection_faults: ConnectionFaults
    ) -> None:
        super().__init__(tables, clock)
        self._loop, self._connection_faults = loop, connection_faults

    async def call(self, job: Job[T], *, writes: bool = False) -> T:
        """Send a call and wait for its answer; raises StoreUnavailableError when none comes."""
        answer: Any = self._loop.create_future()
        self._depart(job, partial(_settle, answer), writes=writes)
        result: T = await answer
        return result

    def _depart(self, job: Job[Any], answered: Answered, *, writes: bool) -> None:
        if not self._opened:
            raise StoreUnavailableError(STORE_NOT_OPEN)
        connection_faults = self._connection_faults
        failure = (
            connection_faults.random.choice(("before", "after"))
            if connection_faults.happens(connection_faults.fails)
            else ""
        )
        self._loop.call_outside(connection_faults.travel(), self._arrive, job, answered, (failure, writes))

    def _arrive(self, job: Job[Any], answered: Answered, way: tuple[str, bool]) -> None:
        failure, writes = way
        result: Any = None
        error: Exception | None = None
        if failure == "before" or self._connection_faults.down:
            error = StoreUnavailableError("the connection was lost", maybe_committed=writes and bool(failure))
        else:
            try:
                result = job(self.tables, self._clock.now())
            except Exception as raised:  # noqa: BLE001 - it belongs to the caller
                error = raised
            if failure == "after" and error is None:
                error = StoreUnavailableError("the connection was lost", maybe_committed=writes)
        if self._connection_faults.slow:
            self._loop.call_outside(self._connection_faults.travel(), answered, result, error)
        else:
            answered(result, error)

    async def now(self) -> datetime:
        """The database's time, without delay: services read it so often that delays would dominate a run."""
        if self._connection_faults.down:
            raise StoreUnavailableError("the connection was lost")
        return self._clock.now()

    async def run(self, unit: Unit) -> None:
        """Run a unit; now and then it has to start over, or is decided and not committed."""
        await self.call(partial(self._commit, unit), writes=True)

    def submit(self, unit: Unit, done: Done) -> None:
        """Start a unit; `done` is not called if the process has ended by then."""
        loop, process = self._loop, PROCESS.get()

        def answered(_result: object, error: Exception | None) -> None:
            loop.call_in(process, 0.0, done, error)

        try:
            self._depart(partial(self._commit, unit), answered, writes=True)
        except StoreUnavailableError as error:
            answered(None, error)

    def _commit(self, unit: Unit, tables: Tables, now: datetime) -> None:
        connection_faults = self._connection_faults
        if connection_faults.happens(connection_faults.starts_over):
            decide(tables, unit, now, self.commands)
        if connection_faults.happens(connection_faults.fails):
            decide(tables, unit, now, self.commands)
            raise StoreUnavailableError("the commit was lost", maybe_committed=True)
        run_unit(tables, unit, now, self.commands)

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back in the listening process; notifications may be lost or repeated."""
        process = PROCESS.get()
        connection_faults, loop = self._connection_faults, self._loop

        def hear(topic: str) -> None:
            while not connection_faults.happens(connection_faults.hints_lost):
                loop.call_in(process, connection_faults.travel(), heard, topic)
                if not connection_faults.happens(connection_faults.hints_lost):
                    break

        self._listener = hear
        self.tables.listeners.append(hear)

    async def announce(self, topics: Collection[str]) -> None:
        """Notify the other processes; raises StoreUnavailableError while the database is down."""
        if self._connection_faults.down:
            raise StoreUnavailableError("the connection was lost")
        await super().announce(topics)

    def cut(self) -> None:
        """Close the connection and its listener, because the process has ended."""
        self._opened = False
        if self._listener is not None:
            self.tables.listeners.remove(self._listener)
            self._listener = None


def _settle(answer: Any, result: object, error: Exception | None) -> None:
    if not answer.done():
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)
