"""A relay: at least once, in order per instance, whatever receivers, leases and crashes do."""

import asyncio
import random
from datetime import timedelta

import pytest

from headway import Final, State, Statechart
from headway.engine.engine import Engine
from headway.errors import BusyError, DeliveryError, InputError, PermanentError, StoreUnavailableError
from headway.outbox.destination import Backoff, MessageFilter, Subscriber
from headway.outbox.letters import Letters
from headway.outbox.message import Message, message_id
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.store.queries import LetterQuery
from headway.testing import FakeClock
from tests.fuzzing import seeds
from tests.outbox.world import (
    ACME,
    QUICK,
    Failing,
    Reader,
    always,
    at_first,
    publish,
    relay_to,
    until_idle,
)
from tests.overlay import Overlay
from tests.store.contract.place import Place

pytestmark = pytest.mark.mission("ENG-5")

DESTINATION = "subscriber:reader"
NO = DeliveryError("not now")


class Bell(Statechart):
    """Rings."""

    still = State(initial=True)
    broken = Final()
    ring = still.stay(emit="bell.rung")
    drop = still.to(broken)


async def test_messages_arrive_once_in_order_and_only_once(store: Store) -> None:
    """What is published is delivered in its order, and a second relay finds nothing left to do."""
    reader = Reader()
    await publish(store, "a", "one", "two", data={"n": 1})
    await publish(store, "b", "three")
    relay = relay_to(store, reader, page=2)
    await until_idle(relay)
    assert reader.names == ["one", "two", "three"]
    assert (reader.taken[0].data, reader.taken[0].instance, reader.taken[0].tenant) == (
        {"n": 1},
        "a",
        ACME,
    )
    await relay.stop()
    again = relay_to(store, reader)
    await until_idle(again)
    assert reader.names == ["one", "two", "three"]
    assert relay.tally["delivered"] == 3


@pytest.mark.parametrize(("begins", "expected"), [("now", ["new"]), ("first", ["old", "new"])])
async def test_a_new_destination_begins_where_it_says(
    store: Store, clock: FakeClock, begins: str, expected: list[str]
) -> None:
    """It gets what is published from now on, or all there is, and a crash in between moves nothing."""
    reader = Reader()
    await publish(store, "a", "old")
    await relay_to(store, Reader(old=always(NO)), begins=begins, holder="one").turn()
    await publish(store, "a", "new")
    clock.advance("10s")
    await until_idle(relay_to(store, reader, begins=begins, holder="one"))
    assert reader.names == expected


async def test_a_beginning_that_fails_is_made_again(store: Store) -> None:
    """Trouble with the store at the first start does not bring back what was published long before."""
    reader, failing = Reader(), Failing(store, StoreUnavailableError("it went away"))
    relay = relay_to(failing, reader, begins="now")
    await publish(store, "a", "old")
    with pytest.raises(StoreUnavailableError):
        await relay._hold(await store.now())
    failing.fails = False
    await until_idle(relay)
    await publish(store, "a", "new")
    await until_idle(relay)
    assert reader.names == ["new"]


@pytest.mark.mission("ENG-14")
async def test_a_destination_gets_what_it_wants_and_nothing_of_another_tenant(store: Store) -> None:
    """Kind, name and tenant decide; what is not wanted moves the relay on all the same."""
    reader = Reader()
    relay = relay_to(store, reader, events=("expense.*", "paid"), kinds=("topic", "live"), tenant=ACME)
    await publish(store, "a", "expense.new", "travel.new", "paid")
    await publish(store, "a", "expense.seen", kind="live")
    await publish(store, "a", "expense.hook", kind="webhook")
    await publish(store, "a", "expense.theirs", tenant="other")
    await until_idle(relay)
    assert reader.names == ["expense.new", "paid", "expense.seen"]


async def test_what_fails_is_tried_again_with_the_same_id_and_holds_up_its_own_instance_only(
    store: Store, clock: FakeClock
) -> None:
    """Messages behind a failed one wait and then follow in order; other instances go on at once."""
    reader = Reader(a1=at_first(NO))
    relay = relay_to(store, reader)
    await publish(store, "a", "a1", "a2")
    await publish(store, "b", "b1")
    await until_idle(relay)
    await publish(store, "a", "a3")
    await publish(store, "b", "b2")
    await until_idle(relay)
    assert reader.names == ["b1", "b2"]
    clock.advance("9s")
    await until_idle(relay)
    assert reader.attempts == ["a1", "b1", "b2"]
    clock.advance("1s")
    await until_idle(relay)
    assert reader.names == ["b1", "b2", "a1", "a2", "a3"]
    first, second = (message for message in reader.given if message.name == "a1")
    assert (first.id, first.attempt, second.attempt) == (second.id, 1, 2)
    assert await store.letters.page(LetterQuery()) == []
    await publish(store, "a", "a4")
    await until_idle(relay)
    assert (reader.names[-1], relay.tally["queued"]) == ("a4", 1)


async def test_the_order_holds_over_a_restart(store: Store, clock: FakeClock) -> None:
    """A relay that takes over knows whose messages have to wait."""
    reader = Reader(a1=at_first(NO, 2))
    before = relay_to(store, reader)
    await publish(store, "a", "a1", "a2", "a3")
    await until_idle(before)
    await before.stop()
    after = relay_to(store, reader, page=2)
    await publish(store, "a", "a4")
    await until_idle(after)
    assert reader.names == []
    for _ in range(2):
        clock.advance("10s")
        await until_idle(after)
    assert reader.names == ["a1", "a2", "a3", "a4"]


async def test_after_the_last_attempt_a_message_is_dead_and_blocks_nobody(
    store: Store, clock: FakeClock
) -> None:
    """Two waits are three attempts; then the letter keeps the error, and what follows goes on."""
    reader = Reader(a1=always(ValueError("bad\nluck")))
    relay = relay_to(store, reader)
    await publish(store, "a", "a1", "a2")
    for _ in range(4):
        await until_idle(relay)
        clock.advance("10s")
    assert reader.attempts == ["a1", "a1", "a1", "a2"]
    (letter,) = await Letters(store).list(ACME)
    assert (letter.name, letter.attempts, letter.error) == ("a1", 3, "ValueError: bad luck")
    assert relay.tally["dead"] == 1


async def test_what_will_never_be_taken_is_dead_at_once(store: Store) -> None:
    """A PermanentError costs one attempt, and the next message follows in the same round."""
    reader = Reader(a1=always(PermanentError("gone")))
    relay = relay_to(store, reader)
    await publish(store, "a", "a1", "a2")
    await relay.turn()
    assert reader.attempts == ["a1", "a2"]
    assert [letter.error for letter in await Letters(store).list(ACME)] == ["gone"]


@pytest.mark.mission("ENG-14")
async def test_dead_letters_are_looked_at_driven_again_and_discarded_by_their_tenant(store: Store) -> None:
    """No call reaches the letters of another tenant; a letter driven again has all its attempts."""
    reader = Reader(a1=at_first(PermanentError("gone"), 2), x=always(PermanentError("gone")))
    relay, letters = relay_to(store, reader), Letters(store)
    await publish(store, "a", "a1")
    await publish(store, "x", "x", tenant="other")
    await until_idle(relay)
    assert [letter.name for letter in await letters.list(ACME)] == ["a1"]
    assert await letters.list(ACME, dead=False) == []
    assert await letters.list(ACME, destination="subscriber:else") == []
    for _ in range(2):
        assert await letters.redrive(ACME) == 1
        await until_idle(relay)
    assert reader.names == ["a1"]
    assert {message.attempt for message in reader.given} == {1}
    assert await letters.list(ACME) == []
    assert await letters.discard(ACME, destination=DESTINATION) == 0
    (theirs,) = await letters.list("other")
    assert await letters.discard("other", destination=DESTINATION, ids=["else"]) == 0
    assert await letters.discard("other", destination=DESTINATION, ids=[theirs.id]) == 1


async def test_a_letter_driven_again_does_not_unblock_what_waits(store: Store, clock: FakeClock) -> None:
    """While a living letter waits, its followers wait, whatever happens to dead ones of the instance."""
    reader = Reader(a1=at_first(PermanentError("no")), a2=at_first(NO))
    relay = relay_to(store, reader)
    await publish(store, "a", "a1", "a2", "a3")
    await until_idle(relay)
    await Letters(store).redrive(ACME)
    await until_idle(relay)
    await publish(store, "a", "a4")
    await until_idle(relay)
    assert reader.names == ["a1"]
    clock.advance("10s")
    await until_idle(relay)
    assert reader.names == ["a1", "a2", "a3", "a4"]


async def test_a_letter_driven_again_comes_before_what_is_new(store: Store, clock: FakeClock) -> None:
    """A message that is read in the same round as an older letter of its instance waits for it."""
    refusals = iter([PermanentError("no"), NO])

    def mood(_message: Message) -> None:
        for error in refusals:
            raise error

    reader = Reader(a1=mood)
    relay = relay_to(store, reader)
    await publish(store, "a", "a1")
    await until_idle(relay)
    await Letters(store).redrive(ACME)
    await publish(store, "a", "a2")
    await until_idle(relay)
    assert reader.names == []
    clock.advance("10s")
    await until_idle(relay)
    assert reader.names == ["a1", "a2"]


async def test_letters_of_one_instance_go_together_and_in_order(store: Store, clock: FakeClock) -> None:
    """As many as a destination takes at once, up to one that fails again: what is behind that waits on."""
    names = [f"a{number}" for number in range(40)]
    reader = Reader(**dict.fromkeys(names, always(PermanentError("no"))))
    relay = relay_to(store, reader, at_once=32)
    await publish(store, "a", *names)
    await until_idle(relay)
    reader.moods, reader.given = {"a20": at_first(NO)}, []
    await Letters(store).redrive(ACME)
    await relay.turn()
    assert reader.attempts == names[:21]
    await until_idle(relay)
    assert reader.names == names[:20]
    clock.advance("10s")
    await relay.turn()
    assert reader.names == names


async def test_of_two_relays_one_delivers_and_the_other_takes_over(place: Place, clock: FakeClock) -> None:
    """On one database each message goes out once; when the holder is silent its lease runs out."""
    reader, stores = Reader(), [place.store(clock), place.store(clock)]
    for store in stores:
        await store.open()
    one, two = (relay_to(store, reader) for store in stores)
    await publish(stores[0], "a", *(f"m{n}" for n in range(20)))
    await until_idle(one, two)
    assert reader.names == [f"m{n}" for n in range(20)]
    assert await two.rest() > await one.rest()
    await publish(stores[0], "a", "late")
    assert not await two.turn()
    clock.advance("31s")
    await until_idle(two, one)
    assert reader.names[-1:] == ["late"]
    assert (one.tally["delivered"], two.tally["delivered"]) == (20, 1)
    await publish(stores[0], "a", "later")
    await two.stop()
    await until_idle(one)
    assert reader.names[-1:] == ["later"]
    for store in stores:
        await store.close()


async def test_a_crash_between_delivery_and_settlement_repeats_with_the_same_id(
    store: Store, clock: FakeClock
) -> None:
    """Nothing is lost: the next relay delivers again what was not written down."""
    reader = Reader()
    await publish(store, "a", "one", "two")
    failing = Failing(store, StoreUnavailableError("it went away"))
    with pytest.raises(StoreUnavailableError):
        await relay_to(failing, reader).turn()
    clock.advance("31s")
    await until_idle(relay_to(store, reader))
    assert reader.names == ["one", "two", "one", "two"]
    assert len({message.id for message in reader.taken}) == 2


async def test_a_settlement_whose_answer_was_lost_is_not_repeated(store: Store, clock: FakeClock) -> None:
    """After trouble with the store a relay looks up what was written, and goes on from there."""
    reader = Reader(a1=at_first(NO))
    failing = Failing(store, StoreUnavailableError("it went away", maybe_committed=True), writes=True)
    relay = relay_to(failing, reader)
    await publish(store, "a", "a1")
    await publish(store, "b", "b1")
    with pytest.raises(StoreUnavailableError):
        await relay.turn()
    failing.fails = False
    await publish(store, "a", "a2")
    await until_idle(relay)
    assert reader.attempts == ["a1", "b1"]
    clock.advance("10s")
    await until_idle(relay)
    assert reader.names == ["b1", "a1", "a2"]


async def test_a_relay_that_lost_its_lease_writes_nothing_and_starts_over(
    store: Store, clock: FakeClock
) -> None:
    """Who was too slow forgets what it knew; the other's progress stays."""
    quick = Reader()
    other = relay_to(store, quick)

    async def overtaken(_message: Message) -> None:
        clock.advance("31s")
        await until_idle(other)
        await publish(store, "a", "two")
        await until_idle(other)

    slow = relay_to(store, Reader(one=overtaken))
    await publish(store, "a", "one")
    assert await slow.turn()
    assert slow.tally["lost"] == 1
    assert not await slow.turn()
    await publish(store, "a", "three")
    await other.stop()
    await until_idle(slow)
    assert quick.names == ["one", "two"]
    assert [message.name for message in slow.destination._handler.taken] == ["one", "three"]  # type: ignore[attr-defined]


async def test_a_slow_receiver_does_not_cost_the_lease(store: Store) -> None:
    """The lease is extended while a delivery is under way."""
    extended, holds = asyncio.Event(), []

    async def hold(*given: object) -> object:
        holds.append(given)
        if len(holds) == 4:
            extended.set()
        return await store.leases.hold(*given)  # type: ignore[arg-type]

    async def slow(_message: Message) -> None:
        await extended.wait()

    reader = Reader(one=slow)
    relay = relay_to(Overlay(store, leases=Overlay(store.leases, hold=hold)), reader, lease="60ms")
    await publish(store, "a", "one")
    await until_idle(relay)
    assert (reader.names, relay.tally["extended"]) == (["one"], 3)


async def test_a_subscriber_that_never_returns_holds_up_its_own_instance_only(
    store: Store, clock: FakeClock
) -> None:
    """It is cancelled when its time is over: a failure as others, which is tried again."""
    hangs = [True]

    async def hang(_message: Message) -> None:
        while hangs:
            await asyncio.Event().wait()

    reader = Reader(a1=hang)
    relay = relay_to(store, reader, timeout="1ms")
    await publish(store, "a", "a1", "a2")
    await publish(store, "b", "b1")
    await until_idle(relay)
    [letter, _] = await store.letters.page(LetterQuery())
    assert (reader.names, letter.attempts) == (["b1"], 1)
    assert letter.error == "not accepted within 0.001 s"
    hangs.clear()
    clock.advance("10s")
    await until_idle(relay)
    assert reader.names == ["b1", "a1", "a2"]


def test_a_subscriber_has_a_minute_unless_it_says_otherwise() -> None:
    """And no subscriber has no time at all."""
    reader = Reader()
    assert Subscriber("s", reader).policy.timeout == 60_000
    assert Subscriber("s", reader, timeout="5m").policy.timeout == 300_000
    with pytest.raises(InputError, match="time"):
        Subscriber("s", reader, timeout=0)


async def test_a_long_row_of_one_instance_holds_nobody_up(store: Store) -> None:
    """When the time of a round is over the rest waits, in order, and is tried beside what others have."""
    reader = Reader()
    relay = relay_to(store, reader, at_once=4)
    relay._delivery.longest_round = 0
    said = [f"m{number}" for number in range(9)]
    await publish(store, "slow", *said)
    await relay.turn()
    assert reader.names == ["m0"]
    await publish(store, "other", "o1")
    await relay.turn()
    assert sorted(reader.names) == ["m0", "m1", "o1"]
    await until_idle(relay)
    assert [message.name for message in reader.taken if message.instance == "slow"] == said
    assert {message.attempt for message in reader.given} == {1}
    assert not await store.letters.page(LetterQuery())


async def test_what_could_not_be_tried_in_time_does_not_pile_up(store: Store) -> None:
    """While as many wait untried as can go at once, no more is read."""
    reader = Reader()
    relay = relay_to(store, reader, at_once=2, page=10)
    relay._delivery.longest_round = 0
    for number in range(30):
        await publish(store, f"i{number}", "m")
    await relay.turn()
    assert len(reader.taken) == 2
    most = relay._state.backlog.count
    while await relay.turn():
        most = max(most, relay._state.backlog.count)
    assert (len(reader.taken), len(reader.given)) == (30, 30)
    assert most <= 10


async def test_a_clock_that_is_set_back_silences_nobody(store: Store, clock: FakeClock) -> None:
    """A pause that would be longer than any is over."""
    reader = Reader(m=at_first(BusyError("slow down", after=60)))
    relay = relay_to(store, reader)
    await publish(store, "a", "m")
    await publish(store, "b", "other")
    clock.advance("24h")
    await relay.turn()
    clock._now -= timedelta(hours=24)
    await relay.stop()
    await until_idle(relay)
    assert "other" in reader.names


async def test_so_many_instances_are_served_at_once_and_no_more(store: Store) -> None:
    """Three are on their way together while seven wait; within one instance there is only one."""
    under_way: list[str] = []
    most: list[int] = []
    full = asyncio.Event()

    async def together(message: Message) -> None:
        under_way.append(message.instance)
        most.append(len(under_way))
        assert len(under_way) == len(set(under_way))
        if len(under_way) == 3:
            full.set()
        await full.wait()
        under_way.remove(message.instance)

    for number in range(10):
        await publish(store, f"i{number}", "m", "m")
    reader = Reader(m=together)
    await until_idle(relay_to(store, reader, at_once=3))
    assert (len(reader.taken), max(most)) == (20, 3)


async def test_a_busy_destination_is_left_alone(store: Store, clock: FakeClock) -> None:
    """After a BusyError nothing is tried until its time is over, and no attempt is counted meanwhile."""
    reader = Reader(a1=at_first(BusyError("slow down", after=60)))
    relay = relay_to(store, reader, at_once=1)
    await publish(store, "a", "a1", "a2")
    await publish(store, "b", "b1")
    await until_idle(relay)
    await publish(store, "c", "c1")
    await publish(store, "b", "b2")
    clock.advance("29s")
    await until_idle(relay)
    clock.advance("29s")
    await until_idle(relay)
    assert reader.attempts == ["a1"]
    clock.advance("2s")
    await until_idle(relay)
    assert sorted(reader.names) == ["a1", "a2", "b1", "b2", "c1"]
    assert reader.names.index("b1") < reader.names.index("b2")
    assert {message.attempt for message in reader.taken if message.name != "a1"} == {1}


async def test_a_destination_that_is_busy_for_no_time_is_not_left_alone(store: Store) -> None:
    """A "not now" without a time concerns one message; the others are tried in the same round."""
    reader = Reader(a1=always(BusyError("slow down")))
    await publish(store, "a", "a1")
    await publish(store, "b", "b1")
    await relay_to(store, reader, at_once=1).turn()
    assert reader.attempts == ["a1", "b1"]


async def test_a_relay_that_stops_in_the_middle_repeats_only_what_was_cut_off(store: Store) -> None:
    """What has arrived is written before it ends; the rest is tried again by the next one."""
    reached = asyncio.Event()

    async def hang(_message: Message) -> None:
        reached.set()
        await asyncio.Event().wait()

    reader = Reader(b1=hang)
    await publish(store, "a", "a1")
    await publish(store, "b", "b1", "b2")
    async with relay_to(store, reader, at_once=1):
        await reached.wait()
    assert reader.names == ["a1"]
    later = Reader()
    await until_idle(relay_to(store, later))
    assert later.names == ["b1", "b2"]


async def test_a_relay_that_runs_delivers_what_is_published_from_then_on(store: Store) -> None:
    """A new destination misses nothing after `start`, and the engine's own commits wake its relay."""
    arrived = asyncio.Event()

    async def note(_message: Message) -> None:
        arrived.set()

    engine = Engine(store, (Bell,))
    relay = Relay(engine, Subscriber("bell", note, events="bell.*"))
    relay.longest_rest = 3_600
    await engine.create(ACME, "early", "Bell")
    await engine.send(ACME, "early", Bell.ring())
    async with relay:
        await engine.create(ACME, "bell", "Bell")
        await engine.send(ACME, "bell", Bell.ring())
        await asyncio.wait_for(arrived.wait(), 60)
        arrived.clear()
        await engine.send(ACME, "bell", Bell.ring())
        await asyncio.wait_for(arrived.wait(), 60)
    assert relay.tally["delivered"] == 2
    assert engine._watchers == []


async def test_a_relay_can_be_stopped_while_the_store_is_away(store: Store) -> None:
    """The end of a relay does not depend on the database."""
    reached = asyncio.Event()

    async def hang(_message: Message) -> None:
        reached.set()
        await asyncio.Event().wait()

    await publish(store, "a", "a1")
    failing = Failing(store, StoreUnavailableError("it went away"))
    relay = relay_to(failing, Reader(a1=hang))
    await relay.start()
    await reached.wait()
    await asyncio.wait_for(relay.stop(), 60)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", seeds(6))
async def test_whatever_happens_nothing_is_lost_and_the_order_holds(
    store: Store, clock: FakeClock, seed: int
) -> None:
    """Failures, crashes, lost leases and restarts at random: each message arrives, in order per instance."""
    chance = random.Random(seed)
    taken: dict[str, list[str]] = {}

    async def handler(message: Message) -> None:
        if chance.random() < 0.25:
            raise NO
        seen = taken.setdefault(message.instance, [])
        if message.name not in seen:
            seen.append(message.name)
        if chance.random() < 0.02:
            clock.advance("31s")

    failing = Failing(store, StoreUnavailableError("it went away"))
    failing.fails = False
    reader = Reader()
    reader.__class__ = type("Moody", (Reader,), {"__call__": lambda _self, message: handler(message)})
    patient = Backoff.growing(attempts=1000, base="1s", cap="5s")
    relays: list[Relay] = []

    def renew(place: int) -> None:
        options = {"backoff": patient, "page": 7, "at_once": 4}
        relays[place : place + 1] = [relay_to(failing, reader, **options)]

    renew(0)
    renew(1)
    sent: dict[str, list[str]] = {}
    for number in range(150):
        instance = f"i{chance.randrange(5)}"
        sent.setdefault(instance, []).append(f"m{number}")
        await publish(store, instance, f"m{number}")
        failing.fails = chance.random() < 0.1
        try:
            await chance.choice(relays).turn()
        except StoreUnavailableError:
            renew(chance.randrange(2))
        clock.advance(chance.choice(["0s", "0.2s", "3s", "11s"]))
    failing.fails = False
    for _ in range(200):
        clock.advance("6s")
        await until_idle(*relays)
        if taken == sent and not await store.letters.page(LetterQuery()):
            break
    assert not await store.letters.page(LetterQuery())
    assert taken == sent


def test_what_is_wanted() -> None:
    """Kind, name and tenant must all fit."""
    accepted = MessageFilter(("topic",), ("expense.*",), "acme")
    assert accepted.takes("acme", "topic", "expense.paid")
    assert not accepted.takes("other", "topic", "expense.paid")
    assert not accepted.takes("acme", "live", "expense.paid")
    assert not accepted.takes("acme", "topic", "travel.paid")


def test_the_id_tells_messages_apart() -> None:
    """Tenant, effect and time are in it, so an instance that is created anew sends new messages."""
    at = FakeClock().now()
    ids = {
        message_id("acme", "a:1:0", at),
        message_id("acme", "a:1:1", at),
        message_id("other", "a:1:0", at),
        message_id("acme", "a:1:0", at + timedelta(days=1)),
    }
    assert len(ids) == 4
    assert message_id("acme", "a:1:0", at) in ids
    assert all(each.replace("msg_", "").isalnum() for each in ids)


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (QUICK, [10_000, 10_000, None]),
        (Backoff.growing(4, "1s", factor=3, cap="5s", jitter=0), [1_000, 3_000, 5_000, None]),
        (Backoff.growing(1, "1s"), [None]),
    ],
)
def test_waits_grow_as_declared(backoff: Backoff, waits: list[int | None]) -> None:
    """After the last wait there is no further attempt."""
    assert [backoff.wait("id", attempt) for attempt in range(1, len(waits) + 1)] == waits


def test_jitter_spreads_what_failed_together() -> None:
    """A wait is longer by up to the declared share, by another one for each message."""
    waits = [Backoff.after("100s", jitter=0.5).wait(f"id{n}", 1) for n in range(100)]
    assert all(wait is not None and 100_000 <= wait <= 150_000 for wait in waits)
    assert len(set(waits)) > 90


async def test_what_waits_is_found_behind_much_that_is_not_wanted(store: Store, clock: FakeClock) -> None:
    """Messages for others do not hide for how long one's own has waited."""
    relay = relay_to(store, Reader(), kinds="webhook")
    await relay.take_up()
    assert await relay.lag() == 0
    await publish(store, "a", *(["other"] * 150))
    assert await relay.lag() == 0
    await publish(store, "a", "mine", kind="webhook")
    clock.advance("1h")
    assert await relay.lag() == pytest.approx(3_600, abs=1)
    assert await relay.lag("somebody else") == 0


async def test_what_comes_while_the_last_page_is_delivered_is_read_at_once(store: Store) -> None:
    """A page read ahead that was empty is read again."""

    async def publish_more(message: Message) -> None:
        if message.name == "two":
            await publish(store, "b", "three")

    reader = Reader(two=publish_more)
    await publish(store, "a", "one", "two")
    relay = relay_to(store, reader, page=2)
    assert await relay.turn()
    assert await relay.turn()
    assert reader.names == ["one", "two", "three"]


async def test_a_search_for_somebody_else_goes_on_without_a_rest(store: Store) -> None:
    """When too many wait, as long as there is more of the log to look at."""
    reader = Reader(bad=always(NO))
    subscriber = Subscriber("reader", reader, begins="first", backoff=Backoff.after("1h"))
    relay = Relay(Engine(store), subscriber, page=2, most_waiting=3)
    await publish(store, "a", *["bad"] * 60)
    await publish(store, "z", "good")
    await until_idle(relay)
    assert reader.names == ["good"]
