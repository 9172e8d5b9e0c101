"""Nodes with different versions of a chart on one database: each goes on with what it knows alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway import Ask, Final, Retry, Run, State, Statechart, Upgrade, person
from headway.actions import spawn, tell
from headway.engine.nodes import UnknownVersion, nodes_without, unknown_versions
from headway.engine.upgrade.upgrade import upgrade
from headway.errors import StoreUnavailableError, UnknownVersionError
from headway.statechart.chart import Charted
from headway.statechart.snapshot import Event, work_done, work_failed
from headway.store.queries import LetterQuery, MessageQuery, TimerQuery, WorkQuery
from headway.testing import FakeClock, Harness
from headway.worker import Handlers, Work
from headway.worker.worker import Worker

pytestmark = pytest.mark.mission("ENG-21")

T = "default"
BOSS = person("boss", "boss")


PAYMENT = Run("pay", timeout="10m", lease="30s", heartbeat="5s", retry=Retry(times=2, base="1s"))


class Order(Statechart, version=1):
    """An order that is paid and then waits for a day."""

    asked = State(initial=True, ask=Ask("boss", deadline="10d"))
    paying = State(
        run=Run("pay", timeout="10m", lease="30s", heartbeat="5s", retry=Retry(times=2, base="1s"))
    )
    resting = State()
    done, failed = Final(), Final()

    pay = asked.to(paying, by="boss")
    expire = asked.on_deadline.to(failed)
    paid = paying.on_done.to(resting)
    broke = paying.on_error.to(failed)
    rested = resting.after("1d").to(done)
    nudge = resting.to(done)


class NewOrder(Statechart, name="Order", version=2, upgrades={1: Upgrade()}):
    """The same order with a later version's rules."""

    asked = State(initial=True, ask=Ask("boss", deadline="10d"))
    paying = State(
        run=Run("pay", timeout="10m", lease="30s", heartbeat="5s", retry=Retry(times=2, base="1s"))
    )
    resting = State()
    done, failed, lost = Final(), Final(), Final()

    pay = asked.to(paying, by="boss")
    expire = asked.on_deadline.to(lost)
    paid = paying.on_done.to(resting)
    broke = paying.on_error.to(failed)
    rested = resting.after("1d").to(done)
    nudge = resting.to(done)


class Teller(Statechart):
    """Sends a word to an order."""

    waiting = State(initial=True)
    said = Final()
    say = waiting.to(said, do=tell("to", "nudge"))


class Part(Statechart):
    """A part of a whole, whose work is done by any node."""

    making = State(initial=True, run="make")
    made = Final()
    done = making.on_done.to(made)


class Whole(Statechart, version=2):
    """A whole that is done when its parts are, which only new nodes know."""

    waiting = State(initial=True, entry=(spawn("Part"), spawn("Part")))
    whole = Final()
    joined = waiting.always.to(whole, when="children.made == 2")


class Nodes:
    """Nodes on one database, and how often each handler ran where."""

    def __init__(self, database: str, clock: FakeClock) -> None:
        self.database, self.clock = database, clock
        self.calls: list[tuple[str, str]] = []
        self.gates: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def node(self, name: str, *charts: Charted) -> AsyncIterator[Harness]:
        """A node that knows these versions."""
        handlers = Handlers()

        @handlers
        async def pay(work: Work) -> None:
            self.calls.append((name, work.instance))
            if name in self.gates:
                await self.gates[name].wait()
                work.progress(0.5, coins=3)

        @handlers
        async def make(work: Work) -> None:
            self.calls.append((name, work.instance))

        node = Harness(*charts, handlers=handlers, database=self.database, clock=self.clock, name=name)
        async with node as harness:
            await harness.node.presence.turn()
            yield harness


@pytest.fixture
def nodes(database: str) -> Nodes:
    """Nodes on each kind of database."""
    return Nodes(database, FakeClock())


async def paid(new: Harness, *names: str) -> None:
    """Orders whose payment is due."""
    for name in names:
        await new.tenant.create("Order", name)
        (await new.tenant.send(name, NewOrder.pay(by=BOSS))).unwrap()


async def states(harness: Harness, *names: str) -> list[str]:
    """Where instances stand."""
    return [(await harness.tenant.get(name)).state for name in names]


async def test_work_of_an_unknown_version_is_left_alone(nodes: Nodes) -> None:
    """An old node neither runs it nor counts an attempt; the new one runs it once."""
    async with nodes.node("new", Order, NewOrder) as new, nodes.node("old", Order) as old:
        await paid(new, "a")
        await old.run_until_idle()
        await old.advance("5m")
        assert nodes.calls == []
        [row] = await new.node.engine.store.work.page(WorkQuery(T))
        assert (row.attempt, row.worker, row.version) == (1, None, 2)
        await new.run_until_idle()
        assert nodes.calls == [("new", "a")]
        assert await states(new, "a") == ["resting"]


async def test_timers_of_an_unknown_version_fire_where_it_is_known(nodes: Nodes) -> None:
    """The old node fires its own and does not put the others off; both are on time."""
    async with nodes.node("new", Order, NewOrder) as new, nodes.node("old", Order) as old:
        await old.tenant.create("Order", "mine")
        await new.tenant.create("Order", "theirs")
        nodes.clock.advance("11d")
        await old.run_until_idle()
        assert await states(old, "mine", "theirs") == ["failed", "asked"]
        await new.run_until_idle()
        assert await states(new, "theirs") == ["lost"]
        assert old.node.timers.tally["put_off"] == new.node.timers.tally["put_off"] == 0


async def test_nodes_that_know_different_versions_share_no_duty(nodes: Nodes) -> None:
    """Neither waits for a lease of the other, though both run timers and rescue."""
    async with nodes.node("old", Order) as old, nodes.node("new", NewOrder) as new:
        await old.run_until_idle()
        await new.tenant.create("Order", "theirs")
        await new.advance("11d")
        assert await states(new, "theirs") == ["lost"]


async def test_lost_work_is_rescued_where_its_version_is_known(nodes: Nodes) -> None:
    """The old node leaves the attempt of a dead worker to others."""
    nodes.gates["dead"] = asyncio.Event()
    async with nodes.node("old", Order) as old:
        async with nodes.node("dead", Order, NewOrder) as dead:
            await paid(dead, "a")
            assert dead.node.worker is not None
            await dead.node.worker.turn()
            await asyncio.sleep(0)
            dead.node.worker._attempts.held.clear()  # it is gone from one moment to the next
        nodes.clock.advance("2m")
        await old.run_until_idle()
        [row] = await old.node.engine.store.work.page(WorkQuery(T))
        assert row.attempt == 1
        async with nodes.node("new", NewOrder) as new:
            await new.advance("5s")
            assert await states(new, "a") == ["resting"]
    assert nodes.calls == [("dead", "a"), ("new", "a")]


async def test_calls_for_an_unknown_version_say_so(nodes: Nodes) -> None:
    """Nothing has changed, and the answer names the version."""
    async with nodes.node("new", NewOrder) as new, nodes.node("old", Order) as old:
        await new.tenant.create("Order", "a")
        before = await old.tenant.get("a")
        calls = [
            old.tenant.send("a", Order.pay(by=BOSS)),
            old.tenant.answer((await old.tenant.inbox(BOSS))[0].id, "pay", by=BOSS),
            old.tenant.why("a"),
        ]
        for call in calls:
            with pytest.raises(UnknownVersionError, match="does not know chart Order v2; it knows v1"):
                await call
        assert await old.tenant.get("a") == before


async def test_a_message_waits_for_a_node_that_knows_the_receiver(nodes: Nodes) -> None:
    """However long that takes, it is no dead letter and uses no attempt; then it arrives once."""
    async with nodes.node("old", Order, Teller) as old:
        async with nodes.node("new", NewOrder, Teller) as new:
            await paid(new, "a")
            await new.run_until_idle()
        await old.tenant.create("Teller", "t", context={"to": "a"})
        await old.tenant.send("t", Teller.say())
        await old.advance("20m")
        [letter] = await old.node.engine.store.letters.page(LetterQuery(destination="instances"))
        assert (letter.dead, letter.attempts) == (False, 1)
        assert "does not know chart Order v2" in letter.error
        await old.node.relays[0].stop()
        async with nodes.node("new", NewOrder, Teller) as new:
            await new.advance("10s")
            assert await states(new, "a") == ["done"]
            assert not await new.node.engine.store.letters.page(LetterQuery(destination="instances"))


async def test_a_relay_makes_way_for_a_node_that_knows_more(nodes: Nodes) -> None:
    """The node that has the lease gives it to one that can deliver, and both go on."""
    async with nodes.node("old", Order, Teller) as old, nodes.node("new", NewOrder, Teller) as new:
        await paid(new, "a")
        await new.advance("1s")
        await new.node.relays[0].stop()
        await old.tenant.create("Teller", "t", context={"to": "a"})
        await old.tenant.send("t", Teller.say())
        await old.run_until_idle()
        assert old.node.relays[0].tally["made_way"] == 1
        await new.advance("2s")
        assert await states(new, "a") == ["done"]


async def test_a_parent_of_an_unknown_version_hears_of_its_children(nodes: Nodes) -> None:
    """An old node may do a child's work; the parent counts it where its version is known."""
    async with nodes.node("old", Part) as old, nodes.node("new", Part, Whole) as new:
        await new.tenant.create("Whole", "w")
        await old.run_until_idle()
        assert [name for name, _ in nodes.calls] == ["old", "old"]
        await old.node.relays[0].stop()
        await new.advance("10s")
        whole = await new.tenant.get("w")
        assert (whole.state, whole.children) == ("whole", {"made": 2})


@pytest.mark.mission("ENG-19")
async def test_an_outcome_reaches_an_instance_that_was_upgraded_meanwhile(nodes: Nodes) -> None:
    """The old node cannot end the work any more and has it ended by another: it is done once."""
    gate = nodes.gates["old"] = asyncio.Event()
    async with nodes.node("old", Order) as old, nodes.node("new", Order, NewOrder) as new:
        await old.tenant.create("Order", "a")
        await old.tenant.send("a", Order.pay(by=BOSS))
        assert old.node.worker is not None
        await old.node.worker.turn()
        await upgrade(new.node.engine, "Order", 2)
        gate.set()
        await old.node.worker.settled()
        assert old.node.worker.tally["forwarded"] == 1
        await old.node.relays[0].stop()
        await new.advance("2s")
        assert await states(new, "a") == ["resting"]
        assert nodes.calls == [("old", "a")]


@pytest.mark.mission("ENG-10")
async def test_progress_that_is_forwarded_twice_is_counted_once(nodes: Nodes) -> None:
    """A node that does not know whether its message is stored forwards the same counters again."""
    gate = nodes.gates["old"] = asyncio.Event()
    async with nodes.node("old", Order) as old, nodes.node("new", Order, NewOrder) as new:
        worker, engine, forward = await paying(old), old.node.engine, old.node.engine.forward
        await upgrade(new.node.engine, "Order", 2)
        failures = [StoreUnavailableError("the connection is gone")]

        async def unsure(*call: Any, **more: Any) -> None:
            await forward(*call, **more)
            nodes.clock.advance("1s")
            store = new.node.engine.store
            sent = [
                each.id for each in (await store.messages.page(MessageQuery(kinds=("deliver",)))).messages
            ]
            assert len(sent) == len({*sent})
            if failures:
                raise failures.pop()

        engine.forward = unsure  # type: ignore[method-assign]
        gate.set()
        await worker.settled()
        await old.node.relays[0].stop()
        await new.advance("2s")
        order = await new.tenant.get("a")
        assert (order.states, order.counters) == (("resting",), {"coins": 3})
        assert await new.node.letters.list(T) == []


async def test_an_outcome_that_comes_too_late_is_no_dead_letter(nodes: Nodes) -> None:
    """Nobody waits for an attempt that is over: its outcome is dropped, as where the version is known."""
    nodes.gates["old"] = asyncio.Event()
    async with nodes.node("old", Order) as old, nodes.node("new", Order, NewOrder) as new:
        await paying(old)
        await upgrade(new.node.engine, "Order", 2)
        [work] = (await new.tenant.get("a")).work.values()
        for event in (work_done(work.id, work.attempt), work_failed(work.id, work.attempt, "broken")):
            await old.node.engine.forward(T, "a", event)
        await old.node.relays[0].stop()
        await new.advance("2s")
        assert await states(new, "a") == ["resting"]
        assert await new.node.letters.list(T) == []
        nodes.gates["old"].set()


async def test_who_watches_the_engine_hears_of_what_is_forwarded(nodes: Nodes) -> None:
    """So that a relay delivers it at once, and other nodes are told of it."""
    async with nodes.node("new", Order, NewOrder) as new:
        await new.tenant.create("Order", "a")
        seen: list[str] = []
        new.node.engine.watch(lambda changes: seen.extend(each.name for each in changes.messages))
        await new.node.engine.forward(T, "a", Event("nudge"))
        assert seen == ["nudge"]


async def paying(old: Harness) -> Worker:
    """The worker of an old node that has begun to pay an order."""
    await old.tenant.create("Order", "a")
    await old.tenant.send("a", Order.pay(by=BOSS))
    worker = old.node.worker
    assert worker is not None
    await worker.turn()
    return worker


@pytest.mark.mission("ENG-19")
async def test_what_an_instance_holds_follows_its_upgrade(nodes: Nodes) -> None:
    """Timers and work of an upgraded instance are no longer the old node's."""
    async with nodes.node("old", Order) as old, nodes.node("new", Order, NewOrder) as new:
        for name in ("asked", "paying"):
            await old.tenant.create("Order", name)
        await old.tenant.send("paying", Order.pay(by=BOSS))
        await upgrade(new.node.engine, "Order", 2)
        nodes.clock.advance("11d")
        await old.run_until_idle()
        assert await states(new, "asked", "paying") == ["asked", "paying"]
        await new.run_until_idle()
        assert await states(new, "asked", "paying") == ["lost", "resting"]
        assert nodes.calls == [("new", "paying")]


def overtaken(harness: Harness, read: str, by: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an upgrade be committed between what a node reads and what it does."""
    name, method = read.split(".")
    noun = getattr(harness.node.engine.store, name)
    reading = getattr(noun, method)

    async def read_then_upgraded(*call: Any) -> Any:
        rows = await reading(*call)
        await upgrade(by.node.engine, "Order", 2)
        return rows

    monkeypatch.setattr(noun, method, read_then_upgraded)


async def test_a_timer_stays_with_its_version_when_an_upgrade_comes_first(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old node cannot fire it any more: it neither takes it back to the old version nor puts it off."""
    async with nodes.node("old", Order) as old, nodes.node("new", Order, NewOrder) as new:
        await old.tenant.create("Order", "a")
        [before] = await old.node.engine.store.timers.page(TimerQuery(T))
        nodes.clock.advance("11d")
        overtaken(old, "timers.due", new, monkeypatch)
        await old.node.timers.turn()
        [timer] = await new.node.engine.store.timers.page(TimerQuery(T))
        assert (timer.version, timer.due) == (2, before.due)


@pytest.mark.mission("ENG-10")
async def test_lost_work_stays_with_its_version_when_an_upgrade_comes_first(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old node does not hand the same attempt out again: one that knows the version takes it back."""
    nodes.gates["old"] = asyncio.Event()
    async with nodes.node("old", Order) as old, nodes.node("new", Order, NewOrder) as new:
        worker = await paying(old)
        nodes.clock.advance("1m")
        overtaken(old, "work.expired", new, monkeypatch)
        await old.node.rescue.turn()
        [work] = await new.node.engine.store.work.page(WorkQuery(T))
        assert (work.version, work.worker, work.attempt) == (2, worker.id, 1)
        await new.node.rescue.turn()
        [work] = await new.node.engine.store.work.page(WorkQuery(T))
        assert (work.version, work.worker, work.attempt) == (2, None, 2)
        nodes.gates["old"].set()


async def test_living_versions_that_a_node_does_not_know_are_named(nodes: Nodes) -> None:
    """With the nodes that know them; none is named that nobody lives by."""
    async with nodes.node("old", Order) as old:
        store, known = old.node.engine.store, old.node.engine.charts.versions
        async with nodes.node("new", NewOrder, Teller) as new:
            assert await unknown_versions(store, known) == ()
            await new.tenant.create("Order", "a")
            assert await unknown_versions(store, known) == (UnknownVersion("Order", 2, ("new",)),)
            assert await nodes_without(store, ("Order", 2)) == ("old",)
            await new.node.presence.stop()
        [found] = await unknown_versions(store, known)
        assert str(found) == "Order v2 (no living node knows it)"


async def test_old_versions_cost_one_look_at_the_instances(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many old versions are stored; who knows all of them does not look at the instances."""
    looks: list[str] = []
    async with nodes.node("old", Order, Teller) as old, nodes.node("new", NewOrder) as new:
        await old.tenant.create("Order", "a")
        store = new.node.engine.store
        look = store.charts.living_versions

        async def looked() -> Any:
            looks.append("all")
            return await look()

        monkeypatch.setattr(store.charts, "living_versions", looked)
        [found] = await unknown_versions(store, new.node.engine.charts.versions)
        assert (found.chart, found.version, looks) == ("Order", 1, ["all"])
        everything = [("Order", 1), ("Order", 2), ("Teller", 1)]
        assert (await unknown_versions(store, everything), looks) == ((), ["all"])
