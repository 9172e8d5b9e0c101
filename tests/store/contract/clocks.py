"""Stores whose time is the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from headway.store.port import Store
from headway.testing.clock import FakeClock
from tests.store.contract.place import (
    Place,
)

MINUTE = 60_000
MOMENT = timedelta(microseconds=1)


@asynccontextmanager
async def timed(place: Place) -> AsyncIterator[tuple[Store, FakeClock]]:
    """A store whose time is the test's."""
    clock = FakeClock()
    store: Store = place.store(clock)
    await store.open()
    try:
        yield store, clock
    finally:
        await store.close()


class Moment:
    """A store, and a clock that can be set to just before an end and to the end itself."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self._clock = store, clock
        self.end = clock.now() + timedelta(milliseconds=MINUTE)

    def almost(self) -> datetime:
        """Move to the last microsecond before the end."""
        return self._clock.move_to(self.end - MOMENT)

    def exactly(self) -> datetime:
        """Move to the end."""
        return self._clock.move_to(self.end)

    def almost_again(self) -> datetime:
        """Move to the last microsecond before the end of a lease of a minute that was taken just before."""
        return self._clock.move_to(self.end - MOMENT + timedelta(milliseconds=MINUTE) - MOMENT)

    def exactly_again(self) -> datetime:
        """Move to the end of that lease."""
        return self._clock.move_to(self.end - MOMENT + timedelta(milliseconds=MINUTE))


@asynccontextmanager
async def minute(place: Place) -> AsyncIterator[Moment]:
    """A store whose time is the test's, a minute before an end."""
    async with timed(place) as (store, clock):
        yield Moment(store, clock)
