"""Live things that stay with a worker between the states of an instance."""

from functools import partial
from typing import Any, cast

import pytest

from headway import Final, Run, State, Statechart, any_live
from headway.errors import InputError, ResourceTakenError
from headway.store.port import Store
from headway.worker.handlers import Handlers
from headway.worker.work import Work
from tests.worker.faults import Breakable
from tests.worker.world import TENANT, World, begun, moments, sent, until, where, worked

pytestmark = pytest.mark.mission("ENG-10")


class Browsing(Statechart):
    """Two states that share a browser, with a person between them."""

    opening = State(initial=True, run=Run("open", affinity="browser:{instance}"))
    asking = State()
    filling = State(run=Run("fill", affinity="browser:{instance}"))
    done, failed = Final(), Final()
    opened = opening.on_done.to(asking)
    go_on = asking.to(filling)
    filled = filling.on_done.to(done)
    broken = opening.on_error.to(failed) | filling.on_error.to(failed)
    stop = any_live.to(failed)


class Browsers:
    """The handlers, and what became of the browsers."""

    def __init__(self) -> None:
        self.handlers = Handlers()
        self.handlers.add("open", self.open)
        self.handlers.add("fill", self.fill)
        self.closed: list[str] = []
        self.found: list[tuple[Any, bool]] = []

    async def open(self, work: Work) -> None:
        """Open a browser."""
        assert (work.resource, work.resource_lost) == (None, False)
        await work.hold(f"browser of {work.instance}", close=lambda: self.close(work.instance))

    async def fill(self, work: Work) -> None:
        """Use the browser."""
        self.found.append((work.resource, work.resource_lost))
        await work.release_resource()

    async def close(self, instance: str) -> None:
        """Close a browser."""
        self.closed.append(instance)


async def test_work_comes_to_the_worker_that_holds_its_resource(everywhere: World) -> None:
    """While the lease lasts no other worker gets the work; the handler finds the live thing and closes it."""
    mine, theirs = Browsers(), Browsers()
    async with everywhere.engines(Browsing, number=2) as [here, there]:
        await begun(here, "a", chart=Browsing)
        first = everywhere.worker(here, mine.handlers)
        second = everywhere.worker(there, theirs.handlers)
        await worked(first)
        for _ in range(30):
            everywhere.clock.advance("10s")
            await first.beat()
        await sent(here, "a", Browsing.go_on())
        assert not await second.turn()
        await worked(first)
        assert mine.found == [("browser of a", False)]
        assert mine.closed == ["a"]
        assert (await where(here)).states == ("done",)
        assert await here.store.leases.get((TENANT, "browser:a")) is None


async def test_a_lost_resource_is_told(everywhere: World) -> None:
    """When the worker that had it gives no sign any more, another gets the work and hears of the loss."""
    mine, theirs = Browsers(), Browsers()
    async with everywhere.engines(Browsing, number=2) as [here, there]:
        await begun(here, "a", chart=Browsing)
        await worked(everywhere.worker(here, mine.handlers))
        everywhere.clock.advance("90s")
        await sent(here, "a", Browsing.go_on())
        await worked(everywhere.worker(there, theirs.handlers))
        assert theirs.found == [(None, True)]


async def test_a_worker_that_cannot_extend_its_hold_closes_the_resource(world: World) -> None:
    """After its lease is over the live thing may be another's to make anew."""
    mine = Browsers()
    async with world.engine(Browsing) as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a", chart=Browsing)
        worker = world.worker(engine, mine.handlers)
        await worked(worker)
        world.clock.advance("90s")
        await worker.beat()
        await moments()
        assert mine.closed == ["a"]
        await sent(engine, "a", Browsing.go_on())
        await worked(worker)
        assert mine.found == [(None, True)]


async def test_a_hold_that_another_has_taken_is_closed(world: World) -> None:
    """A worker that finds its name taken closes what it had under it."""
    mine = Browsers()
    async with world.engine(Browsing) as engine:
        await begun(engine, "a", chart=Browsing)
        worker = world.worker(engine, mine.handlers)
        await worked(worker)
        name = (TENANT, "browser:a")
        await engine.store.leases.release([name], worker.id)
        assert await engine.store.leases.hold([name], "another", 90_000) == [name]
        world.clock.advance("10s")
        await worker.beat()
        await moments()
        assert mine.closed == ["a"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_end_of_the_instance_closes_its_resource(world: World, *, elsewhere: bool) -> None:
    """No browser outlives the life it was opened for, whoever ends that life."""
    mine = Browsers()
    async with world.engines(Browsing, number=2) as [here, there]:
        await begun(here, "a", "b", chart=Browsing)
        worker = world.worker(here, mine.handlers)
        await worked(worker)
        await sent(there if elsewhere else here, "a", Browsing.stop())
        if elsewhere:
            assert mine.closed == []
            world.clock.advance("10s")
            await worker.beat()
        await until(lambda: mine.closed == ["a"])
        await worker.stop()
        assert await here.store.leases.get((TENANT, "browser:a")) is None
        assert sorted(mine.closed) == ["a", "b"]


async def test_the_end_of_the_worker_closes_everything(world: World) -> None:
    """A worker that stops leaves nothing open, and the names to others; a close that fails stops no other."""
    mine = Browsers()

    async def close(instance: str) -> None:
        mine.closed.append(instance)
        if instance == "a":
            raise RuntimeError("it is stuck")

    mine.close = close  # type: ignore[method-assign]
    async with world.engine(Browsing) as engine:
        await begun(engine, "a", "b", chart=Browsing)
        worker = world.worker(engine, mine.handlers)
        await worked(worker)
        await worker.stop()
        assert sorted(mine.closed) == ["a", "b"]
        for instance in "ab":
            assert await engine.store.leases.get((TENANT, f"browser:{instance}")) is None


async def test_a_worker_stops_and_closes_everything_without_its_database(world: World) -> None:
    """The leases of its resources expire by themselves."""
    mine = Browsers()
    async with world.engine(Browsing) as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a", "b", chart=Browsing)
        worker = world.worker(engine, mine.handlers)
        await worked(worker)
        breakable.broken.add("leases.release")
        await worker.stop()
        breakable.broken.clear()
        assert sorted(mine.closed) == ["a", "b"]
        assert await engine.store.leases.get((TENANT, "browser:a")) is not None


async def test_a_resource_gives_way_to_a_new_one(world: World) -> None:
    """Holding another thing under the same name closes the first; the same thing again stays open."""
    closed: list[str] = []

    async def handler(work: Work) -> None:
        for thing in ("first", "first", "second"):
            await work.hold(thing, close=partial(closed.append, thing))
        assert (work.resource, closed) == ("second", ["first"])

    async with world.engine(Browsing) as engine:
        handlers = Handlers()
        handlers.add("open", handler)
        await begun(engine, "a", chart=Browsing)
        worker = world.worker(engine, handlers)
        await worked(worker)
        assert (await where(engine)).states == ("asking",)


async def test_what_cannot_be_held_is_told(world: World) -> None:
    """A name that another worker holds, or work without affinity, is an error where it is asked for."""
    errors: list[type[Exception]] = []

    async def handler(work: Work) -> None:
        await engine.store.leases.hold([(TENANT, "browser:a")], "another", 90_000)
        try:
            await work.hold("mine")
        except (ResourceTakenError, InputError) as error:
            errors.append(type(error))

    class Plain(Statechart):
        doing = State(initial=True, run="open")
        done = Final()
        finish = doing.on_done.to(done)

    async with world.engine(Browsing, Plain) as engine:
        handlers = Handlers()
        handlers.add("open", handler)
        await begun(engine, "a", chart=Browsing)
        await worked(world.worker(engine, handlers))
        await begun(engine, "b", chart=Plain)
        await worked(world.worker(engine, handlers))
        assert errors == [ResourceTakenError, InputError]
