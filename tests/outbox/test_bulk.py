"""A destination that takes many messages at once: what becomes of each is told in any order."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from headway.engine.engine import Engine
from headway.errors import DeliveryError, PermanentError, StoreUnavailableError, UnreachableError
from headway.outbox.destination import DeliveryPolicy, DeliveryReport, MessageFilter
from headway.outbox.message import Message
from headway.outbox.plan import FAILURES
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.store.queries import LetterQuery, Settlement
from headway.testing import FakeClock
from tests.outbox.world import QUICK, publish, until_idle
from tests.overlay import Overlay

pytestmark = pytest.mark.mission("ENG-5")

FAILS = DeliveryError("no")
GONE = UnreachableError("not there", after=5)
DEAD = PermanentError("never")


class Pile:
    """Takes pages of messages; for some names it has an answer of its own, and about some it keeps quiet."""

    name = "pile"
    filter = MessageFilter(("topic",))
    policy = DeliveryPolicy("first", 50, QUICK, 50)

    def __init__(self, **answers: Exception | None) -> None:
        self.answers = answers
        self.silent: set[str] = set()
        self.taken: list[str] = []
        self.pages: list[list[str]] = []

    async def deliver(self, message: Message) -> None:
        """Never called: it takes many."""
        raise AssertionError(message)

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Tell of the last one first."""
        names = [message.name for message in messages]
        self.pages.append(names)
        for place, name in reversed([*enumerate(names)]):
            error = self.answers.get(name)
            if name in self.silent:
                continue
            if error is None:
                report.delivered.append(place)
            else:
                report.failed.append((place, error))
        self.taken += [name for name in names if self.answers.get(name) is None]

    async def close(self) -> None:
        """Nothing to let go of."""


async def letters(store: Store) -> dict[str, tuple[int, bool]]:
    """What waits or is dead: how often it was tried, and whether it is dead."""
    return {row.name: (row.attempts, row.dead) for row in await store.letters.page(LetterQuery())}


async def test_a_page_goes_out_at_once_and_in_the_order_of_the_log(store: Store) -> None:
    """Whatever instances its messages belong to."""
    for name in ("a1", "b1", "a2", "c1", "b2", "a3"):
        await publish(store, name[0], name)
    pile = Pile()
    await until_idle(Relay(Engine(store), pile))
    assert pile.pages == [["a1", "b1", "a2", "c1", "b2", "a3"]]
    assert not await letters(store)


async def test_what_fails_with_one_before_it_has_not_used_up_an_attempt(
    store: Store, clock: FakeClock
) -> None:
    """The first is tried again, then the others, one after the other; another instance goes on."""
    await publish(store, "a", "a1", "a2", "a3")
    await publish(store, "b", "b1")
    pile = Pile(a1=FAILS, a2=FAILS, a3=FAILS)
    relay = Relay(Engine(store), pile)
    await until_idle(relay)
    assert pile.taken == ["b1"]
    assert await letters(store) == {"a1": (1, False), "a2": (0, False), "a3": (0, False)}
    pile.answers = {}
    clock.advance("10s")
    await until_idle(relay)
    assert pile.taken == ["b1", "a1", "a2", "a3"]
    assert not await letters(store)


async def test_what_is_dead_holds_nobody_up(store: Store) -> None:
    """Those behind it have arrived."""
    await publish(store, "a", "a1", "a2")
    pile = Pile(a1=DEAD)
    await until_idle(Relay(Engine(store), pile))
    assert pile.taken == ["a2"]
    assert await letters(store) == {"a1": (1, True)}


async def test_a_destination_that_is_not_there_changes_nothing(store: Store, clock: FakeClock) -> None:
    """Not even after a long time: the same page goes out when it is back, and not before it may."""
    await publish(store, "a", "a1", "a2")
    pile = Pile(a1=GONE, a2=GONE)
    relay = Relay(Engine(store), pile)
    for pages in range(1, 30):
        await until_idle(relay)
        assert len(pile.pages) == pages
        assert not await letters(store)
        clock.advance("5s")
    pile.answers = {}
    await until_idle(relay)
    assert pile.taken == ["a1", "a2"]


async def test_a_bad_message_beside_a_destination_that_is_not_there_makes_no_letters_of_the_others(
    store: Store, clock: FakeClock
) -> None:
    """They go out as one page when it is back, and the bad one is dead then."""
    for name in ("a1", "b1", "a2"):
        await publish(store, name[0], name)
    pile = Pile(a1=GONE, a2=GONE, b1=DEAD)
    relay = Relay(Engine(store), pile)
    await until_idle(relay)
    assert not await letters(store)
    pile.answers = {"b1": DEAD}
    clock.advance("5s")
    await until_idle(relay)
    assert pile.taken == ["a1", "a2"]
    assert await letters(store) == {"b1": (1, True)}


async def test_what_arrived_before_the_destination_went_away_does_not_come_again(
    store: Store, clock: FakeClock
) -> None:
    """The rest waits without having used up an attempt."""
    await publish(store, "a", "a1", "a2")
    await publish(store, "b", "b1")
    pile = Pile(a2=GONE, b1=GONE)
    relay = Relay(Engine(store), pile)
    await until_idle(relay)
    assert await letters(store) == {"a2": (0, False), "b1": (0, False)}
    pile.answers = {}
    clock.advance("5s")
    await until_idle(relay)
    assert pile.taken == ["a1", "a2", "b1"]


async def test_what_is_not_told_counts_as_not_tried(store: Store) -> None:
    """It comes again, with those that were told beside it left alone."""
    await publish(store, "a", "a1")
    await publish(store, "b", "b1")
    pile = Pile()
    pile.silent = {"b1"}
    relay = Relay(Engine(store), pile)
    await relay.turn()
    assert await letters(store) == {"b1": (0, False)}
    pile.silent = set()
    await until_idle(relay)
    assert pile.taken == ["a1", "b1", "b1"]
    assert not await letters(store)


async def test_refusals_beside_what_arrives_do_not_stop_the_others(store: Store) -> None:
    """However many instances are refused, a destination that takes messages is not left alone."""
    refused = [f"r{number}" for number in range(3 * FAILURES)]
    for name in refused:
        await publish(store, name, name)
    await publish(store, "a", "a1")
    pile = Pile(**dict.fromkeys(refused, FAILS))
    relay = Relay(Engine(store), pile)
    await until_idle(relay)
    await publish(store, "a", "a2")
    await until_idle(relay)
    assert pile.taken == ["a1", "a2"]
    assert relay.tally["paused"] == 0


class Broken(Pile):
    """Lets an error out that nobody has thought of, after some have arrived."""

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Take all up to the one that breaks it."""
        for place, message in enumerate(messages):
            if message.name in self.answers:
                raise KeyError("nobody has thought of it")
            self.taken.append(message.name)
            report.delivered.append(place)


async def test_an_error_that_nobody_has_thought_of_repeats_nothing_that_has_arrived(
    store: Store, clock: FakeClock
) -> None:
    """The first that was not told has failed, and is dead in the end; the rest goes on."""
    for name in ("a1", "b1", "c1"):
        await publish(store, name[0], name)
    pile = Broken(b1=FAILS)
    relay = Relay(Engine(store), pile)
    for _ in range(4):
        await until_idle(relay)
        clock.advance("10s")
    assert (pile.taken, await letters(store)) == (["a1", "c1"], {"b1": (3, True)})


async def test_what_has_arrived_is_written_when_the_lease_cannot_be_extended(store: Store) -> None:
    """Trouble with the store during a round does not bring back what was taken before."""
    told = asyncio.Event()

    class Slow(Pile):
        async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
            [first, *_] = messages
            self.taken.append(first.name)
            report.delivered.append(0)
            told.set()
            await asyncio.Event().wait()

    async def hold(*given: object) -> object:
        if told.is_set():
            raise StoreUnavailableError("it went away")
        return await store.leases.hold(*given)  # type: ignore[arg-type]

    await publish(store, "a", "a1", "a2")
    shaky: Any = Overlay(store, leases=Overlay(store.leases, hold=hold))
    relay = Relay(Engine(shaky), Slow(), holder="one", lease="60ms")
    with pytest.raises(StoreUnavailableError):
        await relay.turn()
    pile = Pile()
    await until_idle(Relay(Engine(store), pile, holder="one"))
    assert pile.taken == ["a2"]


class Startled(Pile):
    """Lets a cancellation of its own out, once, after some have arrived."""

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Take the first one only, then all."""
        if not self.pages:
            messages = [next(iter(messages))]
            await super().deliver_all(messages, report)
            raise asyncio.CancelledError("a library's own")
        await super().deliver_all(messages, report)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure_like_others(
    store: Store, clock: FakeClock
) -> None:
    """The relay goes on after a rest with what has not arrived."""
    await publish(store, "a", "a1", "a2")
    pile = Startled()
    relay = Relay(Engine(store), pile)
    await until_idle(relay)
    assert await letters(store) == {"a2": (0, False)}
    clock.advance("1s")
    await until_idle(relay)
    assert pile.taken == ["a1", "a2"]
    assert not await letters(store)


async def test_a_cancellation_from_within_does_not_end_a_relay_that_runs(store: Store) -> None:
    """Whatever library has let it out, the relay takes its next turn; who stops it ends it."""
    arrived = asyncio.Event()

    class Ringing(Pile):
        async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
            await super().deliver_all(messages, report)
            arrived.set()

    class Jumpy:
        has_jumped = False

        async def settle(self, settlement: Settlement) -> bool:
            if arrived.is_set() and not self.has_jumped:
                self.has_jumped = True
                arrived.clear()
                raise asyncio.CancelledError("a library's own")
            return await store.messages.settle(settlement)

    await publish(store, "a", "a1")
    pile, jumpy = Ringing(), Jumpy()
    jumping: Any = Overlay(store, messages=Overlay(store.messages, settle=jumpy.settle))
    relay = Relay(Engine(jumping), pile)
    relay.longest_rest = 0.01
    async with asyncio.timeout(60), relay:
        while not jumpy.has_jumped:
            await arrived.wait()
            await asyncio.sleep(0)
        await arrived.wait()
    assert pile.taken == ["a1", "a1"]
