"""Messages: a log that consumers read on from where they are, and miss nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import (
    LetterQuery,
    MessageQuery,
    Settlement,
)
from headway.store.rows import Cursor, MessageRow
from tests.store.contract.acts import writing
from tests.store.contract.clocks import MINUTE, minute
from tests.store.contract.place import (
    ANY_TEXT,
    AT,
    LETTER,
    LONG_AGO,
    MESSAGE,
    NEVER,
    Place,
    letter,
    message,
)

SENT = [
    message("a"),
    message("b", kind="webhook"),
    message("c", tenant="other"),
    message("d", kind="live"),
    message("e", kind="webhook", tenant="other"),
    message("f"),
]
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdef"),
    ({"kinds": ("webhook",)}, "be"),
    ({"kinds": ("webhook", "live")}, "bde"),
    ({"tenant": "other"}, "ce"),
    ({"tenant": "other", "kinds": ("emit",)}, "c"),
    ({"kinds": ("none",)}, ""),
]
HOUR = 3_600_000
CONSUMER = "webhook:a"
LEASE = ("", CONSUMER)
SECOND = timedelta(seconds=1)


async def all_from(store: Store, cursor: Cursor, **wanted: Any) -> list[MessageRow]:
    """Every message from a cursor on, read page by page until the cursor stays where it is."""
    seen: list[MessageRow] = []
    while True:
        page = await store.messages.page(MessageQuery(after=cursor, **wanted))
        seen += page.messages
        if page.cursor == cursor:
            return seen
        cursor = page.cursor


def ids(rows: Sequence[MessageRow]) -> str:
    """Which messages they are."""
    return "".join(row.id for row in rows)


async def settled(store: Store, consumer: str, cursor: Cursor) -> None:
    """A consumer that has come so far."""
    await store.leases.hold([("", consumer)], "n1", HOUR)
    assert await store.messages.settle(Settlement(consumer, "n1", cursor))


@pytest.mark.mission("ENG-5", "ENG-17")
class TestMessages:
    """Whoever reads on from its cursor gets every message once, in order."""

    async def test_messages_come_back_as_they_went_in(self, store: Store) -> None:
        """Every column survives, and the store gives each message its place."""
        full = replace(MESSAGE, id=ANY_TEXT, kind=ANY_TEXT, name=ANY_TEXT, data=ANY_TEXT, at=LONG_AGO)
        await store.run(writing(messages=[MESSAGE, full]))
        page = await store.messages.page(MessageQuery())
        assert [replace(row, position=0, stamp=0) for row in page.messages] == [MESSAGE, full]
        assert Cursor() < page.messages[0].cursor < page.messages[1].cursor == page.cursor

    @pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=str)
    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_a_reader_gets_what_it_wants(
        self, store: Store, wanted: dict[str, Any], expected: str, limit: int
    ) -> None:
        """By kind and tenant, in pages of any size, in order, and to the end."""
        for row in SENT:
            await store.run(writing(messages=[row]))
        page = await store.messages.page(MessageQuery(limit=limit, **wanted))
        assert len(page.messages) <= limit
        assert ids(await all_from(store, Cursor(), limit=limit, **wanted)) == expected

    async def test_a_cursor_leads_beyond_what_did_not_fit(self, store: Store) -> None:
        """Who wants none of the messages need not look at them again."""
        await store.run(writing(messages=[message(f"m{n}") for n in range(5)]))
        page = await store.messages.page(MessageQuery(kinds=("webhook",)))
        assert not page.messages
        assert not (await store.messages.page(MessageQuery(after=page.cursor))).messages

    async def test_a_reader_that_is_at_the_end_stays_there(self, store: Store) -> None:
        """With nothing new, the cursor is the one that was given."""
        assert (await store.messages.page(MessageQuery())).cursor == Cursor()
        await store.run(writing(messages=[MESSAGE]))
        end = (await store.messages.page(MessageQuery())).cursor
        assert (await store.messages.page(MessageQuery(after=end))).cursor == end

    async def test_who_begins_now_gets_what_comes(self, store: Store) -> None:
        """Nothing from before, and everything from then on."""
        assert ids(await all_from(store, await store.messages.last())) == ""
        await store.run(writing(messages=[message("a")]))
        start = await store.messages.last()
        assert ids(await all_from(store, start)) == ""
        await store.run(writing(messages=[message("b")]))
        assert ids(await all_from(store, start)) == "b"

    async def test_one_who_follows_fifty_writers_misses_nothing(self, place: Place, store: Store) -> None:
        """While units of two stores commit at once, a follower sees each message once and in its order."""
        second = place.store() if place.shared else store
        await second.open()

        async def write(n: int) -> None:
            at = (store, second)[n % 2]
            for turn in range(4):
                await at.run(writing(messages=[message(f"{n}.{turn}", instance=f"i{n}")]))

        seen: list[MessageRow] = []
        writers = asyncio.gather(*map(write, range(50)))
        while not writers.done():
            page = await store.messages.page(
                MessageQuery(after=seen[-1].cursor if seen else Cursor(), limit=7)
            )
            seen += page.messages
        await writers
        seen += await all_from(store, seen[-1].cursor if seen else Cursor())
        if place.shared:
            await second.close()
        assert sorted(row.id for row in seen) == sorted(f"{n}.{turn}" for n in range(50) for turn in range(4))
        for n in range(50):
            mine = [row.id for row in seen if row.instance == f"i{n}"]
            assert mine == [f"{n}.{turn}" for turn in range(4)]


@pytest.mark.mission("ENG-5", "ENG-17")
class TestConsumers:
    """A consumer settles what it has done while it holds its lease."""

    async def test_a_consumer_is_where_it_has_settled(self, store: Store) -> None:
        """Nowhere at first, then at the cursor of its last settlement; others are elsewhere."""
        await store.leases.hold([LEASE], "n1", HOUR)
        assert await store.messages.consumer(CONSUMER) is None
        for cursor in (Cursor(3, 7), Cursor(4, 2)):
            assert await store.messages.settle(Settlement(CONSUMER, "n1", cursor))
            assert await store.messages.consumer(CONSUMER) == cursor
        assert await store.messages.consumer("another") is None

    async def test_a_consumer_that_is_no_more_is_forgotten_with_its_letters(self, store: Store) -> None:
        """It holds no messages back any longer; one that is at work is not touched, nor is another."""
        for name in (CONSUMER, "another"):
            await store.leases.hold([("", name)], "me", 60_000)
            owed = replace(LETTER, destination=name)
            assert await store.messages.settle(Settlement(name, "me", Cursor(0, 1), letters=(owed,)))
        assert not await store.messages.retire(CONSUMER)
        assert await store.messages.consumer(CONSUMER) is not None
        await store.leases.release([("", CONSUMER)], "me")
        assert await store.messages.retire(CONSUMER)
        assert await store.messages.consumer(CONSUMER) is None
        assert [letter.destination for letter in await store.letters.page(LetterQuery())] == ["another"]
        assert await store.messages.retire("never heard of")

    @pytest.mark.mission("ENG-14")
    async def test_the_lease_of_a_tenant_is_not_that_of_a_consumer(self, store: Store) -> None:
        """A tenant that holds a lease of the same name neither keeps the consumer nor loses its lease."""
        for lease in (LEASE, ("acme", CONSUMER), ("", "another")):
            await store.leases.hold([lease], "me", HOUR)
        assert await store.messages.settle(Settlement(CONSUMER, "me", Cursor(0, 1)))
        await store.leases.hold([LEASE], "me", 0)
        assert await store.messages.retire(CONSUMER)
        assert await store.messages.consumer(CONSUMER) is None
        assert await store.leases.get(LEASE) is None
        for lease in (("acme", CONSUMER), ("", "another")):
            assert await store.leases.get(lease) is not None

    @pytest.mark.parametrize(("holder", "milliseconds"), [("n2", HOUR), ("n1", 0), (None, HOUR)], ids=str)
    async def test_who_has_lost_the_lease_settles_nothing(
        self, store: Store, holder: str | None, milliseconds: int
    ) -> None:
        """Not when another holds it, nor when it has ended, nor when there is none."""
        if holder:
            await store.leases.hold([LEASE], holder, milliseconds)
        await store.leases.hold([("acme", CONSUMER), ("", "another")], "n1", HOUR)
        settlement = Settlement(CONSUMER, "n1", Cursor(0, 9), letters=(letter(destination=CONSUMER),))
        assert not await store.messages.settle(settlement)
        assert await store.messages.consumer(CONSUMER) is None
        await store.leases.hold([LEASE], holder or "n1", HOUR)
        assert await store.messages.settle(replace(settlement, holder=holder or "n1", letters=()))


@pytest.mark.mission("ENG-17")
class TestDurations:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

    @pytest.mark.mission("ENG-5")
    async def test_a_consumer_settles_until_the_end_of_its_lease(self, place: Place) -> None:
        """From then on what it has done counts for nothing, even if nobody has taken its place."""
        async with minute(place) as at:
            await at.store.leases.hold([("", CONSUMER)], "n1", MINUTE)
            at.almost()
            assert await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(1, 1)))
            at.exactly()
            assert not await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(2, 2), (letter(),)))
            assert await at.store.messages.consumer(CONSUMER) == Cursor(1, 1)
            assert not await at.store.letters.page(LetterQuery())

    @pytest.mark.mission("ENG-5")
    async def test_a_consumer_is_retired_from_the_end_of_its_lease_on(self, place: Place) -> None:
        """As long as somebody delivers for it, it stays."""
        async with minute(place) as at:
            await at.store.leases.hold([("", CONSUMER)], "n1", MINUTE)
            await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(1, 1)))
            at.almost()
            assert not await at.store.messages.retire(CONSUMER)
            assert await at.store.messages.consumer(CONSUMER) == Cursor(1, 1)
            at.exactly()
            assert await at.store.messages.retire(CONSUMER)
            assert await at.store.messages.consumer(CONSUMER) is None


@pytest.mark.mission("ENG-17")
class TestPruning:
    """Messages are deleted when all consumers have read them."""

    @pytest.mark.mission("ENG-5")
    async def test_old_messages_are_pruned_once_all_consumers_are_past(self, store: Store) -> None:
        """The slowest consumer decides, and the time; what is left is read on as if nothing had happened."""
        await store.run(writing(messages=[message(f"m{n}", at=AT + n * SECOND) for n in range(8)]))
        sent = (await store.messages.page(MessageQuery())).messages
        await settled(store, "fast", sent[7].cursor)
        await settled(store, "slow", sent[4].cursor)
        assert await store.messages.prune(AT, 10) == 0
        assert await store.messages.prune(AT + 3 * SECOND, 10) == 3
        assert [await store.messages.prune(NEVER, 1) for _ in range(3)] == [1, 1, 0]
        assert (await store.messages.page(MessageQuery())).messages == sent[5:]
        await settled(store, "slow", sent[7].cursor)
        assert await store.messages.prune(NEVER, 10) == 3
        await store.run(writing(messages=[message("next")]))
        [after] = (await store.messages.page(MessageQuery(after=sent[7].cursor))).messages
        assert after.id == "next"

    @pytest.mark.mission("ENG-5")
    async def test_messages_that_nobody_consumes_are_pruned_by_time(self, store: Store) -> None:
        """Without a consumer there is nobody to wait for."""
        await store.run(writing(messages=[message("old", at=LONG_AGO), message("new")]))
        assert await store.messages.prune(AT, 10) == 1
        assert [row.id for row in (await store.messages.page(MessageQuery())).messages] == ["new"]
