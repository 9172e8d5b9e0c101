"""Faults that the simulator's checks were written for, each as the shortest world that shows it."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from headway import Final, Refusal, Retry, Run, State, Statechart, Upgrade, any_live
from headway.actions import spawn
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.engine.upgrade.upgrade import upgrade
from headway.errors import StoreUnavailableError
from headway.outbox.destination import Subscriber
from headway.outbox.instances import InstanceDestination
from headway.outbox.message import Message
from headway.outbox.relay import Relay
from headway.statechart.snapshot import Actor, work_done
from headway.store.queries import Claim, LetterPlace
from headway.store.unit import Unit
from headway.testing import FakeClock
from headway.testing.memory import MemoryStore, Tables
from headway.testing.memory.letters import MemoryLetters
from headway.testing.simulate.database import ConnectionFaults, DatabaseClock, UnreliableStore
from headway.testing.simulate.loop import context_of, generator, new_loop
from headway.worker.rescue import Rescue
from headway.worker.timers import Timers


class Chore(Statechart):
    """Work that is tried again when its worker is lost."""

    doing = State(initial=True, run=Run("do", heartbeat="1s", lease="3s", retry=Retry(3, base="1s")))
    done, failed = Final(), Final()
    finish = doing.on_done.to(done)
    fail = doing.on_error.to(failed)


class Flaky(MemoryStore):
    """Loses the connection before the next unit, when it is told to."""

    fails = False

    async def run(self, unit: Unit) -> None:
        """Run a unit, or lose the connection."""
        if self.fails:
            self.fails = False
            raise StoreUnavailableError("the connection was lost")
        await super().run(unit)


@pytest.mark.mission("ENG-10")
async def test_an_attempt_that_a_faulty_rescue_met_is_not_handed_out_twice() -> None:
    """Who has lost its lease can end nothing, also when the database failed in the middle of the rescue."""
    clock = FakeClock()
    store = Flaky(Tables(), clock)
    async with Engine(store, [Chore]) as engine:
        await engine.create("t", "a", Chore)
        [first] = await store.work.claim(Claim("frozen", ("default",), 1, engine.charts.versions))
        clock.advance("4s")
        rescue = Rescue(engine)
        store.fails = True
        with pytest.raises(StoreUnavailableError):
            await rescue.turn()
        for _ in range(3):
            clock.advance("61s")
            await rescue.turn()
        [second] = await store.work.claim(Claim("other", ("default",), 1, engine.charts.versions))
        assert (first.attempt, second.attempt) == (1, 2)
        late = work_done(first.id, first.attempt, by=Actor("frozen", "service", frozenset({"system"})))
        answer = await engine.send("t", "a", late)
        assert isinstance(answer, Refusal)
        assert answer.code == "stale"


class Nap(Statechart):
    """Ends by itself."""

    asleep = State(initial=True)
    awake = Final()
    wake = asleep.after("1s").to(awake)


@pytest.mark.mission("ENG-9")
async def test_a_node_that_may_not_fire_timers_rests() -> None:
    """While the node that may is away, the others do not ask the database without a pause."""
    clock = FakeClock()
    tables = Tables()
    async with (
        Engine(MemoryStore(tables, clock), [Nap]) as here,
        Engine(MemoryStore(tables, clock), [Nap]) as there,
    ):
        first, second = Timers(here), Timers(there)
        await first.turn()
        await here.create("t", "a", Nap)
        clock.advance("2s")
        assert not await second.turn()
        assert await second.rest() == second.longest_rest
        assert await first.rest() == 0


class Part(Statechart, cancel="stop"):
    """Lives until it is stopped."""

    alive = State(initial=True)
    stopped = Final()
    stop = any_live.to(stopped)


class Whole(Statechart, cancel="stop"):
    """Has a part from the beginning."""

    alive = State(initial=True, entry=spawn("Part"))
    stopped = Final()
    stop = any_live.to(stopped)


@pytest.mark.mission("ENG-7", "ENG-12")
async def test_a_cancellation_reaches_children_that_were_born_later_by_the_clock() -> None:
    """The database's clock was set back between a child's birth and the cancellation of its parent."""
    before, tables = FakeClock(), Tables()
    before.advance("5s")
    async with Engine(MemoryStore(tables, before), [Whole, Part]) as engine:
        await engine.create("t", "a", Whole)
    async with Engine(MemoryStore(tables, FakeClock()), [Whole, Part]) as engine:
        await engine.cancel("t", "a")
        relay = Relay(engine, InstanceDestination(engine))
        while await relay.turn():
            pass
        assert (await engine.get("t", "a:1:0")).ended


class LongerNap(Statechart, name="Nap", version=2, upgrades={1: Upgrade()}):
    """Sleeps on."""

    asleep = State(initial=True)
    awake = Final()
    wake = asleep.after("5s").to(awake)


@pytest.mark.mission("ENG-9", "ENG-19")
async def test_a_timer_that_an_upgrade_moves_while_it_fires_comes_when_it_is_due() -> None:
    """It was read as due under the old version, and is not put off by longer than the new one says."""
    clock = FakeClock()
    tables = Tables()
    async with Engine(MemoryStore(tables, clock), [Nap, LongerNap]) as engine:
        async with Engine(MemoryStore(tables, clock), [Nap]) as old:
            await old.create("t", "a", Nap)
        clock.advance("2s")
        due = await engine.store.timers.due(1, engine.charts.versions)
        await upgrade(engine, "Nap", 2)
        timers = Timers(engine)
        await timers._postpone(due, await timers._fire(due))
        assert [row.due for row in tables.timers.values()] == [due[0].due + timedelta(seconds=4)]
        clock.advance("3s")
        await timers.turn()
        assert (await engine.get("t", "a")).ended


@pytest.mark.mission("ENG-3")
@pytest.mark.parametrize("steps", [None, *range(1, 12)])
def test_a_process_that_ends_before_it_hears_of_its_commit_does_nothing_more(steps: int | None) -> None:
    """After any of its steps, or at the very moment of the commit: who is gone is told nothing."""
    loop, tables = new_loop(1), Tables()
    told: list[object] = []
    link = UnreliableStore(tables, DatabaseClock(loop), loop, ConnectionFaults(generator(1)))

    def kill() -> None:
        loop.end("p")
        link.cut()
        told.append("killed")

    async def process() -> None:
        async with Engine(link, [Nap], node="p") as engine:
            engine.watch(told.append)
            for name in "abcdef":
                receipt = await engine.create("t", name, Nap)
                told.append(receipt)
            await asyncio.sleep(60)

    async def world() -> None:
        _ = loop.create_task(process(), context=context_of("p"))
        await asyncio.sleep(2)

    if steps is None:
        tables.watchers.append(lambda _changes, _now: kill())
    else:
        loop.kill_after("p", steps, kill)
    loop.run(world())
    loop.close()
    assert told[-1] == "killed"
    assert len(tables.instances) >= sum(isinstance(each, Receipt) for each in told)
    if steps is None:
        assert len(tables.instances) == len(told) == 1


class Talk(Statechart):
    """Says something, and then something else."""

    quiet, loud = State(initial=True), State()
    over = Final()
    first = quiet.to(loud, emit="first")
    second = loud.to(over, emit="second")


class Unread(MemoryLetters):
    """Cannot read the letters that wait, when it is told so."""

    fails = False

    async def waiting(self, destination: str, after: LetterPlace, limit: int) -> Sequence[LetterPlace]:
        """Read them, or lose the connection."""
        if self.fails:
            self.fails = False
            raise StoreUnavailableError("the connection was lost")
        return await super().waiting(destination, after, limit)


@pytest.mark.mission("ENG-5")
async def test_a_relay_that_could_not_read_who_waits_reads_it_again() -> None:
    """It does not take a message for the first of its instance while an earlier one waits."""
    taken: list[str] = []

    async def take(message: Message) -> None:
        if len(taken) < 1 and message.attempt == 1:
            raise OSError("not now")
        taken.append(message.name)

    clock, tables = FakeClock(), Tables()
    async with Engine(MemoryStore(tables, clock), [Talk]) as engine:
        await engine.create("t", "a", Talk)
        await engine.send("t", "a", Talk.first())
        before = Relay(engine, Subscriber("ear", take, begins="first"))
        await before.turn()
        await before.stop()
        await engine.send("t", "a", Talk.second())
    store = MemoryStore(tables, clock)
    store.letters = unread = Unread(store.call)
    async with Engine(store, [Talk]) as engine:
        relay = Relay(engine, Subscriber("ear", take, begins="first"))
        unread.fails = True
        with pytest.raises(StoreUnavailableError):
            await relay.take_up()
        await relay.turn()
        assert taken == []
        clock.advance("1h")
        while await relay.turn():
            pass
        assert taken == ["first", "second"]
