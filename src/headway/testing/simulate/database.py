"""The database that all processes share, and the unreliable way to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from headway.errors import StoreUnavailableError
from headway.store.port import Unit
from headway.testing.memory.store import Job, MemoryStore
from headway.testing.memory.tables import Tables
from headway.testing.memory.units import decide, run_unit
from headway.testing.simulate.loop import PROCESS, Loop

T = TypeVar("T")
BEGINNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
NEAR = 0.002
FAR = 2.0


class DatabaseClock:
    """The database's time: that of the loop, and what it was set forward by."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._ahead = 0.0

    def now(self) -> datetime:
        """The time."""
        return BEGINNING + timedelta(seconds=self._loop.now + self._ahead)

    def jump(self, seconds: float) -> None:
        """Be ahead by so much more from now on."""
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


class Link(MemoryStore):
    """A process's connection: calls take time, and fail before or after they had their effect.

    What is on its way when the process ends may arrive all the same.
    """

    lanes = 2

    def __init__(self, tables: Tables, clock: DatabaseClock, loop: Loop, weather: Weather) -> None:
        super().__init__(tables, clock)
        self._loop, self._weather = loop, weather

    async def call(self, job: Job[T], *, writes: bool = False) -> T:
        """Send a call and wait for its answer; raises StoreUnavailableError when none comes."""
        if not self._opened:
            raise StoreUnavailableError("the store is not open")
        weather = self._weather
        answer: Any = self._loop.create_future()
        fate = weather.random.choice(("before", "after")) if weather.happens(weather.fails) else ""
        self._loop.call_outside(weather.travel(), self._arrive, job, answer, (fate, writes))
        result: T = await answer
        return result

    def _arrive(self, job: Job[Any], answer: Any, way: tuple[str, bool]) -> None:
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
            self._loop.call_outside(self._weather.travel(), _settle, answer, result, error)
        else:
            _settle(answer, result, error)

    async def now(self) -> datetime:
        """The database's time, at once: it is asked for so often that all else would be rare."""
        if self._weather.down:
            raise StoreUnavailableError("the connection was lost")
        return self._clock.now()

    async def run(self, unit: Unit) -> None:
        """Run a unit; now and then it has to start over, or is decided and not committed."""

        def run(tables: Tables, now: datetime) -> None:
            if self._weather.happens(self._weather.starts_over):
                decide(tables, unit, now)
            if self._weather.happens(self._weather.fails):
                decide(tables, unit, now)
                raise StoreUnavailableError("the commit was lost", maybe_committed=True)
            run_unit(tables, unit, now)

        await self.call(run, writes=True)

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
