"""Events: the lines of all histories as one log, which followers read on from where they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import EventPage, EventQuery
from headway.store.rows import Cursor, EventRow, HistoryRow
from headway.store.unit import Changes, Found, Reads
from tests.store.contract.acts import Act, writing
from tests.store.contract.place import ANY_TEXT, HISTORY, LONG_AGO, NEVER, Place, instance

THERE = [
    instance("i1", owner="ann"),
    instance("i2", chart="crawl"),
    instance("i1", tenant="other", owner="ann"),
    instance("i3", owner="bob", chart="crawl", parent="i2"),
]
LINES = ["acme i1", "acme i2", "other i1", "acme i1", "acme i3", "other i1", "acme i2"]
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "0123456"),
    ({"tenant": "acme"}, "01346"),
    ({"tenant": "other"}, "25"),
    ({"tenant": "acme", "instance": "i1"}, "03"),
    ({"instance": "i1"}, "0235"),
    ({"tenant": "acme", "chart": "crawl"}, "146"),
    ({"chart": "crawl", "owner": "bob"}, "4"),
    ({"owner": "ann"}, "0235"),
    ({"tenant": "acme", "owner": "ann"}, "03"),
    ({"tenant": "acme", "parent": "i2"}, "4"),
    ({"parent": "i1"}, ""),
    ({"tenant": "nobody"}, ""),
]


def line(place: str, event: str) -> HistoryRow:
    """A line of an instance's history."""
    tenant, name = place.split()
    return replace(HISTORY, tenant=tenant, instance=name, event=event)


async def events_from(store: Store, cursor: Cursor, **wanted: Any) -> list[EventRow]:
    """Every event from a cursor on, read page by page until there are no more."""
    seen: list[EventRow] = []
    while True:
        page = await store.events.page(EventQuery(after=cursor, **wanted))
        assert page.cursor >= cursor
        seen += lines_of(page)
        cursor = page.cursor
        if page.complete:
            return seen


def lines_of(page: EventPage) -> list[EventRow]:
    """The events of a log without messages."""
    return [event for event in page.events if isinstance(event, EventRow)]


def said(events: list[EventRow]) -> str:
    """Which events they are."""
    return "".join(event.line.event for event in events)


def moving(name: str) -> Act:
    """A unit that moves an instance on, with a line of history that tells how far it is."""
    key = ("acme", name)

    def decide(seen: Found) -> Changes:
        row = seen.instances[key]
        return Changes(
            updated=[replace(row, seq=row.seq + 1)],
            history=[replace(HISTORY, instance=name, seq=row.seq)],
        )

    return Act(decide, lambda: Reads(instances={key}))


@pytest.mark.mission("ENG-7", "ENG-15", "ENG-17")
class TestEvents:
    """Whoever reads on from its cursor gets every line of every history once, in order."""

    async def test_an_event_is_a_line_of_history_with_its_chart_owner_and_parent(self, store: Store) -> None:
        """Every column survives, and the cursor is the line's place in the log."""
        full = replace(HISTORY, event=ANY_TEXT, reason=ANY_TEXT, data=ANY_TEXT, at=LONG_AGO, row=3)
        row = instance("i1", owner=ANY_TEXT, parent=ANY_TEXT)
        await store.run(writing(created=[row], history=[HISTORY, full]))
        events = await events_from(store, Cursor())
        assert [replace(event.line, position=0, stamp=0) for event in events] == [HISTORY, full]
        whose = {(event.chart, event.owner, event.parent) for event in events}
        assert whose == {(row.chart, ANY_TEXT, ANY_TEXT)}
        assert [event.line for event in events] == [*await store.history.page(("acme", "i1"))]
        assert Cursor() < events[0].cursor < events[1].cursor

    @pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=str)
    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_a_follower_gets_what_it_wants(
        self, store: Store, wanted: dict[str, Any], expected: str, limit: int
    ) -> None:
        """By tenant, instance, chart, owner and parent, in pages of any size, in order, and to the end."""
        await store.run(writing(created=THERE))
        for number, place in enumerate(LINES):
            await store.run(writing(history=[line(place, str(number))]))
        page = await store.events.page(EventQuery(limit=limit, **wanted))
        assert len(page.events) <= limit
        assert said(await events_from(store, Cursor(), limit=limit, **wanted)) == expected
        everything = await events_from(store, Cursor())
        assert said([event for event in everything if EventQuery(**wanted).takes(event)]) == expected

    async def test_few_lines_among_many_are_found(self, store: Store) -> None:
        """The lines that do not fit are passed over, page by page, however many they are."""
        await store.run(writing(created=THERE))
        many = [line("acme i1", "x")] * 1_500
        lines = [*many, line("acme i3", "a"), *many, line("acme i3", "b")]
        await store.run(writing(history=lines))
        for wanted in ({"owner": "bob"}, {"tenant": "acme", "instance": "i3"}, {"chart": "crawl"}):
            assert said(await events_from(store, Cursor(), limit=1, **wanted)) == "ab"

    async def test_who_follows_from_now_on_gets_what_comes(self, store: Store) -> None:
        """Nothing from before, and everything from then on."""
        assert await events_from(store, await store.events.last()) == []
        await store.run(writing(created=THERE, history=[line("acme i1", "a")]))
        start = await store.events.last()
        assert await events_from(store, start) == []
        await store.run(writing(history=[line("acme i1", "b")]))
        assert said(await events_from(store, start)) == "b"

    async def test_all_readers_arrive_at_the_end(self, store: Store) -> None:
        """Also when what they wanted was pruned: a reader is never behind one that came before it."""
        rows = [replace(row, ended=True, updated_at=LONG_AGO) for row in THERE]
        await store.run(writing(created=rows, history=[line(place, "x") for place in LINES]))
        early = [await store.events.last(), (await store.events.page(EventQuery())).cursor]
        await store.instances.prune(NEVER, 100)
        for query in (EventQuery(), EventQuery(tenant="acme", instance="i1"), EventQuery(owner="ann")):
            page = await store.events.page(query)
            assert page.complete
            assert not any(event.instance for event in page.events)
            assert page.cursor >= max(early)

    async def test_one_who_follows_fifty_histories_misses_no_line(self, place: Place, store: Store) -> None:
        """While units of two stores commit at once, a follower sees each line once and in its order."""
        names = [f"i{n}" for n in range(50)]
        await store.run(writing(created=[instance(name) for name in names]))
        second = place.store() if place.shared else store
        await second.open()

        async def write(n: int) -> None:
            for _ in range(4):
                await (store, second)[n % 2].run(moving(names[n]))

        seen: list[EventRow] = []
        cursor = Cursor()
        writers = asyncio.gather(*map(write, range(50)))
        while not writers.done():
            page = await store.events.page(EventQuery(after=cursor, limit=7))
            seen += lines_of(page)
            cursor = page.cursor
        await writers
        seen += await events_from(store, cursor)
        if place.shared:
            await second.close()
        assert len(seen) == len(names) * 4
        for name in names:
            assert [event.line.seq for event in seen if event.line.instance == name] == [1, 2, 3, 4]
