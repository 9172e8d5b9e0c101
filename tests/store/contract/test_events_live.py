"""Live messages: in the log of events they follow the lines of their step, and none is missed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import EventQuery
from headway.store.rows import Cursor, EventRow, LogRow, MessageRow
from headway.store.unit import Changes, Found, Reads
from tests.store.contract.acts import Act, writing
from tests.store.contract.place import (
    ANY_TEXT,
    AT,
    HISTORY,
    LONG_AGO,
    MESSAGE,
    NEVER,
    Place,
    instance,
)
from tests.store.contract.test_events import THERE, line

STEPS = [("acme i1", "A", "a"), ("acme i2", "", "b"), ("other i1", "CD", "cd"), ("acme i3", "", "ef")]
"""Whose step it is, its lines, and its messages: work tells of its progress without a line."""
LATER = [("acme i1", "G", ""), ("acme i1", "", "h"), ("acme i2", "I", "ijk")]
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "AabCDcdefGhIijk"),
    ({"tenant": "acme"}, "AabefGhIijk"),
    ({"tenant": "other"}, "CDcd"),
    ({"tenant": "acme", "instance": "i1"}, "AaGh"),
    ({"instance": "i1"}, "AaCDcdGh"),
    ({"tenant": "acme", "chart": "crawl"}, "befIijk"),
    ({"chart": "crawl", "owner": "bob"}, "ef"),
    ({"tenant": "acme", "owner": "ann"}, "AaGh"),
    ({"tenant": "nobody"}, ""),
]


def live(place: str, name: str, **fields: Any) -> MessageRow:
    """A live message of an instance."""
    tenant, of = place.split()
    return replace(MESSAGE, tenant=tenant, instance=of, kind="live", name=name, **fields)


async def take_steps(store: Store, steps: list[tuple[str, str, str]]) -> None:
    """Write the lines and the messages of steps, among messages for somebody else."""
    for place, lines, messages in steps:
        told = [live(place, name) for name in messages]
        await store.run(
            writing(history=[line(place, event) for event in lines], messages=[MESSAGE, *told, MESSAGE])
        )


async def log_from(store: Store, cursor: Cursor, **wanted: Any) -> list[LogRow]:
    """Every event from a cursor on."""
    seen: list[LogRow] = []
    while True:
        page = await store.events.page(EventQuery(after=cursor, **wanted))
        assert page.cursor >= cursor
        seen += page.events
        cursor = page.cursor
        if page.complete:
            return seen


def said(events: list[LogRow]) -> str:
    """Which events they are."""
    return "".join(each.line.event if isinstance(each, EventRow) else each.message.name for each in events)


def telling(name: str) -> Act:
    """A unit that moves an instance on and tells of it; now and then there is no line of it."""
    key = ("acme", name)

    def decide(seen: Found) -> Changes:
        row = seen.instances[key]
        place, number = f"acme {name}", str(row.seq)
        return Changes(
            updated=[replace(row, seq=row.seq + 1)],
            history=[line(place, number)] if row.seq % 3 else [],
            messages=[live(place, f"{number}+")],
        )

    return Act(decide, lambda: Reads(instances={key}))


@pytest.mark.mission("ENG-7", "ENG-15", "ENG-17")
class TestLiveMessages:
    """Whoever reads on from its cursor gets every line and every live message once, in order."""

    async def test_a_live_message_comes_with_its_chart_owner_and_parent(self, store: Store) -> None:
        """Every column survives; other messages are not in the log."""
        full = live("acme i1", ANY_TEXT, id=ANY_TEXT, data=ANY_TEXT, at=LONG_AGO)
        row = instance("i1", owner=ANY_TEXT, parent=ANY_TEXT)
        await store.run(writing(created=[row], history=[HISTORY], messages=[MESSAGE, full, MESSAGE]))
        first, second = await log_from(store, Cursor())
        assert isinstance(first, EventRow)
        assert not isinstance(second, EventRow)
        assert replace(second.message, position=0, stamp=0) == full
        assert (second.chart, second.owner, second.parent) == (row.chart, ANY_TEXT, ANY_TEXT)
        assert (second.tenant, second.instance, second.data) == ("acme", "i1", ANY_TEXT)
        assert Cursor() < first.cursor < second.cursor

    @pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=str)
    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_lines_and_messages_are_one_log(
        self, store: Store, wanted: dict[str, Any], expected: str, limit: int
    ) -> None:
        """In pages of any size and from each event on, also from one whose reader was up to date once."""
        await store.run(writing(created=THERE))
        await take_steps(store, STEPS)
        early, end = (await store.events.page(EventQuery(**wanted))).cursor, await store.events.last()
        await take_steps(store, LATER)
        events = await log_from(store, Cursor(), limit=limit, **wanted)
        assert said(events) == expected
        assert sorted(each.cursor for each in events) == [each.cursor for each in events]
        for place, each in enumerate(events, 1):
            rest = await log_from(store, each.cursor, limit=limit, **wanted)
            assert said(rest) == expected[place:]
        later = said([each for each in events if said([each]) in "GhIijk"])
        for cursor in (early, end):
            assert said(await log_from(store, cursor, limit=limit, **wanted)) == later
        everything = await log_from(store, Cursor())
        assert said([each for each in everything if EventQuery(**wanted).takes(each)]) == expected

    async def test_few_messages_among_many_are_found(self, store: Store) -> None:
        """What does not fit is passed over, page by page, however much it is and whatever it is."""
        await store.run(writing(created=THERE))
        many = [live("acme i1", "x")] * 1_500
        for name in "ab":
            await store.run(writing(messages=[*many, *[MESSAGE] * 1_500, live("acme i3", name)]))
            await store.run(writing(history=[line("acme i1", "X")] * 1_500))
        for wanted in ({"owner": "bob"}, {"tenant": "acme", "instance": "i3"}, {"chart": "crawl"}):
            for limit in (1, 100):
                assert said(await log_from(store, Cursor(), limit=limit, **wanted)) == "ab"
        everything = said(await log_from(store, Cursor(), limit=100))
        assert everything == f"{'x' * 1_500}a{'X' * 1_500}{'x' * 1_500}b{'X' * 1_500}"

    async def test_what_was_pruned_is_known(self, store: Store) -> None:
        """A reader from before it can be told; one from after it misses nothing."""
        await store.run(writing(created=[replace(row, updated_at=LONG_AGO) for row in THERE]))
        assert await store.events.forgotten() == Cursor()
        old = [live("acme i1", name, at=LONG_AGO) for name in "ab"]
        other = replace(MESSAGE, at=LONG_AGO)
        await store.run(writing(history=[line("acme i1", "A")], messages=[*old, other]))
        await store.run(writing(history=[line("acme i1", "B")], messages=[live("acme i1", "c", at=NEVER)]))
        events = await log_from(store, Cursor())
        assert said(events) == "AabBc"
        assert await store.messages.prune(AT, 100) == len([*old, other])
        assert await store.events.forgotten() == events[2].cursor
        assert said(await log_from(store, Cursor())) == "ABc"
        await store.messages.prune(AT, 100)
        assert await store.events.forgotten() == events[2].cursor

    async def test_an_instance_that_was_pruned_is_known(self, store: Store) -> None:
        """With it go its lines and its messages, whoever else was in the same unit."""
        rows = [replace(THERE[0], ended=True, updated_at=LONG_AGO), *THERE[1:]]
        await store.run(writing(created=rows))
        told = [live("acme i1", "a"), live("acme i2", "b")]
        await store.run(writing(history=[line("acme i1", "A"), line("acme i2", "B")], messages=told))
        last, *_ = [each for each in await log_from(store, Cursor()) if said([each]) == "a"]
        for place in ("acme i2", "other i1"):
            await store.run(writing(history=[line(place, "C")], messages=[live(place, "c")]))
        assert await store.instances.prune(AT, 100) == 1
        log = await log_from(store, Cursor())
        assert said(log) == "BbCcCc" + THERE[0].chart
        assert last.cursor <= await store.events.forgotten() < log[2].cursor

    async def test_one_who_follows_fifty_instances_misses_nothing(self, place: Place, store: Store) -> None:
        """While units of two stores commit at once, each line and message comes once, in its order."""
        names = [f"i{n}" for n in range(50)]
        await store.run(writing(created=[instance(name, seq=1) for name in names]))
        second = place.store() if place.shared else store
        await second.open()

        async def write(n: int) -> None:
            for _ in range(4):
                await (store, second)[n % 2].run(telling(names[n]))

        seen: list[LogRow] = []
        cursor = Cursor()
        writers = asyncio.gather(*map(write, range(50)))
        while not writers.done():
            page = await store.events.page(EventQuery(after=cursor, limit=7))
            seen += page.events
            cursor = page.cursor
        await writers
        seen += await log_from(store, cursor)
        if place.shared:
            await second.close()
        for name in names:
            assert said([each for each in seen if each.instance == name]) == "11+22+3+44+"
