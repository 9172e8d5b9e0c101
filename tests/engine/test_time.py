"""Timers, rescue and retention: what the engine does by itself as time passes."""

from datetime import timedelta

import pytest

from headway import Event, Final, Retry, State, Statechart, View, any_live
from headway.actions import topic
from headway.codec import decode
from headway.engine.audit.audit import Audit
from headway.engine.engine import Engine
from headway.store.address import store_at
from headway.store.queries import Claim as WorkClaim
from headway.store.queries import InstanceQuery, MessageQuery, WorkQuery
from headway.testing import FakeClock, Harness
from headway.worker import Handlers, Retention, Work
from headway.worker.timers import Timers


class Patience(Statechart, cancel="give_up"):
    """Waits a minute, then an hour, then works, and is over after a week in any case."""

    waiting = State(initial=True)
    dozing = State()
    working = State(run="work", retry=Retry(2, base="10s", on="lost"))
    done, gone = Final(), Final()

    wake = waiting.after("1m").to(dozing)
    rouse = dozing.after("1h").to(working, do=topic("roused"))
    skip = waiting.to(dozing)
    finish = working.on_done.to(done)
    lose = working.on_error("lost").to(gone)
    give_up = any_live.to(gone)
    expire = any_live.after("1w").to(gone)


def fail(view: View) -> dict[str, object]:
    """An action that fails."""
    return {"found": view.context["nothing"]}


class Faulty(Statechart):
    """Its timer's action fails."""

    waiting, done = State(initial=True), Final()
    wake = waiting.after("1m").to(done, do=fail)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    return Harness(Patience, Faulty, database=database, clock=clock)


@pytest.mark.mission("ENG-9")
async def test_timers_fire_once_in_due_order_and_after_a_restart(made: Harness) -> None:
    """Each at its own time, whatever the process went through; lateness is measured."""
    async with made as harness:
        begun = harness.clock.now()
        for name in ("a", "b"):
            await harness.tenant.create(Patience, name)
            harness.clock.advance("10s")
        await harness.restart()
        harness.clock.advance("1h")
        await harness.run_until_idle()
        rows = await harness.tenant.list(status="dozing")
        assert [row.id for row in rows] == ["a", "b"]
        timers = harness.node.timers
        assert timers.tally["fired"] == 2
        assert [round(late) for late in timers.lateness] == [3560, 3550]
        await harness.advance("1h")
        assert {row.status for row in await harness.tenant.list()} == {"working"}
        moments = [row.at - begun for row in await harness.tenant.history("a")]
        assert moments[1] == timedelta(seconds=3620)


@pytest.mark.mission("ENG-9")
async def test_a_timer_of_a_state_already_left_does_nothing(made: Harness) -> None:
    """Its row goes with the state; one that was read before is refused and swept away."""
    async with made as harness:
        await harness.tenant.create(Patience, "a")
        harness.clock.advance("2m")
        stale = await harness.node.engine.store.timers.due(10, harness.node.engine.charts.versions)
        (await harness.tenant.send("a", Patience.skip())).unwrap()
        seq = (await harness.tenant.get("a")).seq
        await harness.node.timers._fire(stale)
        await harness.run_until_idle()
        assert (await harness.tenant.get("a")).seq == seq
        assert await harness.node.engine.store.timers.due(10, harness.node.engine.charts.versions) == []


async def test_a_timer_that_fails_is_put_off_and_stops_no_other(made: Harness) -> None:
    """A fault in one chart's action costs the others nothing, and is tried again."""
    async with made as harness:
        await harness.tenant.create(Faulty, "bad")
        await harness.tenant.create(Patience, "good")
        harness.clock.advance("2m")
        await harness.run_until_idle()
        assert (await harness.tenant.get("good")).states == ("dozing",)
        assert (await harness.tenant.get("bad")).states == ("waiting",)
        assert harness.node.timers.tally["put_off"] == 1
        await harness.advance("1m")
        assert harness.node.timers.tally["put_off"] == 2
        assert [flaw async for flaw in Audit(harness.node.engine.store).everything()] == []


@pytest.mark.mission("ENG-9")
async def test_one_node_fires_and_another_takes_over(database: str, clock: FakeClock) -> None:
    """A second node leaves the timers to the first, until that lets go or is not heard of any more."""
    async with Harness(Patience, database=database, clock=clock) as first:
        await first.run_until_idle()
        second = Engine(store_at(database, clock=clock), [Patience])
        async with second:
            timers = Timers(second)
            await first.tenant.create(Patience, "a")
            clock.advance("10s")
            await second.send("default", "a", Event("skip"))
            assert not await timers._lease.hold()
            clock.advance("2h")
            assert await timers._lease.hold()
            await timers.turn()
            assert (await second.get("default", "a")).states == ("working",)


@pytest.mark.mission("ENG-10")
async def test_work_whose_worker_is_gone_is_taken_from_it(database: str, clock: FakeClock) -> None:
    """After the lease the chart's retry policy decides; the lost worker can finish nothing."""
    handlers = Handlers()

    @handlers
    async def work(work: Work) -> int:
        return work.attempt

    async with Harness(Patience, database=database, clock=clock) as first:
        await first.tenant.create(Patience, "a")
        await first.advance("2h")
        engine = first.node.engine
        dead = WorkClaim("dead", ("default",), 9, engine.charts.versions)
        [taken] = await engine.store.work.claim(dead)
        await first.advance("89s")
        assert (await first.tenant.get("a")).work["working"].attempt == 1
        await first.advance("2s")
        assert (await first.tenant.get("a")).work["working"].attempt == 2
        assert first.node.rescue.tally["rescued"] == 1
        late = await first.node.engine.send("default", "a", Event("work.done", ref=taken.id, attempt=1))
        assert not late
    async with Harness(Patience, database=database, clock=clock, handlers=handlers) as second:
        await second.advance("1m")
        assert (await second.tenant.get("a")).states == ("done",)
        assert await second.node.engine.store.work.page(WorkQuery(tenant="default")) == []


@pytest.mark.mission("ENG-6")
async def test_what_has_had_its_time_is_deleted(database: str, clock: FakeClock) -> None:
    """Request ids when they expire, messages and ended instances as long as retention says."""
    kept = Retention(messages="2d", charts={"Patience": "3d"})
    async with Harness(Patience, database=database, clock=clock, retention=kept) as harness:
        store = harness.node.engine.store
        for name in ("a", "b"):
            await harness.tenant.create(Patience, name, request_id=name)
        await harness.advance("2h")
        (await harness.tenant.cancel("a")).unwrap()
        await harness.advance("1d")
        assert harness.node.pruning.tally["requests"] == 2
        assert len((await store.messages.page(MessageQuery(kinds=("topic",)))).messages) == 2
        await harness.advance("1d")
        assert (await store.messages.page(MessageQuery(kinds=("topic",)))).messages == []
        assert len(await harness.tenant.list()) == 2
        await harness.advance("1d 1s")
        assert [row.id for row in await harness.node.engine.list(InstanceQuery(tenant="default"))] == ["b"]
        assert await harness.tenant.history("a") == []
        assert decode(object, (await harness.node.engine.row("default", "b")).snapshot)
