"""A clock that moves only when a test moves it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headway.clock import milliseconds

BEGINNING = datetime(2026, 1, 1, 9, tzinfo=UTC)


class Sleeper(NamedTuple):
    """A sleeping coroutine and its wake-up time."""

    until: datetime
    woken: asyncio.Future[None]
    task: asyncio.Task[object] | None


class FakeClock:
    """Stands still until `advance("2d")`."""

    def __init__(self, now: datetime = BEGINNING) -> None:
        self._now = now
        self._sleepers: list[Sleeper] = []

    def now(self) -> datetime:
        """The time it was last set to."""
        return self._now

    def advance(self, duration: str | float | timedelta) -> datetime:
        """Let time pass ("2d", "1h 30m", seconds, a timedelta); answers the new time."""
        return self.move_to(self._now + timedelta(milliseconds=milliseconds(duration)))

    def move_to(self, at: datetime) -> datetime:
        """Let time pass until then; raises ValueError for a time that is over."""
        if at < self._now:
            raise ValueError(f"time does not go back from {self._now.isoformat()} to {at.isoformat()}")
        self._now = at
        for sleeper in self._sleepers:
            if sleeper.until <= at and not sleeper.woken.done():
                sleeper.woken.set_result(None)
        return at

    async def sleep(self, duration: str | float | timedelta) -> None:
        """Wait until so much of this clock's time has passed."""
        woken = asyncio.get_running_loop().create_future()
        until = self._now + timedelta(milliseconds=milliseconds(duration))
        if until == self._now:
            woken.set_result(None)
        sleeper = Sleeper(until, woken, asyncio.current_task())
        self._sleepers.append(sleeper)
        try:
            await woken
        finally:
            self._sleepers.remove(sleeper)

    @property
    def asleep(self) -> frozenset[asyncio.Task[object]]:
        """The tasks that wait for this clock to move."""
        waiting = (sleeper.task for sleeper in self._sleepers if not sleeper.woken.done())
        return frozenset(task for task in waiting if task is not None)

    @property
    def next_waking(self) -> datetime | None:
        """When the first of those who sleep wakes up."""
        return min((sleeper.until for sleeper in self._sleepers if not sleeper.woken.done()), default=None)
