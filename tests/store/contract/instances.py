"""Instances and their history: pages that a reader can trust."""

from __future__ import annotations

from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import InstanceQuery
from tests.store.contract.acts import KEY, writing
from tests.store.contract.place import ANY_TEXT, HISTORY, INSTANCE, NEVER, Place, instance

CREATED = [
    instance("c"),
    instance("a", chart="leave", owner="ann"),
    instance("d", status="paid", ended=True),
    instance("b", parent="c", owner="ann"),
    instance("e", parent="c", status="paid", ended=True, chart="leave"),
    instance("z", tenant="other", parent="c", owner="ann"),
]
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "cadbe"),
    ({"chart": "expense"}, "cdb"),
    ({"status": "paid"}, "de"),
    ({"parent": "c"}, "be"),
    ({"owner": "ann"}, "ab"),
    ({"owner": "ann", "chart": "expense"}, "b"),
    ({"owner": "ann", "after": "a"}, "b"),
    ({"owner": "bob"}, ""),
    ({"ended": False}, "cab"),
    ({"ended": True}, "de"),
    ({"chart": "leave", "status": "paid", "parent": "c", "ended": True}, "e"),
    ({"chart": "expense", "status": "draft"}, "cb"),
    ({"chart": "none"}, ""),
    ({"limit": 2}, "ca"),
    ({"after": "a"}, "dbe"),
    ({"after": "c", "chart": "expense", "limit": 1}, "d"),
    ({"after": "e"}, ""),
]


@pytest.mark.mission("ENG-7", "ENG-17")
class InstancesContract:
    """Instances are listed in the order they were created, history in the order it happened."""

    @pytest.mark.parametrize(("wanted", "ids"), FILTERS, ids=str)
    @pytest.mark.mission("ENG-14")
    async def test_a_list_of_instances_holds_what_was_asked_for(
        self, store: Store, wanted: dict[str, Any], ids: str
    ) -> None:
        """Every filter, alone and with others, in the order of creation, of one tenant."""
        await store.run(writing(created=CREATED))
        rows = await store.instances.page(InstanceQuery(tenant="acme", **wanted))
        assert "".join(row.id for row in rows) == ids
        assert all(row in CREATED for row in rows)

    @pytest.mark.mission("ENG-19")
    async def test_the_living_of_a_chart_are_found_in_all_tenants(self, store: Store) -> None:
        """By tenant and id, page by page, without those that have ended or follow another chart."""
        await store.run(writing(created=CREATED))
        found = [row.id for row in await store.instances.living("expense", ("", ""), 100)]
        assert found == ["b", "c", "z"]
        assert [row.id for row in await store.instances.living("expense", ("acme", "b"), 1)] == ["c"]
        assert [row.id for row in await store.instances.living("expense", ("acme", "gone"), 9)] == ["z"]
        assert not await store.instances.living("expense", ("other", "z"), 9)

    async def test_pages_stay_in_step_while_instances_come_and_change(self, store: Store) -> None:
        """A reader of pages meets each instance once, also those that appear while it reads."""
        await store.run(writing(created=[instance(f"{9 - n}") for n in range(5)]))
        seen: list[str] = []
        for turn in range(5):
            after = seen[-1] if seen else None
            page = await store.instances.page(InstanceQuery(tenant="acme", after=after, limit=2))
            seen += [row.id for row in page]
            await store.run(writing(updated=[instance("9", status="review", seq=turn)]))
            if turn < 2:
                await store.run(writing(created=[instance(f"0{turn}")]))
        assert seen == ["9", "8", "7", "6", "5", "00", "01"]

    @pytest.mark.mission("ENG-14")
    @pytest.mark.parametrize("count", [0, 1, 3, 300])
    async def test_many_instances_are_looked_up_at_once(self, store: Store, count: int) -> None:
        """Those that there are come back whole, each once; other tenants' and unknown ones do not."""
        there = [instance(f"i{n}", status=ANY_TEXT) for n in range(count)]
        await store.run(writing(created=[*there, instance("elsewhere", tenant="other")]))
        keys = {("acme", f"i{n}") for n in range(count + 5)} | {("acme", "elsewhere"), ("other", "i0")}
        assert sorted(await store.instances.look_up(keys), key=lambda row: row.id) == sorted(
            there, key=lambda row: row.id
        )

    @pytest.mark.mission("ENG-14")
    async def test_nobody_sees_another_tenants_instance(self, store: Store) -> None:
        """A query for one tenant never answers with a row of another."""
        await store.run(writing(created=[INSTANCE], history=[HISTORY]))
        assert await store.instances.get(("other", "i1")) is None
        assert not await store.instances.page(InstanceQuery(tenant="other"))
        assert not await store.instances.page(InstanceQuery(tenant="other", after="i1"))
        assert not await store.history.page(("other", "i1"))

    async def test_history_comes_back_as_it_went_in(self, store: Store) -> None:
        """Every column survives, and the store gives each line its position."""
        full = replace(
            HISTORY, seq=2, row=3, at=NEVER, before=ANY_TEXT, reason=ANY_TEXT, attempt=7, data=ANY_TEXT
        )
        await store.run(writing(history=[HISTORY, full]))
        first, second = await store.history.page(KEY)
        assert [replace(each, position=0, stamp=0) for each in (first, second)] == [HISTORY, full]
        assert 0 < first.position < second.position
        assert first.cursor < second.cursor

    @pytest.mark.mission("ENG-14")
    async def test_history_is_read_in_pages(self, store: Store) -> None:
        """Pages follow one another by position, and hold the lines of one instance only."""
        for seq in range(1, 8):
            lines = [replace(HISTORY, seq=seq), replace(HISTORY, seq=seq, instance="i2")]
            await store.run(writing(history=[*lines, replace(HISTORY, seq=seq, tenant="other")]))
        seen: list[int] = []
        position = 0
        while page := await store.history.page(KEY, after=position, limit=3):
            assert len(page) <= 3
            position = page[-1].position
            seen += [line.seq for line in page]
        assert seen == [1, 2, 3, 4, 5, 6, 7]

    async def test_rows_outlive_the_store_that_wrote_them(self, place: Place) -> None:
        """What was written is there when the store is opened again."""
        if not place.shared:
            pytest.skip("these rows are gone when the store closes")
        for attempt in range(2):
            store = place.store()
            await store.open()
            if not attempt:
                await store.run(writing(created=[INSTANCE], history=[HISTORY]))
            assert await store.instances.get(KEY) == INSTANCE
            assert len(await store.history.page(KEY)) == 1
            await store.close()
