"""Children of steps that end their parent: every child that a step spawns is created."""

import asyncio

import pytest

from headway import Final, State, Statechart, any_live, person
from headway.actions import spawn
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.store.queries import InstanceQuery, LetterQuery
from headway.testing import FakeClock, Harness
from headway.testing.memory import MemoryStore, Tables
from headway.worker import Handlers, Work
from tests.refusals import refusal_of

pytestmark = pytest.mark.mission("ENG-3", "ENG-12")


class Cleanup(Statechart):
    """Frees what its parent has used."""

    freeing, freed = State(initial=True, run="free"), Final()
    done = freeing.on_done.to(freed)


class Quick(Statechart):
    """Ends in the step that begins it."""

    here, gone = State(initial=True), Final()
    end = here.always.to(gone)


class Stage(Statechart, cancel="stop"):
    """Cleans up however it ends: by the state it enters, the state's exit, or the transition."""

    open_ = State(initial=True)
    by_entry = Final(entry=spawn("Cleanup"))
    by_exit = Final(exit=spawn("Cleanup"))
    by_move = Final()
    twice = Final(entry=(spawn("Quick"), spawn("Cleanup")))
    stopped = Final(entry=spawn("Cleanup"))
    inner = Final(entry=spawn("Cleanup"))
    outer = State(inner)
    nested = Final(entry=spawn("Quick"))

    enter = open_.to(by_entry)
    leave = open_.to(by_exit)
    move = open_.to(by_move, do=spawn("Cleanup"))
    both = open_.to(twice)
    nest = open_.to(outer)
    unnest = outer.on_done.to(nested)
    stop = any_live.to(stopped)
    expire = open_.after("1h").to(by_entry)


class Together(Stage, children="together", name="Together"):
    """The same, but it hears of its children together."""


class Brief(Statechart):
    """Begins and ends in one step, and leaves a child."""

    here, gone = State(initial=True), Final(entry=spawn("Cleanup"))
    end = here.always.to(gone)


class Fragile(Statechart):
    """Ends with the first of its children that ends; it has three."""

    whole, broken = State(initial=True), Final()
    split = whole.stay(do=(spawn("Quick"), spawn("Cleanup"), spawn("Quick")))
    break_ = whole.on("child.changed").to(broken)


class Gang(Fragile, children="together", name="Gang"):
    """The same, but it hears of its children together."""


class Heir(Statechart, max_depth=3):
    """Leaves another of its kind when it ends, to a limited depth."""

    alive, dead = State(initial=True), Final(entry=spawn("Heir"))
    die = alive.to(dead)


class Phoenix(Statechart, max_depth=3):
    """Ends as it begins and leaves another of its kind: that never ends."""

    alive, dead = State(initial=True), Final(entry=spawn("Phoenix"))
    die = alive.always.to(dead)


class House(Statechart, cancel="close"):
    """Has stages; to cancel it is to cancel them."""

    open_ = State(initial=True, entry=spawn("Stage"))
    closed = Final()
    close = open_.to(closed)


CHARTS = (Cleanup, Quick, Stage, Together, Brief, Fragile, Gang, Heir, Phoenix, House)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store, with a handler that frees."""
    handlers = Handlers()

    @handlers
    async def free(_: Work) -> None:
        """Nothing to do."""

    return Harness(*CHARTS, handlers=handlers, database=database, clock=clock)


async def family(harness: Harness, parent: str) -> list[tuple[str, str]]:
    """Chart and status of an instance's children."""
    rows = await harness.tenant.list(parent=parent)
    return [(row.chart, row.status) for row in rows]


ENDS = {
    "enter": ["Cleanup"],
    "leave": ["Cleanup"],
    "move": ["Cleanup"],
    "both": ["Quick", "Cleanup"],
    "nest": ["Cleanup", "Quick"],
    "stop": ["Cleanup"],
}


@pytest.mark.parametrize("chart", [Stage, Together])
async def test_a_step_that_ends_an_instance_creates_the_children_it_spawns(
    made: Harness, chart: type[Statechart]
) -> None:
    """By entry, exit and transition, several, and through nested finals; their work runs."""
    async with made as harness:
        for name, charts in ENDS.items():
            (await harness.tenant.create(chart, name)).unwrap()
            receipt = (await harness.tenant.send(name, getattr(chart, name)())).unwrap()
            assert receipt.ended
            begun = {"Cleanup": "freeing", "Quick": "gone"}
            assert await family(harness, name) == [(each, begun[each]) for each in charts]
        await harness.run_until_idle()
        for name, charts in ENDS.items():
            over = {"Cleanup": "freed", "Quick": "gone"}
            assert await family(harness, name) == [(each, over[each]) for each in charts]


async def test_an_end_by_timer_or_at_birth_creates_children_too(made: Harness) -> None:
    """Whatever sends the event that ends it, and also when it is its creation."""
    async with made as harness:
        (await harness.tenant.create(Stage, "late")).unwrap()
        (await harness.tenant.create(Brief, "brief")).unwrap()
        await harness.advance("1h")
        for name in ("late", "brief"):
            assert (await harness.tenant.get(name)).ended
            assert await family(harness, name) == [("Cleanup", "freed")]


async def test_a_child_of_an_ended_parent_reports_to_nobody(made: Harness) -> None:
    """The parent stays as it ended: no line of history, no new count."""
    async with made as harness:
        (await harness.tenant.create(Stage, "s")).unwrap()
        (await harness.tenant.send("s", Stage.enter())).unwrap()
        before = await harness.tenant.get("s")
        await harness.run_until_idle()
        assert await harness.tenant.get("s") == before
        assert [line.event for line in await harness.tenant.history("s")] == ["start", "enter"]


@pytest.mark.parametrize("chart", [Fragile, Gang])
async def test_a_child_that_ends_its_parent_does_not_undo_its_siblings(
    made: Harness, chart: type[Statechart]
) -> None:
    """All children of a step are created, whatever the first of them does to the parent."""
    async with made as harness:
        (await harness.tenant.create(chart, "f")).unwrap()
        (await harness.tenant.send("f", chart.split())).unwrap()  # type: ignore[attr-defined]  # both have it
        assert (await harness.tenant.get("f")).states == ("broken",)
        assert await family(harness, "f") == [("Quick", "gone"), ("Cleanup", "freeing"), ("Quick", "gone")]


async def test_depth_is_limited_after_the_end_too(made: Harness) -> None:
    """An heir at the limit cannot leave another; what would go on for ever does not even begin."""
    async with made as harness:
        name = "h"
        (await harness.tenant.create(Heir, name)).unwrap()
        for _ in range(3):
            (await harness.tenant.send(name, Heir.die())).unwrap()
            (row,) = await harness.tenant.list(parent=name)
            name = row.id
        last = await refusal_of(harness.tenant.send(name, Heir.die()))
        assert last.code == "depth"
        endless = await refusal_of(harness.tenant.create(Phoenix, "p"))
        assert endless.code == "depth"
        assert await harness.tenant.list(chart="Phoenix") == []


async def test_a_cancellation_does_not_cancel_its_own_cleanup(made: Harness) -> None:
    """Children that the cancelling step spawns live on, on every level; those from before are cancelled."""
    async with made as harness:
        (await harness.tenant.create(House, "h")).unwrap()
        (await harness.tenant.cancel("h")).unwrap()
        await harness.run_until_idle()
        ((stage, status),) = await family(harness, "h")
        assert (stage, status) == ("Stage", "stopped")
        assert await family(harness, "h:1:0") == [("Cleanup", "freed")]
        assert await harness.node.engine.store.letters.page(LetterQuery(dead=True, limit=10)) == []


async def test_the_memory_store_creates_them_too() -> None:
    """The store of the simulator keeps the same rule."""
    async with Engine(MemoryStore(Tables(), FakeClock()), CHARTS) as engine:
        await engine.create("t", "s", Stage)
        answer = await engine.send("t", "s", Stage.both())
        assert isinstance(answer, Receipt)
        rows = await engine.list(InstanceQuery(tenant="t", parent="s"))
        assert [(row.chart, row.status) for row in rows] == [("Quick", "gone"), ("Cleanup", "freeing")]


async def test_several_ends_in_one_batch_each_create_their_children(made: Harness) -> None:
    """Parents that end in one transaction do not take each other's children."""
    async with made as harness:
        names = [f"s{number}" for number in range(5)]
        await asyncio.gather(*(harness.tenant.create(Together, name) for name in names))
        await asyncio.gather(*(harness.tenant.send(name, Together.enter()) for name in names))
        for name in names:
            assert await family(harness, name) == [("Cleanup", "freeing")]


class Leaf(Statechart, owner="{creator}"):
    """Belongs to who created the one above."""

    here, gone = State(initial=True), Final()
    end = here.to(gone, by="{creator}")


class Branch(Statechart, owner="{creator}"):
    """Spawns leaves."""

    here = State(initial=True)
    grow = here.stay(do=spawn("Leaf"))


@pytest.mark.mission("ENG-20")
async def test_a_child_belongs_to_the_creator_of_its_parent(database: str, clock: FakeClock) -> None:
    """Whoever sends the event that spawns it: the child has its parent's creator, who may act on it."""
    ann = person("ann")
    async with Harness(Branch, Leaf, database=database, clock=clock) as life:
        await life.tenant.create(Branch, "b", by=ann)
        await life.tenant.send("b", Branch.grow(by=person("bob")))
        [child] = await life.tenant.list(parent="b")
        assert (child.owner, (await life.tenant.get(child.id)).creator) == ("ann", "ann")
        assert (await life.tenant.send(child.id, Leaf.end(by=ann))).ended
