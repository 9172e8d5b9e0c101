"""Calls of one moment share a transaction, and must not notice it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headway import Final, No, State, Statechart, View, person
from headway.actions import add, put, record, spawn
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.errors import EngineError, InputError, InstanceExistsError, RequestReusedError, TooLargeError
from headway.node import Node
from headway.outbox import Subscriber
from headway.statechart.model import Fact
from headway.store.address import store_at
from headway.store.unit import Changes
from headway.testing import FakeClock, Harness
from headway.worker import Retention
from tests.refusals import refusal_of

ANN = person("ann")


class Job(Statechart):
    """Counts itself as it begins."""

    running, done = State(initial=True, entry=add("running:ann")), Final()
    finish = running.to(done)


class Plan(Statechart):
    """Says how many may run."""

    kept = State(initial=True)
    close = kept.stay(do=(put(limit=0), record("plan", "ann", "limit")))


def has_room(view: View) -> bool | No:
    """Nothing runs, and the plan does not say that nothing may."""
    plan = view.facts["plan"] or {"limit": 1}
    return view.facts["running"] < plan["limit"] or No("no room")


FACTS = (
    Fact(name="running", kind="counter", key="running:ann"),
    Fact(name="plan", kind="record", key="plan:ann"),
)


class Gate(Statechart, facts=FACTS):
    """Opens while nothing runs."""

    shut, open_ = State(initial=True), Final()
    push = shut.to(open_, when=has_room)


class Brief(Statechart, owner="{user}"):
    """Ends as soon as it begins, unless it is to wait."""

    begun, waiting, done = State(initial=True), State(), Final()
    stay = begun.always.to(waiting, when="wait == true")
    end = begun.always.to(done)


def has_none(view: View) -> bool | No:
    """The owner has nothing that lives, but this."""
    return view.facts["lives"] == 0 or No(f"{view.facts['lives']} live")


class Look(Statechart, facts=(Fact(name="lives", kind="instances", key="Brief:{user}"),)):
    """Sees how many brief ones an owner has."""

    idle, seen = State(initial=True), Final()
    look = idle.to(seen, when=has_none)


class Leaf(Statechart):
    """Ends at once."""

    done = Final()
    here = State(initial=True)
    end = here.always.to(done)


class Tree(Statechart, cancel="fell"):
    """Ends with its first leaf, though it wanted two."""

    bare, full, felled = State(initial=True), Final(), Final()
    grow = bare.stay(do=(spawn("Leaf"), spawn("Leaf")))
    drop = bare.on("child.changed").to(full)
    fell = bare.to(felled)


CHARTS = (Job, Plan, Gate, Brief, Look, Leaf, Tree)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    return Harness(*CHARTS, database=database, clock=clock)


@pytest.mark.mission("ENG-3", "ENG-4")
async def test_a_guard_sees_what_calls_before_it_in_the_same_batch_have_stored(made: Harness) -> None:
    """Counters and records, also those that nobody had read before."""
    async with made as harness:
        tenant = harness.tenant
        for name in ("g1", "g2"):
            await tenant.create(Gate, name)
        _, pushed = await asyncio.gather(tenant.create(Job, "j"), refusal_of(tenant.send("g1", Gate.push())))
        assert str(pushed) == str(await refusal_of(tenant.send("g1", Gate.push())))
        assert "no room" in str(pushed)
        (await tenant.send("j", Job.finish())).unwrap()
        await tenant.create(Plan, "p")
        _, pushed = await asyncio.gather(
            tenant.send("p", Plan.close()), refusal_of(tenant.send("g2", Gate.push()))
        )
        assert "no room" in str(pushed)


async def test_what_ends_as_it_begins_does_not_count_for_its_owner(made: Harness) -> None:
    """Only what lives is counted."""
    async with made as harness:
        tenant = harness.tenant
        for number in range(3):
            await tenant.create(Brief, f"b{number}", {"user": "ann"})
        await tenant.create(Look, "l1", {"user": "ann"})
        (await tenant.send("l1", Look.look())).unwrap()
        await tenant.create(Brief, "waits", {"user": "ann", "wait": True})
        await tenant.create(Look, "l2", {"user": "ann"})
        assert "1 live" in str(await refusal_of(tenant.send("l2", Look.look())))


@pytest.mark.mission("ENG-12")
async def test_names_of_children_are_their_parents_to_give(made: Harness) -> None:
    """Nobody can take the name of a child; both children are created though the first ends the parent."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Tree, "t")
        with pytest.raises(InputError, match="names of this form are for children"):
            await tenant.create(Leaf, "t:2:0")
        (await tenant.send("t", Tree.grow())).unwrap()
        assert (await tenant.get("t")).states == ("full",)
        assert [row.id for row in await tenant.list(parent="t")] == ["t:2:0", "t:2:1"]


async def test_names_that_are_none_are_refused(made: Harness) -> None:
    """Empty tenants, instances and request ids, and names without room for children."""
    async with made as harness:
        engine, tenant = harness.node.engine, harness.tenant
        await tenant.create(Tree, "t")
        for call in (
            engine.create("", "i", Tree),
            engine.create("t", "", Tree),
            tenant.send("t", Tree.grow(), request_id=""),
        ):
            with pytest.raises(InputError):
                await call
        with pytest.raises(TooLargeError):
            await tenant.create(Tree, "x" * 201)
        with pytest.raises(InstanceExistsError):
            await tenant.create(Tree, "t")


@pytest.mark.mission("ENG-6")
async def test_a_cancellation_with_children_is_another_call(made: Harness) -> None:
    """The same request id does not answer for both."""
    async with made as harness:
        await harness.tenant.create(Tree, "t")
        (await harness.tenant.cancel("t", children=False, request_id="r")).unwrap()
        with pytest.raises(RequestReusedError):
            await harness.tenant.cancel("t", children=True, request_id="r")


async def test_a_watcher_that_fails_harms_nobody(made: Harness) -> None:
    """The event is committed, and its sender hears so."""

    def fail(_changes: Changes) -> None:
        raise ValueError

    async with made as harness:
        harness.node.engine.watch(fail)
        assert isinstance(await harness.tenant.create(Tree, "t"), Receipt)


async def hear(_message: object) -> None:
    """Hears, and does nothing."""


def test_what_a_node_cannot_work_with_is_refused_at_once() -> None:
    """Two of one name, and settings that would only fail later."""
    memory = "sqlite:///:memory:"
    twice = [Subscriber("s", hear), Subscriber("s", hear)]
    with pytest.raises(InputError, match="several destinations"):
        Node(memory, CHARTS, destinations=twice)
    with pytest.raises(InputError, match="Handlers"):
        Node(memory, CHARTS, handlers={"x": hear})  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InputError, match="retention"):
        Node(memory, CHARTS, retention=Retention(messages="soon"))
    with pytest.raises(InputError, match="list of strings"):
        Node(memory, CHARTS, secrets="one long secret of many words")
    with pytest.raises(InputError, match="kinds must be among"):
        Subscriber("s", hear, kinds="topics")


async def test_two_charts_of_one_name_and_version_are_told_apart() -> None:
    """An engine takes one of them, and creates nothing by the other."""
    other: Any = type("Tree", (Statechart,), {"only": State(initial=True)})
    with pytest.raises(EngineError, match="two charts are called Tree v1"):
        Engine(store_at("sqlite:///:memory:"), [Tree, Leaf, other])
    async with Harness(Tree, Leaf) as harness:
        with pytest.raises(EngineError, match="another chart"):
            await harness.tenant.create(other, "t")


class Ladder(Statechart):
    """Can only be climbed rung by rung."""

    one, two, three = State(initial=True), State(), State()
    top = Final()
    climb_2 = one.to(two)
    climb_3 = two.to(three)
    climb_4 = three.to(top)


CLIMB = (Ladder.climb_2, Ladder.climb_3, Ladder.climb_4)


@pytest.mark.mission("ENG-4")
async def test_many_sends_keep_their_order_over_several_batches(database: str) -> None:
    """Events of one instance are decided in the order in which they were sent, however many lie between."""
    others = [f"other-{number}" for number in range(600)]
    async with Node(database, [Ladder, Job]).opened() as tenant:
        await tenant.create(Ladder, "ladder")
        await asyncio.gather(*(tenant.create(Job, name) for name in others))
        events = [
            event
            for rung in CLIMB
            for event in [("ladder", rung()), *((name, Job.finish()) for name in others)]
        ]
        answers = await tenant.send_many(events)
        climbed = [answers[number * 601] for number in range(3)]
        assert [isinstance(answer, Receipt) for answer in climbed] == [True, True, True]


@pytest.mark.mission("ENG-4")
async def test_sends_keep_their_order_beside_one_that_cannot_be_stored(postgres_address: str) -> None:
    """A batch that is taken apart is decided in its own order."""
    async with Node(postgres_address, [Ladder]).opened() as tenant:
        for name in ("ladder", "bad", "other"):
            await tenant.create(Ladder, name)
        unfit = Ladder.climb_2(by=ANN, reason="\0")
        events = [("ladder", CLIMB[0]()), ("bad", unfit), ("ladder", CLIMB[1]()), ("other", CLIMB[0]())]
        answers = await tenant.send_many([*events, ("ladder", CLIMB[2]()), ("other", CLIMB[1]())])
        assert [isinstance(answer, Receipt) for answer in answers] == [True, False, True, True, True, True]
        assert isinstance(answers[1], InputError)


@pytest.mark.mission("ENG-4")
async def test_request_ids_of_many_are_no_others(database: str) -> None:
    """An id that is made of another one and a number is never that of a call which names such an id."""
    async with Node(database, [Ladder]).opened() as tenant:
        for name in ("a", "b", "c"):
            await tenant.create(Ladder, name)
        first = await tenant.send_many([("a", CLIMB[0]())], request_id="r")
        single = await tenant.send("b", CLIMB[0](), request_id="r/0")
        nested = await tenant.send_many([("c", CLIMB[0]())], request_id="r/0")
        again = await tenant.send_many([("a", CLIMB[0]())], request_id="r")
        assert [getattr(each, "instance", each) for each in (*first, single, *nested)] == ["a", "b", "c"]
        assert list(again) == list(first)


async def test_an_engine_can_be_closed_by_several_at_once(database: str) -> None:
    """All of them wait for what is under way."""
    node = Node(database, [Job])
    await node.open()
    sending = asyncio.ensure_future(node.tenant().create(Job, "a"))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.gather(node.engine.close(), node.engine.close())
    assert isinstance(await sending, Receipt)


def test_an_engine_serves_another_loop_when_the_first_has_ended_in_the_middle(tmp_path: Path) -> None:
    """What was under way when a loop ended is not waited for in the next one."""
    node = Node(f"sqlite:///{tmp_path}/loops.db", [Job])

    async def abandon() -> None:
        await node.open()
        task = asyncio.ensure_future(node.tenant().create(Job, "a"))
        await asyncio.sleep(0)
        task.cancel()

    async def go_on() -> str:
        async with asyncio.timeout(60):
            await node.tenant().create(Job, "b")
            state = (await node.tenant().get("b")).state
            await node.engine.close()
        return state

    asyncio.run(abandon())
    assert asyncio.run(go_on()) == "running"


@pytest.mark.parametrize("name", ["a\0b", "\0"])
async def test_names_hold_no_nul(name: str, database: str) -> None:
    """PostgreSQL cannot store it, and so no store takes it."""
    async with Node(database, [Job]).opened() as tenant:
        with pytest.raises(InputError, match="NUL"):
            await tenant.create(Job, name)
        with pytest.raises(InputError, match="NUL"):
            await tenant.create(Job, "a", request_id=name)
