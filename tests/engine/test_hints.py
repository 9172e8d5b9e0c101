"""What wakes a service is not lost on the way, neither by a fault nor by a moment that fits badly."""

from collections.abc import Collection
from datetime import datetime, timedelta

import pytest

from headway import Final, State, Statechart
from headway.engine.engine import Engine
from headway.engine.nodes import Announcer
from headway.errors import StoreUnavailableError
from headway.store.rows import Version
from headway.store.sqlite.store import SqliteStore
from headway.store.sqlite.timers import SqliteTimers
from headway.store.unit import Changes
from headway.testing import FakeClock
from headway.worker.timers import Timers

pytestmark = pytest.mark.mission("ENG-8")


class Nap(Statechart):
    """A timer."""

    asleep = State(initial=True)
    awake = Final()
    wake = asleep.after("300ms").to(awake)


class LateTimers(SqliteTimers):
    """Timers during whose answers something may happen."""

    meanwhile: Engine | None = None

    async def next(self, versions: Collection[Version]) -> datetime | None:
        """Answer with what was true before something happened."""
        at = await super().next(versions)
        if self.meanwhile is not None:
            await self.meanwhile.create("acme", "late", Nap)
        return at


class Deaf(SqliteStore):
    """A store that cannot announce for a while."""

    announced: list[Collection[str]]
    deaf = True

    async def announce(self, topics: Collection[str]) -> None:
        """Fail, or note what is announced."""
        if self.deaf:
            raise StoreUnavailableError("not now")
        self.announced = [*self.announced, sorted(topics)]


def deaf(clock: FakeClock) -> Deaf:
    """A store of the test's own."""
    store = Deaf(":memory:", clock)
    store.announced = []
    return store


async def test_what_could_not_be_announced_is_announced_later(clock: FakeClock) -> None:
    """A database that is away when something new is to be told hears of it when it is back."""
    store = deaf(clock)
    async with Engine(store, [Nap]) as engine:
        announcer = Announcer(engine)
        engine.watch(announcer.look)
        await engine.create("acme", "a", Nap)
        with pytest.raises(StoreUnavailableError):
            await announcer.turn()
        announcer.look(Changes())
        store.deaf = False
        assert not await announcer.turn()
        assert not await announcer.turn()
        assert store.announced == [["events", "timers"]]


async def test_a_timer_that_is_set_while_the_service_looks_for_the_next_wakes_it(clock: FakeClock) -> None:
    """It need not wait for the end of the rest, though the service has not seen it."""
    store = deaf(clock)
    async with Engine(store, [Nap]) as engine:
        timers = Timers(engine)
        engine.watch(timers._look)
        await engine.create("acme", "early", Nap)
        await timers.turn()
        assert await timers.rest() == pytest.approx(0.3)
        clock.advance(timedelta(milliseconds=300))
        await timers.turn()
        assert timers.tally["fired"] == 1
        timers._woken.clear()
        store.timers = late = LateTimers(store._database)
        late.meanwhile = engine
        assert await timers.rest() == timers.longest_rest, "the store did not know of the new timer yet"
        assert timers._woken.is_set()
