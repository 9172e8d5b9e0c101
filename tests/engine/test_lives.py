"""Lives that depend on each other: facts between instances, parents and children, cancellation, versions."""

import asyncio

import pytest

from headway import Final, No, State, Statechart, View, any_live, person
from headway.actions import put, record, spawn, tell
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.errors import ChartChangedError, EngineError
from headway.statechart.model import Fact
from headway.statechart.snapshot import work_failed
from headway.store.address import store_at
from headway.testing import FakeClock, Harness
from headway.worker import Handlers, Work
from tests.refusals import refusal_of

ANN = person("ann", "owner")
PLAN = Fact(name="plan", kind="record", key="plan:{user}")
RUNNING = Fact(name="running", kind="instances", key=":{user}")
OPEN = Fact(name="open", meaning="whether new tasks are taken")


class Plan(Statechart):
    """Stores what a user may do."""

    kept = State(initial=True)
    change = kept.stay(do=(put(limit=2), record("plan", "{user}", "limit")))


def within_plan(view: View) -> bool | No:
    """The user may have one more, and new ones are taken."""
    limit = (view.facts["plan"] or {}).get("limit", 1)
    if not view.facts["open"]:
        return No("nothing is taken at the moment")
    return view.facts["running"] <= limit or No(f"{view.facts['running']} of {limit} are there already")


class Task(Statechart, facts=(PLAN, RUNNING, OPEN), owner="{user}"):
    """A user's task, of which there are as many as the plan allows."""

    waiting = State(initial=True)
    running = State()
    done = Final()
    begin = waiting.to(running, when=within_plan)
    finish = running.to(done)


class Part(Statechart, cancel="stop"):
    """A part of something larger, which may have parts itself."""

    working = State(initial=True, run="work")
    finished, broken, stopped = Final(), Final(), Final()
    split = working.stay(do=spawn("Part"))
    finish = working.on_done.to(finished)
    fail = working.on_error.to(broken, counts="errors")
    stop = any_live.to(stopped)


def grow(view: View) -> list[dict[str, object]]:
    """One more part for each that was asked for."""
    return [{} for _ in range(view.context.get("more", 0))]


class Whole(Statechart, cancel="stop", max_depth=3):
    """Waits for its parts, and lets more grow when the first are done."""

    gathering = State(initial=True, entry=spawn("Part", make=grow))
    growing = State(entry=(put(more=2), spawn("Part", make=grow)))
    complete, broken, stopped = Final(), Final(), Final()
    add_part = (gathering | growing).stay(do=spawn("Part"))
    hurry = gathering.stay(do=tell("children", "stop"))
    grow_more = gathering.on("child.changed").to(growing, when="children.finished == 2")
    settle = growing.on("child.changed").to(complete, when="children.finished == 4")
    give_up = any_live.on("child.changed").to(broken, when="counters.errors >= 2")
    stop = any_live.to(stopped)


handlers = Handlers()


@handlers
async def work(work: Work) -> str:
    """Does nothing, well."""
    return work.instance


async def test_guards_see_plans_running_instances_and_what_the_program_knows(
    database: str, clock: FakeClock
) -> None:
    """A record, a count of an owner's live instances, and a fact of the program, each as it is now."""
    taken = {"open": True}
    facts = {"Task.open": lambda tenant, _snapshot: taken["open"] and tenant == "default"}
    async with Harness(Plan, Task, database=database, clock=clock, facts=facts) as harness:
        tenant = harness.tenant
        for name in ("a", "b", "c"):
            (await tenant.create(Task, name, {"user": "ann"})).unwrap()
        (await tenant.create(Task, "of bob", {"user": "bob"})).unwrap()
        refusal = await refusal_of(tenant.send("a", Task.begin()))
        assert "3 of 1 are there already" in str(refusal)
        (await tenant.create(Plan, "p", {"user": "ann"})).unwrap()
        (await tenant.send("p", Plan.change())).unwrap()
        assert "3 of 2" in str(await refusal_of(tenant.send("a", Task.begin())))
        assert "3 of 2" in str(await tenant.why("a"))
        (await tenant.send("of bob", Task.begin())).unwrap()
        (await tenant.send("of bob", Task.finish())).unwrap()
        assert [row.id for row in await tenant.list(owner="ann")] == ["a", "b", "c"]
        taken["open"] = False
        assert "nothing is taken" in str(await refusal_of(tenant.send("a", Task.begin())))


async def test_the_count_of_an_owner_follows_every_end(database: str, clock: FakeClock) -> None:
    """What has ended does not count, so that others may begin."""
    facts = {"open": lambda _tenant, _snapshot: True}
    async with Harness(Task, database=database, clock=clock, facts=facts) as harness:
        tenant = harness.tenant
        await tenant.create(Task, "first", {"user": "ann"})
        (await tenant.send("first", Task.begin())).unwrap()
        await asyncio.gather(*(tenant.create(Task, f"t{n}", {"user": "ann"}) for n in range(9)))
        assert "10 of 1" in str(await refusal_of(tenant.send("t0", Task.begin())))
        (await tenant.send("first", Task.finish())).unwrap()
        assert "9 of 1" in str(await refusal_of(tenant.send("t0", Task.begin())))


def test_a_fact_that_nobody_knows_is_named_at_once() -> None:
    """An engine does not begin with a chart whose guards would fail."""
    with pytest.raises(EngineError, match="open of chart Task"):
        Engine(store_at("sqlite:///:memory:"), [Task])


@pytest.mark.mission("ENG-12")
async def test_a_parent_grows_and_is_complete_when_all_parts_are(database: str, clock: FakeClock) -> None:
    """Work of children runs, counts roll up, and a completion adds more children."""
    async with Harness(Whole, Part, database=database, clock=clock, handlers=handlers) as harness:
        (await harness.tenant.create(Whole, "w", {"more": 2})).unwrap()
        await harness.run_until_idle()
        snapshot = await harness.tenant.get("w")
        assert (snapshot.states, snapshot.children) == (("complete",), {"finished": 4})
        assert len(await harness.tenant.list(parent="w", status="finished")) == 4


@pytest.mark.mission("ENG-12")
async def test_errors_cascade_upward_and_cancellation_downward(database: str, clock: FakeClock) -> None:
    """Errors of grandchildren count at the top; whoever is cancelled takes all that live below along."""
    async with Harness(Whole, Part, database=database, clock=clock) as harness:
        tenant = harness.tenant
        await tenant.create(Whole, "w", {"more": 2})
        first, second = await tenant.list(parent="w")
        (await tenant.send(first.id, Part.split())).unwrap()
        [grandchild] = await tenant.list(parent=first.id)
        deep = await tenant.send(grandchild.id, Part.split())
        assert isinstance(deep, Receipt)
        [lowest] = await tenant.list(parent=grandchild.id)
        assert isinstance(await tenant.send(lowest.id, Part.split()), Receipt)
        [work_id] = [open_.id for open_ in (await tenant.get(grandchild.id)).work.values()]
        failed = work_failed(work_id, 1, "broken")
        (await tenant.send(grandchild.id, failed)).unwrap()
        assert (await tenant.get(first.id)).counters["errors"] == 1
        assert (await tenant.get("w")).counters["errors"] == 1
        (await tenant.cancel("w", by=ANN, reason="no longer wanted")).unwrap()
        await harness.run_until_idle()
        statuses = {row.id: row.status for row in await tenant.list()}
        assert statuses["w"] == statuses[first.id] == statuses[second.id] == "stopped"
        assert statuses[grandchild.id] == "broken"
        assert {row.actor for row in await tenant.history(first.id)} >= {"ann"}


@pytest.mark.mission("ENG-12")
async def test_a_child_too_deep_is_refused_with_its_parents_event(database: str, clock: FakeClock) -> None:
    """The limit is the chart's; nothing of the refused event stays."""

    class Deep(Statechart, max_depth=2):
        """Goes down as far as it may."""

        here = State(initial=True)
        down = here.stay(do=spawn("Deep"))

    async with Harness(Deep, database=database, clock=clock) as harness:
        await harness.tenant.create(Deep, "d")
        name = "d"
        for _ in range(2):
            (await harness.tenant.send(name, Deep.down())).unwrap()
            [row] = await harness.tenant.list(parent=name)
            name = row.id
        refusal = await refusal_of(harness.tenant.send(name, Deep.down()))
        assert refusal.code == "depth"
        assert await harness.tenant.list(parent=name) == []


@pytest.mark.mission("ENG-2", "ENG-12")
async def test_a_message_to_all_children_reaches_those_that_live(database: str, clock: FakeClock) -> None:
    """`tell("children", ...)` arrives after the commit, once."""
    async with Harness(Whole, Part, database=database, clock=clock) as harness:
        await harness.tenant.create(Whole, "w", {"more": 3})
        (await harness.tenant.send("w", Whole.hurry())).unwrap()
        await harness.run_until_idle()
        assert (await harness.tenant.get("w")).children == {"stopped": 3}


async def test_what_cannot_be_cancelled_says_so(database: str, clock: FakeClock) -> None:
    """A chart that names no event for it has an error of its own."""
    async with Harness(Plan, database=database, clock=clock) as harness:
        await harness.tenant.create(Plan, "p")
        with pytest.raises(EngineError, match="cannot be cancelled"):
            await harness.tenant.cancel("p")


async def test_why_tells_who_holds_the_work_and_which_children_are_missing(
    database: str, clock: FakeClock
) -> None:
    """What only the store knows stands beside the chart's own reasons."""
    async with Harness(Whole, Part, database=database, clock=clock) as harness:
        await harness.tenant.create(Whole, "w", {"more": 1})
        [part] = await harness.tenant.list(parent="w")
        assert part.id in str(await harness.tenant.why("w"))
        assert "waits in queue default for a worker" in str(await harness.tenant.why(part.id))


@pytest.mark.mission("ENG-19")
async def test_a_version_with_other_contents_is_refused(database: str, clock: FakeClock) -> None:
    """Unless the program says that it is being developed."""

    def made(target: str) -> type[Statechart]:
        class Road(Statechart, version=1):
            """Leads somewhere."""

            start = State(initial=True)
            here, there = Final(), Final()
            go = start.to(here if target == "here" else there)
            other = start.to(there if target == "here" else here)

        return Road

    async with Harness(made("here"), database=database, clock=clock):
        pass
    async with Harness(made("here"), database=database, clock=clock) as again:
        assert [row.chart for row in await again.node.engine.store.charts.all()] == ["Road"]
    with pytest.raises(ChartChangedError, match="Road v1"):
        await Harness(made("there"), database=database, clock=clock).node.open()
    async with Harness(made("there"), database=database, clock=clock, charts_may_change=True):
        pass
    async with Harness(made("there"), database=database, clock=clock):
        pass
