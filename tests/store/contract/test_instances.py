"""Instances: pages that a reader can trust, and the end of those that are over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import (
    AskQuery,
    InstanceQuery,
    Readable,
)
from headway.store.rows import AskClosing, InstanceRow
from tests.store.contract.acts import KEY, writing
from tests.store.contract.place import (
    ANY_TEXT,
    ASK,
    AT,
    HISTORY,
    INSTANCE,
    LONG_AGO,
    Place,
    instance,
    work,
)

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
    ({"readable": Readable(person="ann", closed=("expense",))}, "abe"),
    ({"readable": Readable(person="bob", closed=("expense", "leave"))}, ""),
    ({"readable": Readable(person="bob", closed=()), "after": "d"}, "be"),
    ({"ended": False}, "cab"),
    ({"ended": False, "after": "c", "limit": 1}, "a"),
    ({"ended": False, "chart": "expense", "after": "c"}, "b"),
    ({"ended": False, "readable": Readable(person="ann", closed=("expense",))}, "ab"),
    ({"ended": True}, "de"),
    ({"chart": "leave", "status": "paid", "parent": "c", "ended": True}, "e"),
    ({"chart": "expense", "status": "draft"}, "cb"),
    ({"chart": "none"}, ""),
    ({"limit": 2}, "ca"),
    ({"after": "a"}, "dbe"),
    ({"after": "c", "chart": "expense", "limit": 1}, "d"),
    ({"after": "e"}, ""),
]
SECOND = timedelta(seconds=1)


async def ids_of_instances(store: Store, tenant: str = "acme") -> list[str]:
    """Which instances a tenant has."""
    return [row.id for row in await store.instances.page(InstanceQuery(tenant=tenant))]


async def lives(store: Store, *rows: InstanceRow) -> None:
    """Write instances, each with two lines of history and an ask that was answered."""
    for row in rows:
        of = {"tenant": row.tenant, "instance": row.id}
        ask = replace(ASK, id=f"ask of {row.id}", **of)
        lines = [replace(HISTORY, seq=seq, **of) for seq in (1, 2)]
        closing = AskClosing(ask.tenant, ask.id, AT, "ann", "approve")
        await store.run(writing(created=[row], history=lines, asks=[ask], asks_closed=[closing]))


@pytest.mark.mission("ENG-7", "ENG-17")
class TestInstances:
    """Instances are listed in the order they were created."""

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


@pytest.mark.mission("ENG-10", "ENG-17")
class TestOwnedRows:
    """Rows that belong to instances."""

    async def test_what_belongs_to_instances_is_listed_for_all_tenants(self, store: Store) -> None:
        """By tenant and id, from after one on, each with its instance."""
        items = [work("b"), work("a"), work("a", tenant="other", instance="i9")]
        await store.run(writing(work=items))
        first = await store.instances.owned("work", ("", ""), 2)
        assert [key for key, _ in first] == [("acme", "a"), ("acme", "b")]
        assert await store.instances.owned("work", first[-1][0], 2) == [(("other", "a"), ("other", "i9"))]
        assert [await store.instances.owned(table, ("", ""), 2) for table in ("timer", "ask")] == [[], []]


@pytest.mark.mission("ENG-17")
class TestPruning:
    """Instances are deleted with all they had."""

    @pytest.mark.mission("ENG-7")
    async def test_instances_that_ended_long_ago_are_pruned_with_all_they_had(self, store: Store) -> None:
        """History and asks go with them; those that live, ended later, or are of another tenant's id stay."""
        old = {"ended": True, "updated_at": AT - SECOND}
        gone = [instance(f"gone{n}", **old) for n in range(3)]
        kept = [instance("late", ended=True, updated_at=AT), instance("live", updated_at=LONG_AGO)]
        await lives(store, *gone, *kept, instance("gone0", tenant="other", updated_at=LONG_AGO))
        assert [await store.instances.prune(AT, 2) for _ in range(3)] == [2, 1, 0]
        assert await ids_of_instances(store) == ["late", "live"]
        for row in gone:
            assert not await store.history.page((row.tenant, row.id))
            assert not await store.history.pruned((row.tenant, row.id))
            assert not await store.asks.get((row.tenant, f"ask of {row.id}"))
            assert not await store.asks.page(AskQuery(tenant="acme", instance=row.id, open=False))
        for row in kept:
            assert len(await store.history.page((row.tenant, row.id))) == 2
            assert await store.asks.get((row.tenant, f"ask of {row.id}"))
        assert len(await store.history.page(("other", "gone0"))) == 2

    @pytest.mark.mission("ENG-7")
    async def test_instances_of_one_chart_are_pruned(self, store: Store) -> None:
        """Each chart may have its own time to keep; the one that ended first goes first, of all tenants."""
        old = {"ended": True, "chart": "leave"}
        rows = [
            instance("b", updated_at=AT - SECOND, **old),
            instance("a", updated_at=LONG_AGO, **old),
            instance("x", updated_at=LONG_AGO, ended=True),
            instance("c", updated_at=LONG_AGO, tenant="other", **old),
        ]
        await lives(store, *rows)
        assert await store.instances.prune(AT, 10, chart="none") == 0
        assert await store.instances.prune(AT, 2, chart="leave") == 2
        assert (await ids_of_instances(store), await ids_of_instances(store, "other")) == (["b", "x"], [])
        assert await store.instances.prune(AT, 10, chart="leave") == 1
        assert await store.instances.prune(AT, 10) == 1
