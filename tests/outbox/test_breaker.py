"""A destination that takes nothing is left alone; when much waits for it, the rest waits in the outbox."""

import logging
from typing import Any

import pytest

from headway.errors import DeliveryError, PermanentError, UnreachableError
from headway.outbox.destination import Backoff
from headway.outbox.letters import Letters
from headway.outbox.plan import FAILURES, MOST_WAITING
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.store.postgres import letters as postgres_letters
from headway.store.postgres import messages as postgres_messages
from headway.store.queries import LetterQuery, MessageQuery, Settlement
from headway.store.rows import Cursor
from headway.store.sqlite import letters as sqlite_letters
from headway.store.sqlite import messages as sqlite_messages
from headway.testing import FakeClock
from tests.outbox.world import Reader, always, at_first, publish, relay_to, until_idle
from tests.overlay import Overlay

pytestmark = pytest.mark.mission("ENG-5", "ENG-17")

NO = DeliveryError("no answer")


def names(count: int) -> list[str]:
    """So many instances, in the order of their names."""
    return [f"i{number:02}" for number in range(count)]


async def test_a_destination_that_takes_nothing_is_tried_with_one_message_at_a_time(
    store: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten instances in a row are enough; the pauses grow; when a probe arrives all the others follow."""
    for name in names(14):
        await publish(store, name, "m")
    reader = Reader(m=always(NO))
    relay = relay_to(store, reader, at_once=1)
    tried = []
    with caplog.at_level(logging.WARNING):
        for pause in ("4s", "1s", "9s", "1s", "19s"):
            await until_idle(relay)
            tried.append(len(reader.given))
            clock.advance(pause)
        await until_idle(relay)
    assert [*tried, len(reader.given)] == [10, 10, 11, 11, 12, 12]
    assert (relay.tally["paused"], relay.tally["delivered"]) == (3, 0)
    reader.moods.clear()
    clock.advance("1s")
    await until_idle(relay)
    clock.advance("10s")
    await until_idle(relay)
    assert {message.instance for message in reader.taken} == {*names(14)}
    assert not await store.letters.page(LetterQuery())
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == (
        "relay to subscriber:reader: nothing is accepted, last error: no answer; one message is tried in 5 s"
    )


async def test_instances_that_fail_among_others_do_not_stop_the_others(store: Store) -> None:
    """Nine fail, one arrives, nine fail: the destination is there."""
    failing = Reader(bad=always(NO))
    for group in ("a", "b", "c"):
        for number in range(FAILURES - 1):
            await publish(store, f"{group}{number}", "bad")
        await publish(store, f"{group}-good", "good")
    relay = relay_to(store, failing, at_once=1)
    await until_idle(relay)
    assert failing.names == ["good"] * 3
    assert relay.tally["paused"] == 0


async def test_one_instance_that_fails_again_and_again_is_its_own_trouble(
    store: Store, clock: FakeClock
) -> None:
    """Only failures of different instances say something of the destination."""
    reader = Reader(m=always(NO))
    relay = relay_to(store, reader)
    for number in range(4):
        await publish(store, "a", "m", *(["m"] * number))
    for _ in range(30):
        await until_idle(relay)
        clock.advance("10s")
    assert len(reader.given) > FAILURES
    assert relay.tally["paused"] == 0


async def test_an_answer_for_good_is_an_answer(store: Store) -> None:
    """Who says "never" is there: twenty dead letters do not stop the relay."""
    reader = Reader(m=always(PermanentError("gone")))
    for name in names(20):
        await publish(store, name, "m")
    relay = relay_to(store, reader, at_once=1)
    await until_idle(relay)
    assert (len(reader.given), relay.tally["paused"]) == (20, 0)


async def test_a_destination_that_is_not_there_costs_no_attempt_one_by_one_either(
    store: Store, clock: FakeClock
) -> None:
    """Nothing is written about the messages, and they arrive with their first attempt."""
    reader = Reader(m=at_first(UnreachableError("not there", after=5)))
    await publish(store, "a", "m", "m")
    await publish(store, "b", "m")
    relay = relay_to(store, reader, at_once=1)
    await until_idle(relay)
    assert (len(reader.given), await store.letters.page(LetterQuery())) == (1, [])
    clock.advance("5s")
    await until_idle(relay)
    assert {message.attempt for message in reader.given} == {1}
    assert len(reader.taken) == 3


async def test_when_very_much_waits_the_rest_stays_in_the_outbox(store: Store, clock: FakeClock) -> None:
    """What a relay knows is bounded, however long an instance fails; all arrives in order in the end."""
    reader = Reader(bad=always(NO))
    relay = relay_to(store, reader, page=10, most_waiting=25)
    await publish(store, "a", "bad", *(f"m{number}" for number in range(60)))
    await until_idle(relay)
    assert len(await store.letters.page(LetterQuery(limit=1_000))) == relay._state.backlog.count == 30
    reader.moods.clear()
    clock.advance("10s")
    await until_idle(relay)
    assert [message.name for message in reader.taken if message.instance == "a"] == [
        "bad",
        *(f"m{number}" for number in range(60)),
    ]
    assert (relay._state.backlog.count, relay._state.backlog.waiting) == (0, {})
    assert relay.tally["dead"] == 0


@pytest.mark.mission("ENG-14")
async def test_very_much_that_waits_of_one_tenant_keeps_no_other_waiting(
    store: Store, clock: FakeClock
) -> None:
    """What is in front of somebody else's message is given up, says why, and can be driven again."""
    reader = Reader(bad=always(NO))
    patient = Backoff.after(*["10s"] * 50, jitter=0)
    relay = relay_to(store, reader, page=10, most_waiting=25, backoff=patient)
    await publish(store, "a", "bad", *(f"m{number}" for number in range(49)), tenant="refused")
    await publish(store, "b", "good")
    await publish(store, "a", "m49", "m50", tenant="refused")
    await until_idle(relay)
    assert reader.names == ["good"]
    letters = Letters(store)
    dead = await letters.list("refused")
    assert [letter.name for letter in dead] == [f"m{number}" for number in range(29, 49)]
    assert {(letter.attempts, letter.error) for letter in dead} == {
        (0, "not tried: too many messages wait before it")
    }
    reader.moods.clear()
    clock.advance("10s")
    await until_idle(relay)
    assert await letters.redrive("refused") == 20
    await until_idle(relay)
    assert sorted(reader.names) == sorted(["bad", "good", *(f"m{number}" for number in range(51))])
    assert (await letters.list("refused", dead=None), relay._state.backlog.count) == ([], 0)


async def test_a_destination_with_very_much_waiting_is_probed_with_what_is_new(
    store: Store, clock: FakeClock
) -> None:
    """Nothing is given up for a probe, and a probe that has failed waits once; when one arrives all go on."""
    reader, relay = await poisoned(store, page=5, most_waiting=10)
    for name in names(FAILURES):
        await publish(store, name, "later", "later")
    await until_idle(relay)
    for _ in range(8):
        clock.advance("5m")
        await until_idle(relay)
    assert (relay._state.backlog.is_full, reader.names) == (True, [])
    await publish(store, "x", "bad")
    await publish(store, "healthy", "good")
    while not reader.taken:
        assert relay.tally["dead"] == 0
        await relay.turn()
        clock.advance("1m")
    for _ in range(8):
        clock.advance("5m")
        await until_idle(relay)
    assert {(message.name, message.attempt) for message in reader.taken} == {("good", 1)}
    [letter] = await store.letters.page(LetterQuery(instance="x"))
    assert (letter.dead, letter.error) == (False, "no answer")
    reached = await store.messages.consumer("subscriber:reader") or Cursor()
    assert not (await store.messages.page(MessageQuery(reached))).messages


async def test_when_twice_as_many_wait_what_fails_is_given_up_at_once(store: Store) -> None:
    """So a relay knows of a bounded number, also when each message that fails is of another instance."""
    reader = Reader(bad=always(NO), good=always(NO))
    relay = relay_to(store, reader, page=5, at_once=1, most_waiting=4)
    for name in names(8):
        await publish(store, name, "bad")
        await publish(store, f"{name}!", "fine")
    await until_idle(relay)
    assert relay._state.backlog.count == 8
    for number in range(5):
        await publish(store, f"z{number}", "bad")
    await until_idle(relay)
    dead = await store.letters.page(LetterQuery(dead=True))
    assert [(letter.instance, letter.error) for letter in dead] == [(f"z{n}", "no answer") for n in range(5)]


async def test_waiting_letters_that_somebody_has_deleted_keep_nobody_waiting(
    store: Store, clock: FakeClock
) -> None:
    """A relay learns who waits anew when it extends its lease."""
    reader = Reader(bad=always(NO))
    relay = relay_to(store, reader, backoff=Backoff.after("1h", jitter=0))
    await publish(store, "a", "bad", "next")
    await until_idle(relay)
    assert relay._state.backlog.count == 2
    assert await Letters(store).discard("acme", destination="subscriber:reader", waiting=True) == 2
    clock.advance("10s")
    await publish(store, "a", "new")
    await relay.turn()
    assert (relay._state.backlog.count, reader.names) == (0, ["new"])


async def test_the_next_page_is_read_while_this_one_is_on_its_way(store: Store) -> None:
    """A full page is followed by another, so its reading does not wait for the delivery."""
    log: list[str] = []

    async def page(query: MessageQuery) -> object:
        log.append("read")
        return await store.messages.page(query)

    async def settle(settlement: Settlement) -> bool:
        log.append("settle")
        return await store.messages.settle(settlement)

    await publish(store, "a", "one", "two", "three", "four", "five")
    reader = Reader()
    relay = relay_to(
        Overlay(store, messages=Overlay(store.messages, page=page, settle=settle)), reader, page=2
    )
    await until_idle(relay)
    assert reader.names == ["one", "two", "three", "four", "five"]
    assert log == ["settle", "read", "read", "settle", "read", "settle", "settle", "read"]


async def test_a_page_holds_only_so_much_data(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large messages come in smaller pages, one at least; none is left out."""
    monkeypatch.setattr(sqlite_messages, "MOST_CHARACTERS", 250)
    monkeypatch.setattr(postgres_messages, "MOST_BYTES", 250)
    reader = Reader()
    await publish(store, "a", *(f"m{number}" for number in range(7)), data="x" * 98)
    await publish(store, "a", "large", data="x" * 1_000)
    await publish(store, "a", "small", "last")
    first = await store.messages.page(MessageQuery(limit=100))
    assert [row.name for row in first.messages] == ["m0", "m1", "m2"]
    assert not first.complete
    await until_idle(relay_to(store, reader))
    assert reader.names == [*(f"m{number}" for number in range(7)), "large", "small", "last"]


async def test_a_page_looks_at_so_many_messages_whatever_their_kind(store: Store) -> None:
    """So a reader of rare ones comes on as fast as others, and knows when it has seen the last."""
    await publish(store, "a", *(f"m{number}" for number in range(5)))
    read, cursor = [], Cursor()
    for _ in range(3):
        page = await store.messages.page(MessageQuery(cursor, kinds=("webhook",), limit=2))
        read.append((len(page.messages), page.complete))
        assert page.cursor > cursor
        cursor = page.cursor
    assert read == [(0, False), (0, False), (0, True)]


async def test_text_that_needs_care_arrives_as_it_was(store: Store) -> None:
    """Quotes, control characters and what is beyond the basic plane, in names and in data."""
    odd = 'a "b" \\ \n \t \x1f é Ω 😀 \u2028'
    reader = Reader()
    await publish(store, odd, "m", data={"odd": odd, "number": 1.5, "none": None})
    await until_idle(relay_to(store, reader))
    [seen] = reader.taken
    assert (seen.instance, seen.data) == (odd, {"odd": odd, "number": 1.5, "none": None})


async def poisoned(store: Store, count: int = FAILURES + 2, **options: Any) -> tuple[Reader, Relay]:
    """A relay that leaves its destination alone, because so many instances always fail."""
    reader = Reader(bad=always(NO))
    relay = relay_to(store, reader, backoff=Backoff.after(*["1s"] * 50, jitter=0), **options)
    for name in names(count):
        await publish(store, name, "bad")
    await until_idle(relay)
    assert relay.tally["paused"] == 1
    return reader, relay


@pytest.mark.parametrize("at_once", [1, 32])
async def test_a_healthy_instance_is_tried_before_those_that_have_failed(
    store: Store, clock: FakeClock, at_once: int
) -> None:
    """However many letters are due that have failed before, its message arrives after the pause."""
    reader, relay = await poisoned(store, at_once=at_once)
    await publish(store, "healthy", "good")
    clock.advance("5s")
    await until_idle(relay)
    assert reader.names == ["good"]


async def test_a_healthy_instance_is_found_behind_messages_that_have_to_wait(
    store: Store, clock: FakeClock
) -> None:
    """Pages of messages of failing instances, and of those that nobody wants, are passed within one pause."""
    reader, relay = await poisoned(store, page=FAILURES + 2, events=("bad", "good"))
    for name in names(FAILURES):
        await publish(store, name, "good", "unwanted", "good")
    await publish(store, "healthy", "unwanted", "good")
    await publish(store, "late", "good")
    given = len(reader.given)
    clock.advance("5s")
    while not reader.taken:
        assert await relay.turn()
    assert [message.instance for message in reader.given[given:]] == ["healthy"]
    reader.moods.clear()
    for _ in range(3):
        await until_idle(relay)
        clock.advance("10s")
    assert not await store.letters.page(LetterQuery())
    assert [message.instance for message in reader.taken].count("late") == 1
    for name in names(FAILURES):
        assert [message.name for message in reader.taken if message.instance == name] == [
            "bad",
            "good",
            "good",
        ]


@pytest.mark.parametrize("most_waiting", [MOST_WAITING, FAILURES], ids=["few wait", "too many wait"])
async def test_letters_that_nobody_has_tried_and_new_messages_take_turns(
    store: Store, clock: FakeClock, most_waiting: int
) -> None:
    """Neither the ones nor the others keep a healthy instance waiting for ever."""
    reader, relay = await poisoned(store, FAILURES + 4, at_once=1, most_waiting=most_waiting)
    for number in range(3):
        await publish(store, f"new{number}", "bad")
    given = len(reader.given)
    for pause in (5, 10, 20, 40):
        clock.advance(f"{pause}s")
        await until_idle(relay)
    assert relay._state.backlog.is_full == (most_waiting == FAILURES)
    tried = [message.instance for message in reader.given[given:]]
    assert tried == ["new0", "i10", "new1", "i11"]


async def test_a_destination_that_is_not_there_is_given_a_rest_also_when_it_names_none(
    store: Store, clock: FakeClock
) -> None:
    """It is asked once, and again after a second."""
    reader = Reader(m=always(UnreachableError("not there")))
    await publish(store, "a", "m")
    relay = relay_to(store, reader)
    for _ in range(3):
        await until_idle(relay)
        clock.advance("1s")
    assert len(reader.given) == 3


async def test_letters_are_read_with_so_much_data_only(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are due, and those behind them: one at least, and none before another of its instance."""
    monkeypatch.setattr(sqlite_letters, "MOST_CHARACTERS", 250)
    monkeypatch.setattr(postgres_letters, "MOST_BYTES", 250)
    said = [f"m{number}" for number in range(7)]
    moods = dict.fromkeys(["large", *said], at_first(NO, 100))
    reader = Reader(**moods)
    relay = relay_to(store, reader, at_once=100)
    await publish(store, "x", "large", *said, data="x" * 1_000)
    for name in names(5):
        await publish(store, name, *said, data="x" * 98)
    await until_idle(relay)
    clock.advance("10s")
    due = await store.letters.page(LetterQuery(destination="subscriber:reader", due=True))
    assert [row.instance for row in due] == ["x"]
    behind = await store.letters.behind(
        await store.letters.page(LetterQuery(dead=False, instance="i00", limit=1)), 9
    )
    assert [row.name for row in behind] == said[1:4]
    reader.moods.clear()
    await until_idle(relay)
    assert not await store.letters.page(LetterQuery())
    for name in names(5):
        assert [message.name for message in reader.taken if message.instance == name] == said


async def test_instances_that_have_failed_are_tried_after_all_others(store: Store, clock: FakeClock) -> None:
    """However many fail again, healthy ones are served before the destination is left alone."""
    reader, relay = await poisoned(store, at_once=FAILURES)
    for number in range(5):
        await publish(store, f"healthy{number}", "good")
    clock.advance("5s")
    await until_idle(relay)
    assert reader.names == ["good"] * 5


async def test_very_much_that_waits_of_a_slow_instance_is_never_given_up(store: Store) -> None:
    """Up to twice as many wait as letters, then the log waits; all of it arrives at its first attempt."""
    reader = Reader()
    relay = relay_to(store, reader, page=5, at_once=2, most_waiting=10)
    relay._delivery.longest_round = 0
    said = [f"m{number}" for number in range(60)]
    await publish(store, "slow", *said)
    await publish(store, "other", "o1")
    most = 0
    while await relay.turn():
        most = max(most, relay._state.backlog.count)
    assert 10 < most <= 25
    assert [message.name for message in reader.given if message.instance == "slow"] == said
    assert (relay.tally["dead"], relay.tally["delivered"]) == (0, 61)


async def test_a_probe_that_waits_as_a_letter_does_not_keep_its_relay_busy(
    store: Store, clock: FakeClock
) -> None:
    """When its page is read later and holds nothing else, the relay passes it and rests."""
    reader, relay = await poisoned(store, most_waiting=FAILURES)
    await publish(store, "new", "bad")
    clock.advance("5s")
    await until_idle(relay)
    assert reader.given[-1].instance == "new"
    reader.moods["bad"] = lambda message: None if message.instance != "new" else always(NO)(message)
    for _ in range(10):
        clock.advance("5m")
        turns = 0
        while await relay.turn():
            turns += 1
            assert turns < 100
    letters = await store.letters.page(LetterQuery())
    assert [(letter.instance, letter.dead) for letter in letters] == [("new", False)]
    reader.moods.clear()
    clock.advance("5m")
    await until_idle(relay)
    assert [message.instance for message in reader.taken].count("new") == 1
