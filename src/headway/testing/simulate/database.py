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
"""Is told what a call has led to, or why nothing is known of it."""
BEGINNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
NEAR = 0.002
FAR = 2.0


class DatabaseClock:
    """The database's time: that of the loop, and what it was set forward or back by."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._ahead = 0.0

    def now(self) -> datetime:
        """The time."""
        return BEGINNING + timedelta(seconds=self._loop.now + self._ahead)

    def jump(self, seconds: float) -> None:
        """Be ahead by so much more from now on, or by less."""
        self._ahead += seconds


class Weather:
    """How well calls reach the database at the moment: each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.slow = 0.0
        self.starts_over = 0.0
        self.hints_lost = 0.0
        self.down = False

    def calm(self) -> None:
        """All is well from now on."""
        self.fails = self.slow = self.starts_over = self.hints_lost = 0.0
        self.down = False

    def travel(self) -> float:
        """How long a call is on its way."""
        if self.slow and self.random.random() < self.slow:
            return self.random.random() * FAR
        return self.random.random() * NEAR

    def happens(self, probability: float) -> bool:
        """Whether something of a probability happens now."""
        return bool(probability) and self.random.random() < probability


class UnreliableStore(MemoryStore):
    """A process's connection: calls take time, and fail before or after they had their effect.

    What is on its way when the process ends may arrive all the same.
    """

    lanes = 2

    def __init__(self, tables: Tables, clock: DatabaseClock, loop: Loop, weather: Weather) -> None:
        super().__init__(tables, clock)
        self._loop, self._weather = loop, weather

    async def call(self, job: Job[T], *, writes: bool = False) -> T:
        """Send a call and wait for its answer; raises StoreUnavailableError when none comes."""
        answer: Any = self._loop.create_future()
        self._depart(job, partial(_settle, answer), writes=writes)
        result: T = await answer
        return result

    def _depart(self, job: Job[Any], answered: Answered, *, writes: bool) -> None:
        if not self._opened:
            raise StoreUnavailableError(STORE_NOT_OPEN)
        weather = self._weather
        fate = weather.random.choice(("before", "after")) if weather.happens(weather.fails) else ""
        self._loop.call_outside(weather.travel(), self._arrive, job, answered, (fate, writes))

    def _arrive(self, job: Job[Any], answered: Answered, way: tuple[str, bool]) -> None:
        fate, writes = way
        result: Any = None
        error: Exception | None = None
        if fate == "before" or self._weather.down:
            error = StoreUnavailableError("the connection was lost", maybe_committed=writes and bool(fate))
        else:
            try:
                result = job(self.tables, self._clock.now())
            except Exception as raised:  # noqa: BLE001 - it belongs to the caller
                error = raised
            if fate == "after" and error is None:
                error = StoreUnavailableError("the connection was lost", maybe_committed=writes)
        if self._weather.slow:
            self._loop.call_outside(self._weather.travel(), answered, result, error)
        else:
            answered(result, error)

    async def now(self) -> datetime:
        """The database's time, at once: it is asked for so often that all else would be rare."""
        if self._weather.down:
            raise StoreUnavailableError("the connection was lost")
        return self._clock.now()

    async def run(self, unit: Unit) -> None:
        """Run a unit; now and then it has to start over, or is decided and not committed."""
        await self.call(partial(self._commit, unit), writes=True)

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; nobody is told how it ended when the process is gone by then."""
        loop, process = self._loop, PROCESS.get()

        def told(_result: object, error: Exception | None) -> None:
            loop.call_in(process, 0.0, done, error)

        try:
            self._depart(partial(self._commit, unit), told, writes=True)
        except StoreUnavailableError as error:
            told(None, error)

    def _commit(self, unit: Unit, tables: Tables, now: datetime) -> None:
        weather = self._weather
        if weather.happens(weather.starts_over):
            decide(tables, unit, now, self.commands)
        if weather.happens(weather.fails):
            decide(tables, unit, now, self.commands)
            raise StoreUnavailableError("the commit was lost", maybe_committed=True)
        run_unit(tables, unit, now, self.commands)

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back in the process that listens; hints are lost, and repeated."""
        process = PROCESS.get()
        weather, loop = self._weather, self._loop

        def hear(topic: str) -> None:
            while not weather.happens(weather.hints_lost):
                loop.call_in(process, weather.travel(), heard, topic)
                if not weather.happens(weather.hints_lost):
                    break

        self._listener = hear
        self.tables.listeners.append(hear)

    async def announce(self, topics: Collection[str]) -> None:
        """Tell the other processes; sometimes the way there is blocked."""
        if self._weather.down:
            raise StoreUnavailableError("the connection was lost")
        await super().announce(topics)

    def cut(self) -> None:
        """The process is gone: nobody listens any more."""
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
