"""Letters: what a destination has not taken waits in order, is tried again, or is dead until someone acts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import LetterPlace, LetterQuery, Settlement
from headway.store.rows import Cursor, LetterRow
from tests.store.contract.clocks import MINUTE, minute
from tests.store.contract.place import (
    ANY_TEXT,
    AT,
    LETTER,
    LONG_AGO,
    NEVER,
    Place,
    letter,
)

HOUR = 3_600_000
KEPT = [
    letter(1),
    letter(2, dead=True),
    letter(3, tenant="other"),
    letter(4, dead=True, tenant="other"),
    letter(5, due=NEVER, instance="i2"),
    letter(1, destination="b"),
    letter(2, destination="b", dead=True),
]
LISTS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 1, 2, 2, 3, 4, 5]),
    ({"destination": "a"}, [1, 2, 3, 4, 5]),
    ({"destination": "a", "limit": 2}, [1, 2]),
    ({"destination": "a", "after": 3}, [4, 5]),
    ({"tenant": "other"}, [3, 4]),
    ({"dead": True}, [2, 2, 4]),
    ({"dead": False}, [1, 1, 3, 5]),
    ({"dead": False, "after": 1, "limit": 1}, [3]),
    ({"destination": "a", "dead": True}, [2, 4]),
    ({"destination": "a", "dead": True, "tenant": "other"}, [4]),
    ({"tenant": "acme", "dead": True}, [2, 2]),
    ({"ids": ("m2", "m3", "none")}, [2, 2, 3]),
    ({"ids": ("m2", "m3"), "destination": "a", "tenant": "acme"}, [2]),
    ({"ids": ("m1", "m2"), "dead": True, "after": 1}, [2, 2]),
    ({"ids": ("m5", "m1"), "limit": 1, "destination": "a"}, [1]),
    ({"instance": "i2"}, [5]),
    ({"instance": "i1", "tenant": "acme", "dead": True}, [2, 2]),
    ({"instance": "i2", "ids": ("m1", "m5"), "destination": "a"}, [5]),
    ({"instance": "none"}, []),
    ({"destination": "none"}, []),
]
WAITING: list[tuple[str, list[LetterRow], list[int]]] = [
    ("one of each instance", [letter(1), letter(2), letter(3, instance="i2")], [1, 3]),
    ("none behind one that rests", [letter(1, due=NEVER), letter(2), letter(3, instance="i2")], [3]),
    ("one behind a dead one", [letter(1, dead=True), letter(2), letter(3)], [2]),
    ("instances of two tenants", [letter(1), letter(2, tenant="other")], [1, 2]),
    ("nothing dead", [letter(1, dead=True)], []),
    ("nothing that is not due", [letter(1, due=NEVER)], []),
]
CONSUMER = "a"


async def keep(store: Store, *letters: LetterRow, delivered: tuple[int, ...] = ()) -> None:
    """Settle letters, each as the consumer of its destination."""
    for destination in dict.fromkeys(["a", *(each.destination for each in letters)]):
        await store.leases.hold([("", destination)], "n1", HOUR)
        mine = tuple(each for each in letters if each.destination == destination)
        gone = delivered if destination == "a" else ()
        assert await store.messages.settle(Settlement(destination, "n1", Cursor(), mine, gone))


def positions(rows: Sequence[LetterRow]) -> list[int]:
    """Which letters they are."""
    return [row.position for row in rows]


async def due(store: Store, destination: str = "a", **wanted: Any) -> list[int]:
    """Which letters a destination is to be tried with now."""
    return positions(await store.letters.page(LetterQuery(destination=destination, due=True, **wanted)))


@pytest.mark.mission("ENG-5", "ENG-17")
class TestLetters:
    """Letters wait in order per instance and destination, and dead ones wait for a person."""

    async def test_a_letter_comes_back_as_it_went_in(self, store: Store) -> None:
        """Every column survives, and a second settlement takes the place of the first."""
        texts = dict.fromkeys(("tenant", "id", "instance", "kind", "name", "data", "error"), ANY_TEXT)
        full = replace(LETTER, **texts, at=LONG_AGO, position=2**40, attempts=3, due=NEVER, dead=True)
        for rows in ([LETTER, full], [replace(LETTER, attempts=2, error="again", due=NEVER), full]):
            await keep(store, *rows)
            assert await store.letters.page(LetterQuery()) == rows

    @pytest.mark.parametrize(("wanted", "expected"), LISTS, ids=str)
    @pytest.mark.mission("ENG-14")
    async def test_a_list_holds_what_was_asked_for(
        self, store: Store, wanted: dict[str, Any], expected: list[int]
    ) -> None:
        """Every filter, alone and with others, in the order of the messages."""
        await keep(store, *KEPT)
        rows = await store.letters.page(LetterQuery(**wanted))
        assert positions(rows) == expected
        assert all(row in KEPT for row in rows)

    async def test_no_letter_falls_between_two_pages(self, store: Store) -> None:
        """A message that several destinations have not taken is not torn apart by the end of a page."""
        names = [f"d{n}" for n in range(5)]
        await keep(store, *(letter(1 + n % 3, destination=name) for n, name in enumerate(names)))
        seen: list[str] = []
        after = 0
        while page := await store.letters.page(LetterQuery(after=after, limit=1)):
            seen += [row.destination for row in page]
            after = page[-1].position
        assert sorted(seen) == names

    @pytest.mark.parametrize(
        ("rows", "expected"), [case[1:] for case in WAITING], ids=[case[0] for case in WAITING]
    )
    async def test_letters_are_tried_in_order(
        self, store: Store, rows: list[LetterRow], expected: list[int]
    ) -> None:
        """Only the first of each instance that waits, when it is due."""
        await keep(store, *reversed(rows), *(replace(row, destination="b", due=NEVER) for row in rows))
        assert await due(store) == expected
        assert await due(store, "none") == []

    async def test_what_waits_behind_the_first_is_found_in_order(self, store: Store) -> None:
        """So many of each line, none that is dead, and none of other lines."""
        lines = [letter(1), letter(2, dead=True), letter(5), letter(4), letter(7), letter(3, instance="i2")]
        others = [letter(6, tenant="other"), letter(8, destination="b"), letter(9, instance="i2")]
        await keep(store, *lines, *others)
        heads = await store.letters.page(LetterQuery(destination="a", due=True, tenant="acme"))
        assert positions(heads) == [1, 3]
        behind = await store.letters.behind(heads, 2)
        assert [row.position for row in behind if row.instance == "i1"] == [4, 5]
        assert [row.position for row in behind if row.instance == "i2"] == [9]
        assert await store.letters.behind(heads[1:], 0) == []

    @pytest.mark.mission("ENG-14")
    async def test_what_waits_behind_a_letter_is_of_its_own_line(self, store: Store) -> None:
        """The same instance in another tenant, or for another destination, is another line."""
        lines = [(name, tenant) for name in "ab" for tenant in ("acme", "other")]
        heads = [letter(n, destination=name, tenant=tenant) for n, (name, tenant) in enumerate(lines, 1)]
        second = [replace(head, position=head.position + 10) for head in heads]
        await keep(store, *heads, *second)
        for head, behind in zip(heads, second, strict=True):
            assert await store.letters.behind([head], 9) == [behind]

    async def test_who_waits_is_told_page_by_page(self, store: Store) -> None:
        """Each letter that waits for a destination, and none that is dead or waits for another."""
        places = [("acme", "i1", 1, 2), ("acme", "i1", 5, 0), ("acme", "i2", 3, 0), ("other", "i1", 2, 1)]
        waiting = [
            letter(at, tenant=tenant, instance=instance, attempts=attempts)
            for tenant, instance, at, attempts in places
        ]
        await keep(store, *waiting, letter(4, dead=True), letter(6, destination="b"))
        after = LetterPlace()
        seen: list[LetterPlace] = []
        while page := await store.letters.waiting("a", after, 3):
            seen += page
            after = page[-1]
        assert seen == places

    async def test_each_settlement_lets_the_next_letter_be_tried(self, store: Store) -> None:
        """When the first is delivered, or dead, or put off, what follows is tried, or waits with it."""
        await keep(store, *(letter(n) for n in (1, 2, 3, 4)))
        await keep(store, delivered=(1,))
        assert await due(store) == [2]
        await keep(store, letter(2, dead=True))
        assert await due(store) == [3]
        await keep(store, letter(3, due=NEVER))
        assert await due(store) == []
        await keep(store, letter(3))
        assert await due(store) == [3]
        await keep(store, delivered=(3, 4, 99))
        assert await due(store) == []
        assert positions(await store.letters.page(LetterQuery())) == [2]

    @pytest.mark.mission("ENG-14")
    async def test_a_settlement_touches_the_line_of_its_letters_only(self, store: Store) -> None:
        """The same instance in another tenant or for another destination, and other instances, stay due."""
        places = [(name, tenant, of) for name in "ab" for tenant in ("acme", "other") for of in ("i1", "i2")]
        rows = [
            letter(n, destination=name, tenant=tenant, instance=of)
            for n, (name, tenant, of) in enumerate(places, 1)
        ]
        await keep(store, *rows)
        await keep(store, delivered=(1,))
        assert [await due(store, name) for name in "ab"] == [[2, 3, 4], [5, 6, 7, 8]]
        await keep(store, replace(rows[1], due=NEVER))
        assert [await due(store, name) for name in "ab"] == [[3, 4], [5, 6, 7, 8]]

    async def test_so_many_are_tried_as_were_asked_for(self, store: Store) -> None:
        """Each turn takes some; what was put off lets the rest come."""
        await keep(store, *(letter(n, instance=f"i{n}") for n in range(1, 6)))
        first = await store.letters.page(LetterQuery(destination="a", due=True, limit=3))
        await keep(store, *(replace(row, due=NEVER) for row in first))
        rest = await due(store, limit=3)
        assert sorted(positions(first) + rest) == [1, 2, 3, 4, 5]

    async def test_a_redriven_letter_is_tried_at_once_and_first(self, store: Store) -> None:
        """With all its attempts, and before what waits behind it; letters that live stay as they are."""
        now = await store.now()
        resting = letter(2, due=NEVER, attempts=3)
        await keep(store, letter(1, dead=True, attempts=9, due=NEVER, error="gone"), resting)
        assert await store.letters.redrive(LetterQuery(destination="a")) == 1
        assert await due(store) == [1]
        [first, second] = await store.letters.page(LetterQuery())
        assert (first.attempts, first.dead, first.error) == (0, False, "gone")
        assert now <= first.due <= await store.now()
        assert second == resting

    @pytest.mark.parametrize("act", ["redrive", "discard"])
    @pytest.mark.mission("ENG-14")
    async def test_only_dead_letters_of_the_query_are_acted_on(self, store: Store, act: str) -> None:
        """By destination, tenant and id, so many as were asked for; those that live are left alone."""
        await keep(store, *KEPT, letter(6, dead=True), letter(7, dead=True))

        async def acted(**wanted: Any) -> int:
            count: int = await getattr(store.letters, act)(LetterQuery(**wanted))
            return count

        assert await acted(destination="none") == 0
        assert await acted(ids=("m1",)) == 0
        assert await acted(ids=("m2",), destination="b") == 1
        assert await acted(tenant="other") == 1
        assert positions(await store.letters.page(LetterQuery(dead=True))) == [2, 6, 7]
        assert await acted(destination="a", limit=2) == 2
        assert positions(await store.letters.page(LetterQuery(dead=True))) == [7]
        left = 9 if act == "redrive" else 5
        assert len(await store.letters.page(LetterQuery())) == left

    @pytest.mark.parametrize("act", ["redrive", "discard"])
    async def test_letters_that_were_not_named_stay(self, store: Store, act: str) -> None:
        """Not those of the same destination, nor those of the same message for another destination."""
        letters = [letter(n, dead=True, destination=name) for n in (1, 2) for name in "ab"]
        await keep(store, *letters)
        assert await getattr(store.letters, act)(LetterQuery("a", ids=("m1",))) == 1
        left = await store.letters.page(LetterQuery(dead=True))
        assert left == letters[1:]
        assert len(await store.letters.page(LetterQuery())) == (4 if act == "redrive" else 3)

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({}, ["a1", "b1", "a2", "c3", "a4"]),
            ({"limit": 2}, ["c3", "a4"]),
            ({"destination": "a", "after": 1}, ["a2", "a4"]),
            ({"instance": "i2"}, ["a2"]),
            ({"tenant": "other"}, ["c3"]),
            ({"ids": ("m1", "m4")}, ["a1", "b1", "a4"]),
            ({"destination": "a", "dead": True}, []),
        ],
        ids=str,
    )
    @pytest.mark.mission("ENG-14")
    async def test_what_is_due_is_found_by_every_filter(
        self, store: Store, wanted: dict[str, Any], expected: list[str]
    ) -> None:
        """For one destination or for all, the longest due in the order of their messages."""
        rows = [
            letter(1, due=AT),
            letter(1, destination="b", due=AT),
            letter(2, instance="i2", due=AT),
            letter(3, destination="c", tenant="other", due=LONG_AGO),
            letter(4, instance="i4", due=LONG_AGO),
            letter(5, destination="c", instance="i5", due=NEVER),
        ]
        await keep(store, *rows)
        found = await store.letters.page(LetterQuery(due=True, **wanted))
        assert [f"{row.destination}{row.position}" for row in found] == expected

    async def test_letters_that_wait_are_deleted_only_when_that_is_asked_for(self, store: Store) -> None:
        """What stands behind them is tried next; dead ones and those of others stay."""
        others = [letter(3, tenant="other"), letter(1, destination="b")]
        await keep(store, letter(1, due=NEVER), letter(2, dead=True), letter(4), letter(5), *others)
        wanted = LetterQuery("a", "acme", dead=False, limit=1)
        assert await store.letters.discard(wanted) == 1
        assert await due(store, tenant="acme") == [4]
        assert await store.letters.discard(replace(wanted, limit=9)) == 2
        assert positions(await store.letters.page(LetterQuery())) == [1, 2, 3]


@pytest.mark.mission("ENG-17")
class TestDurations:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

    @pytest.mark.mission("ENG-5")
    async def test_a_letter_is_tried_again_at_its_time(self, place: Place) -> None:
        """It is due then, and not before."""
        async with minute(place) as at:
            await at.store.leases.hold([("", CONSUMER)], "n1", 2 * MINUTE)
            waiting = (letter(1, due=at.end), letter(2, due=LONG_AGO))
            assert await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(), waiting))
            query = LetterQuery(CONSUMER, due=True)
            at.almost()
            assert not await at.store.letters.page(query)
            at.exactly()
            assert [row.position for row in await at.store.letters.page(query)] == [1]
