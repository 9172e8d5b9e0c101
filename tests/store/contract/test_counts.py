"""StateCounts of instances by leaf states, and the log from which a reader keeps them right."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from headway.codec import decode, replace
from headway.store.port import Store
from headway.store.queries import EventQuery, InstanceQuery, StateCounts
from headway.store.rows import PRUNED, EventRow, LiveRow, Pruned, StateCount
from headway.store.unit import Changes, Found, Reads
from tests.store.contract.acts import Act, writing
from tests.store.contract.place import AT, HISTORY, LONG_AGO, NEVER, Place, instance

Totals = Counter[tuple[str, int, str]]
SECOND = timedelta(seconds=1)
START = {"event": "start", "before": "", "since": None}
PATH = ("draft", "review", "form+upload", "paid")
"""The leaf states through which the instances of these tests go; the last one is final."""


def begun(name: str, tenant: str = "acme", **fields: object) -> Act:
    """A unit that creates an instance in the first states, with its line."""
    row = instance(name, tenant=tenant, **fields)
    line = replace(HISTORY, tenant=tenant, instance=name, seq=1, after=row.states, **START)
    return writing(created=[row], history=[replace(line, version=row.version)])


def moved(name: str, tenant: str = "acme", *, by: int = 1, version: int = 1) -> Act:
    """A unit that moves an instance on, a second a step, with its line."""
    key = (tenant, name)

    def decide(seen: Found) -> Changes:
        row = seen.instances[key]
        after = PATH[PATH.index(row.states) + by]
        now = row.since + SECOND
        line = replace(HISTORY, tenant=tenant, instance=name, seq=row.seq + 1, at=now, version=version)
        stays = (after, version) == (row.states, row.version)
        line = replace(line, before=row.states, after=after, since=None if stays else row.since)
        since = row.since if stays else now
        new = replace(row, seq=row.seq + 1, version=version, states=after, since=since, updated_at=now)
        return Changes(updated=[replace(new, ended=after == PATH[-1])], history=[line])

    return Act(decide, lambda: Reads(instances={key}))


async def grouped(store: Store, tenant: str = "acme") -> Totals:
    """How many instances are in which states, from their rows."""
    rows = await store.instances.page(InstanceQuery(tenant, limit=10_000))
    return Counter((row.chart, row.version, row.states) for row in rows)


def totals(counts: StateCounts) -> Totals:
    """StateCounts as a mapping."""
    return Counter({(each.chart, each.version, each.states): each.count for each in counts.items})


async def read_on(store: Store, counts: StateCounts, tenant: str = "acme") -> Totals:
    """StateCounts kept right from the log alone, from where they are true to its end."""
    kept, cursor, complete = totals(counts), counts.cursor, False
    versions: dict[str, int] = {}
    while not complete:
        page = await store.events.page(EventQuery(after=cursor, tenant=tenant, limit=7))
        for event in page.events:
            _keep(kept, event, versions)
        cursor, complete = page.cursor, page.complete
    return +kept


def _keep(kept: Totals, event: EventRow | LiveRow, versions: dict[str, int]) -> None:
    if isinstance(event, EventRow):
        line = event.line
        if line.before:
            kept[event.chart, versions.get(line.instance, 1), line.before] -= 1
        kept[event.chart, line.version, line.after] += 1
        versions[line.instance] = line.version
    elif event.message.kind == PRUNED:
        gone = decode(Pruned, event.message.data or "")
        kept[event.chart, gone.version, gone.states] -= gone.count


@pytest.mark.mission("CON-TELL", "ENG-14", "ENG-17")
class TestCounts:
    """StateCounts say how many instances are in which leaf states, and where in the log that is so."""

    async def test_instances_are_counted_by_chart_version_and_leaf_states(self, store: Store) -> None:
        """Living ones with when the first of them got there, ended ones as long as they are kept."""
        for n in range(3):
            await store.run(begun(f"i{n}", since=AT + n * SECOND))
        await store.run(begun("other", chart="crawl", version=7))
        await store.run(moved("i0"))
        await store.run(moved("i0", by=2))
        counts = await store.instances.counts("acme")
        assert {*counts.items} == {
            StateCount("crawl", 7, "draft", ended=False, count=1, oldest=AT),
            StateCount("expense", 1, "draft", ended=False, count=2, oldest=AT + SECOND),
            StateCount("expense", 1, "paid", ended=True, count=1),
        }
        assert totals(counts) == await grouped(store) == await read_on(store, counts)

    async def test_who_is_longest_in_its_states_is_found_without_counting(self, store: Store) -> None:
        """For each set of leaf states of living instances: what counts say, too."""
        for n, chart in enumerate("abcab"):
            await store.run(begun(f"i{n}", chart=chart, since=AT + n * SECOND))
        await store.run(moved("i0"))
        await store.run(moved("i1", by=3))
        await store.run(moved("i2", by=0, version=2))
        counts = await store.instances.counts("acme")
        expected = {replace(each, count=1) for each in counts.items if not each.ended}
        assert len(expected) == 4
        assert {*await store.instances.oldest("acme")} == expected
        assert not await store.instances.oldest("other")

    async def test_a_tenant_without_instances_has_no_counts(self, store: Store) -> None:
        """Others are not counted; the cursor is where the tenant's first instance will be seen."""
        await store.run(begun("i1", tenant="other"))
        counts = await store.instances.counts("acme")
        assert not counts.items
        await store.run(begun("i1"))
        assert await read_on(store, counts) == await grouped(store) == {("expense", 1, "draft"): 1}

    async def test_what_is_pruned_is_told_in_the_log(self, store: Store) -> None:
        """A reader that keeps totals loses the pruned ones too, each tenant and group by itself."""
        rows = [("acme", "i1"), ("acme", "i2"), ("acme", "i3"), ("other", "i1")]
        for tenant, name in rows:
            await store.run(begun(name, tenant, since=LONG_AGO))
            await store.run(moved(name, tenant, by=3))
        before = {tenant: await store.instances.counts(tenant) for tenant in ("acme", "other")}
        assert await store.instances.prune(NEVER, 3) == 3
        assert await store.instances.prune(NEVER, 3) == 1
        for tenant, counts in before.items():
            assert await read_on(store, counts, tenant) == await grouped(store, tenant) == {}
            page = await store.events.page(EventQuery(after=counts.cursor, tenant=tenant))
            assert {event.chart for event in page.events} == {"expense"}
            assert {event.message.kind for event in page.events if isinstance(event, LiveRow)} == {PRUNED}
        for chart, owner in (("expense", None), ("other", None), (None, "ann")):
            page = await store.events.page(EventQuery(before["acme"].cursor, chart=chart, owner=owner))
            assert bool(page.events) is (chart == "expense")

    async def test_an_upgrade_changes_the_version_that_counts(self, store: Store) -> None:
        """An instance counts for the version that it lives by."""
        await store.run(begun("i1"))
        counts = await store.instances.counts("acme")
        await store.run(moved("i1", by=0, version=2))
        assert await read_on(store, counts) == await grouped(store) == {("expense", 2, "draft"): 1}

    async def test_counts_and_log_fit_together_while_two_write(self, place: Place, store: Store) -> None:
        """Wherever counts are read, the log from their cursor leads to what there is in the end."""
        second = place.store() if place.shared else store
        if place.shared:
            await second.open()
        names = [f"i{n}" for n in range(12)]
        taken = [await store.instances.counts("acme")]

        async def live(name: str, at: Store) -> None:
            await at.run(begun(name, since=LONG_AGO))
            for _ in PATH[1:]:
                await at.run(moved(name))

        writers = asyncio.gather(*(live(name, (store, second)[n % 2]) for n, name in enumerate(names)))
        while not writers.done():
            taken.append(await store.instances.counts("acme"))
        await writers
        there = await grouped(store)
        assert there == {("expense", 1, "paid"): len(names)}
        for counts in taken:
            assert await read_on(store, counts) == there
        if place.shared:
            await second.close()
