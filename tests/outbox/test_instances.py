"""Messages from instance to instance: sent once as events, to one receiver or to all children."""

import asyncio
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest

from headway import Event, Final, No, State, Statechart, View, any_live, person
from headway.actions import put, spawn, tell
from headway.codec import encode
from headway.engine.engine import Engine
from headway.engine.orders import Receipt, tracing
from headway.errors import DeliveryError, PermanentError, StoreUnavailableError
from headway.lifecycles.supervision.chart import Job, Supervisor, Worker
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun
from headway.outbox.instances import InstanceDestination, sender
from headway.outbox.letters import Letters
from headway.outbox.message import Message
from headway.outbox.relay import Relay
from headway.statechart.snapshot import SYSTEM, work_done
from headway.store.port import Store
from headway.store.queries import InstanceQuery, MessageQuery
from headway.testing import FakeClock
from tests.outbox.world import ACME, Failing, memory_store, until_idle

pytestmark = pytest.mark.mission("ENG-5", "ENG-12")

ANN = person("ann", "owner")


def parts(view: View) -> list[dict[str, Any]]:
    """As many parts as the event says, or those it says are willing or not."""
    asked = view.event.data
    each = asked if isinstance(asked, list) else [True] * asked
    return [{"willing": willing} for willing in each]


def willing(view: View) -> bool | No:
    """A part does what it is told, unless it does not want to."""
    return bool(view.context["willing"]) or No("this part does not want to")


def listen(view: View) -> dict[str, Any]:
    """Keep what was said."""
    return dict(view.event.data)


class Part(Statechart, cancel="drop"):
    """A part of a whole, which counts how often it was pushed."""

    idle = State(initial=True)
    busy = State()
    done, dropped = Final(), Final()
    begin = idle.to(busy, by="system", when=willing, do=tell("parent", "begun"))
    push = busy.stay(by="system", counts="pushes")
    end = busy.to(done)
    drop = any_live.to(dropped, by="system", do=tell("parent", "fell"))


class Whole(Statechart, cancel="stop"):
    """Tells its parts what to do."""

    open_ = State(initial=True)
    stopped = Final()
    grow = open_.stay(do=spawn("Part", parts))
    start_all = open_.stay(do=tell("children", "begin"))
    push_all = open_.stay(do=tell("children", "push"))
    grow_and_start = open_.stay(do=(spawn("Part", parts), tell("children", "begin")))
    begun = open_.stay(by="system", counts="begun")
    fell = open_.stay(by="system", counts="fallen")
    stop = any_live.to(stopped, by="owner", do=put(by="owner"))
    call = open_.stay(do=tell("friend", "hello", "words"))
    knock = open_.stay(do=tell("friend", "push"))


class Friend(Statechart):
    """Listens."""

    quiet, greeted = State(initial=True), State()
    gone = Final()
    hello = quiet.to(greeted, by="system", do=listen)
    leave = any_live.to(gone)


class World:
    """An engine, and the relay that brings messages from instance to instance."""

    def __init__(self, engine: Engine, clock: FakeClock) -> None:
        self.engine, self.clock = engine, clock
        self.instances = InstanceDestination(engine)
        self.relay = Relay(engine, self.instances)
        self.letters = Letters(engine.store)

    async def send(self, instance: str, event: Event) -> None:
        """An event that goes through."""
        answer = await self.engine.send(ACME, instance, event)
        assert isinstance(answer, Receipt), answer

    async def children(self, of: str = "whole") -> list[str]:
        """The statuses of the children."""
        rows = await self.engine.list(InstanceQuery(tenant=ACME, parent=of, limit=100_000))
        return [row.status for row in rows]

    async def errors(self) -> list[str]:
        """Why letters are dead."""
        return [letter.error for letter in await self.letters.list(ACME)]


def relay_of(store: Any, world: World) -> Relay:
    """A relay of the same messages on another store."""
    return Relay(Engine(store), world.instances)


@pytest.fixture
def world(store: Store, clock: FakeClock) -> World:
    """An engine over a store."""
    return World(Engine(store, (Part, Whole, Friend, TaskRun, TaskProcess)), clock)


async def test_one_instance_tells_another(world: World) -> None:
    """The event arrives with its data, from the instance, with the authority of the system."""
    await world.engine.create(ACME, "friend", "Friend", context={"heard": None})
    await world.engine.create(ACME, "whole", "Whole", context={"friend": "friend", "words": "hi"})
    await world.send("whole", Whole.call())
    await until_idle(world.relay)
    told = await world.engine.get(ACME, "friend")
    assert (told.states, told.context["words"]) == (("greeted",), "hi")
    assert (await world.engine.history(ACME, "friend"))[-1].actor == "instance:whole"
    assert world.instances.tally["sent"] == 1


async def test_a_parent_that_is_pruned_needs_no_message(world: World, store: Store) -> None:
    """A child that outlives it tells nobody, and that is no failure."""
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow(1))
    [part] = [row.id for row in await world.engine.list(InstanceQuery(tenant=ACME, parent="whole"))]
    await world.send("whole", Whole.stop(by=person("ann", "owner")))
    assert await store.instances.prune(await store.now() + timedelta(days=1), 10) == 1
    await world.send(part, Part.begin(by=SYSTEM))
    await until_idle(world.relay)
    assert (world.instances.tally["dropped"], await world.errors()) == (1, [])


@pytest.mark.parametrize("parted", [False, True], ids=["greeted", "gone"])
async def test_who_needs_no_message_gets_none(world: World, *, parted: bool) -> None:
    """A receiver that has ended, or is there already, is no failure."""
    await world.engine.create(ACME, "friend", "Friend")
    await world.engine.create(ACME, "whole", "Whole", context={"friend": "friend", "words": "hi"})
    await world.send("friend", Friend.leave() if parted else Friend.hello({}, by=sender("someone")))
    await world.send("whole", Whole.call())
    await until_idle(world.relay)
    assert world.instances.tally["dropped"] == 1
    assert await world.errors() == []


async def test_a_refused_message_is_a_dead_letter_and_can_be_driven_again(world: World) -> None:
    """No instance of that name, or no such event: the letter says why; driven again it can succeed."""
    await world.engine.create(ACME, "whole", "Whole", context={"friend": "friend", "words": "hi"})
    await world.send("whole", Whole.call())
    await until_idle(world.relay)
    (error,) = await world.errors()
    assert error == "UnknownInstanceError: there is no instance friend"
    await world.engine.create(ACME, "friend", "Friend")
    assert await world.letters.redrive(ACME, destination="instances") == 1
    await until_idle(world.relay)
    assert (await world.engine.get(ACME, "friend")).states == ("greeted",)
    await world.send("whole", Whole.knock())
    await until_idle(world.relay)
    assert [error.partition(": ")[2][:14] for error in await world.errors()] == ["unknown_event:"]


async def test_what_was_refused_can_succeed_when_driven_again(world: World) -> None:
    """A receiver that has moved on is asked anew."""
    await world.engine.create(ACME, "part", "Part", context={"willing": True})
    await world.engine.create(ACME, "whole", "Whole", context={"friend": "part"})
    await world.send("whole", Whole.knock())
    await until_idle(world.relay)
    assert [error.partition(": ")[2][:8] for error in await world.errors()] == ["illegal:"]
    await world.send("part", Part.begin(by=sender("someone")))
    assert await world.letters.redrive(ACME) == 1
    await until_idle(world.relay)
    assert (await world.engine.get(ACME, "part")).counters["pushes"] == 1
    assert await world.errors() == []


@pytest.mark.mission("ENG-14")
async def test_a_message_stays_within_its_tenant(world: World) -> None:
    """The same id in another tenant is another instance."""
    await world.engine.create("other", "friend", "Friend")
    await world.engine.create(ACME, "whole", "Whole", context={"friend": "friend", "words": "hi"})
    await world.send("whole", Whole.call())
    await until_idle(world.relay)
    assert (await world.engine.get("other", "friend")).states == ("quiet",)
    assert len(await world.errors()) == 1


async def test_all_children_are_told_and_those_that_do_not_wait_for_it_are_passed_over(world: World) -> None:
    """Three begin; one that has ended and one that is busy already are no failure."""
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow(2))
    await world.send("whole", Whole.start_all())
    await until_idle(world.relay)
    assert await world.children() == ["busy", "busy"]
    first = (await world.engine.list(InstanceQuery(tenant=ACME, parent="whole")))[0]
    await world.send(first.id, Part.end())
    await world.send("whole", Whole.grow_and_start(3))
    await until_idle(world.relay)
    assert await world.children() == ["done", "busy", "busy", "busy", "busy"]
    assert (await world.engine.get(ACME, "whole")).counters["begun"] == 5
    assert await world.errors() == []


async def test_children_that_refuse_are_named_after_all_have_been_told(world: World) -> None:
    """One that should have taken the message and did not makes a dead letter; the others go on."""
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow([True, False, True]))
    await world.send("whole", Whole.start_all())
    await until_idle(world.relay)
    assert await world.children() == ["busy", "idle", "busy"]
    (error,) = await world.errors()
    assert error.startswith("1 children refused it: 1 × guard: begin is refused in idle")


async def test_children_born_after_the_message_do_not_get_it(world: World) -> None:
    """A message is for those there were when it was sent, however late it is delivered."""
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow_and_start(1))
    world.clock.advance("1s")
    await world.send("whole", Whole.grow(1))
    await until_idle(world.relay)
    assert await world.children() == ["busy", "idle"]


async def test_a_repeat_changes_nothing(world: World) -> None:
    """After a crash before the settlement each child is told again, and nothing happens twice."""
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow_and_start(3))
    await until_idle(world.relay)
    await world.send("whole", Whole.push_all())
    failing = Failing(world.engine.store, StoreUnavailableError("it went away"))
    await world.relay.stop()
    crashing = relay_of(failing, world)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await crashing.turn()
    await crashing.stop()
    await until_idle(world.relay)
    rows = await world.engine.list(InstanceQuery(tenant=ACME, parent="whole"))
    pushes = [(await world.engine.get(ACME, row.id)).counters["pushes"] for row in rows]
    assert pushes == [1, 1, 1]
    assert world.instances.tally["sent"] >= 9


async def test_cancelling_a_parent_cancels_its_children(world: World) -> None:
    """Whoever may cancel the parent ends the children too, and the history says who it was."""
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow_and_start(3))
    answer = await world.engine.cancel(ACME, "whole", by=ANN)
    assert isinstance(answer, Receipt)
    await until_idle(world.relay)
    assert await world.children() == ["dropped"] * 3
    rows = await world.engine.list(InstanceQuery(tenant=ACME, parent="whole"))
    assert (await world.engine.history(ACME, rows[0].id))[-1].actor == "ann"
    assert await world.errors() == []


@pytest.mark.mission("TSK-F4")
async def test_stopping_a_task_run_stops_its_processes_and_then_itself(world: World) -> None:
    """The shipped lifecycle's message to all children does what its table says."""
    await world.engine.create(ACME, "run", "task_runs.run")
    (work,) = (await world.engine.get(ACME, "run")).work.values()
    await world.send("run", work_done(work.id, 1, {"processes": [{}, {}]}))
    user = person("uma", "user")
    await world.send("run", Event("continue", by=user))
    await until_idle(world.relay)
    assert await world.children("run") == ["Running", "Running"]
    await world.send("run", Event("stop", by=user))
    await until_idle(world.relay)
    assert await world.children("run") == ["Stopped", "Stopped"]
    assert (await world.engine.row(ACME, "run")).status == "Stopped"


@pytest.mark.mission("SUP-J", "SUP-JX")
async def test_cancelling_a_job_frees_its_workers_and_ends_its_sub_jobs(
    store: Store, clock: FakeClock
) -> None:
    """The shipped lifecycle finds workers by messages alone, and takes everything back by messages too."""
    engine = Engine(store, (Job, Supervisor, Worker))
    world = World(engine, clock)
    system = sender("test")
    await engine.create(ACME, "boss", "supervision.supervisor")
    for name in ("w1", "w2"):
        await engine.create(ACME, name, "supervision.worker", context={"supervisor": "boss"})
        await world.send(name, Worker.start_task({}, by=system))
    job = {"task_description": "count", "worker_count": 2, "supervisor": "boss"}
    await engine.create(ACME, "job", "supervision.job", context=job)
    await world.send("job", Job.validate(by=system))
    await until_idle(world.relay)
    await world.send("job", Job.delegate({"task_description": "count more"}, by=system))
    assert [len((await engine.get(ACME, name)).context["tasks"]) for name in ("w1", "w2")] == [1, 1]
    assert await world.children("job") == ["SUBMITTED"]
    await world.send("job", Job.cancel(by=person("uma", "user")))
    await until_idle(world.relay)
    assert [(await engine.get(ACME, name)).context["tasks"] for name in ("w1", "w2")] == [[], []]
    assert await world.children("job") == ["CANCELED"]
    assert await world.errors() == []


async def test_memory_is_flat_however_many_children_there_are(clock: FakeClock) -> None:
    """Children are told page by page."""
    async with memory_store(clock) as store:
        world = World(Engine(store, (Part, Whole)), clock)
        await world.engine.create(ACME, "whole", "Whole")
        for _ in range(2):
            await world.send("whole", Whole.grow(1_000))
        await world.send("whole", Whole.start_all())
        tracemalloc.start()
        await until_idle(world.relay)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert world.instances.tally["sent"] >= 2_000
        assert peak < 20_000_000


async def test_what_others_say_does_not_wait_for_very_many_children(clock: FakeClock) -> None:
    """Children are told in parts, each once, and a message that comes meanwhile goes between them."""
    async with memory_store(clock) as store:
        world = World(Engine(store, (Part, Whole, Friend)), clock)
        world.instances.longest_part = 0
        await world.engine.create(ACME, "whole", "Whole")
        await world.engine.create(ACME, "friend", "Friend")
        await world.engine.create(ACME, "other", "Whole", context={"friend": "friend", "words": "hi"})
        for _ in range(2):
            await world.send("whole", Whole.grow([True] * 400 + [False]))
        await world.send("whole", Whole.start_all())
        await until_idle(world.relay)
        assert sorted(await world.children()) == ["busy"] * 800 + ["idle"] * 2
        (error,) = await world.errors()
        assert error.startswith("2 children refused it")
        assert world.instances.tally["refused"] == 2
        world.instances.tally.clear()
        await world.send("whole", Whole.push_all())
        await world.send("other", Whole.call())
        await world.relay.turn()
        assert (await world.engine.get(ACME, "friend")).states == ("greeted",)
        assert world.instances.tally.total() == 500 + 1
        await until_idle(world.relay)
        assert world.instances.tally == {"sent": 800 + 1, "dropped": 2}


@pytest.mark.parametrize("data", [None, "text", {}, {"to": 7}])
async def test_a_message_without_a_receiver_is_hopeless(world: World, data: object) -> None:
    """What no chart writes is dead at once."""
    message = Message("msg_1", ACME, "a", "deliver", "hello", world.clock.now(), encode(data).decode())
    with pytest.raises(PermanentError):
        await world.instances.deliver(message)


def test_trouble_with_the_store_may_pass() -> None:
    """What is not the receiver's no is tried again."""

    async def played() -> None:
        clock = FakeClock()
        async with memory_store(clock) as store:
            engine = Engine(store, (Friend,))
            await engine.create(ACME, "friend", "Friend")
        message = Message("msg_1", ACME, "a", "deliver", "hello", clock.now(), '{"to":"friend"}')
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is no PermanentError
            await InstanceDestination(engine).deliver(message)
        assert not isinstance(caught.value, DeliveryError)

    asyncio.run(played())


async def test_a_message_belongs_to_the_trace_that_it_comes_from(world: World) -> None:
    """What its receiver does and says has the same trace as the call that began it."""
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    await world.engine.create(ACME, "whole", "Whole")
    await world.send("whole", Whole.grow(1))
    with tracing(trace):
        await world.send("whole", Whole.start_all())
    await until_idle(world.relay)
    messages = (await world.engine.store.messages.page(MessageQuery())).messages
    assert [(row.name, row.trace) for row in messages] == [("begin", trace), ("begun", trace)]
