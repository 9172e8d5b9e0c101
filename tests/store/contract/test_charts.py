"""Versions of charts: kept as they were first stored, unless one is replaced on purpose."""

from __future__ import annotations

import asyncio

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.rows import ChartRow
from tests.store.contract.acts import writing
from tests.store.contract.place import ANY_TEXT, AT, INSTANCE, NEVER, instance

CHART = ChartRow(chart="expense", version=2, hash="h2", document='{"name":"expense"}', stored_at=AT)
OLDER = replace(CHART, version=1, hash="h1", document=ANY_TEXT, stored_at=NEVER)
OTHER = replace(CHART, chart="claim", version=10)


@pytest.mark.mission("ENG-19", "ENG-17")
class TestCharts:
    """A version of a chart does not change by itself."""

    async def test_charts_come_by_name_and_version(self, store: Store) -> None:
        """Every column survives, and versions are numbers, not words."""
        assert await store.charts.all() == []
        ninth = replace(OTHER, version=9)
        await store.charts.keep([CHART, OTHER, OLDER, ninth])
        assert await store.charts.all() == [ninth, OTHER, OLDER, CHART]
        assert {*await store.charts.versions()} == {
            ("claim", 9),
            ("claim", 10),
            ("expense", 1),
            ("expense", 2),
        }

    async def test_a_version_that_is_there_stays_as_it_is(self, store: Store) -> None:
        """Who stores it again, with others, changes nothing of it, not even when many do so at once."""
        await store.charts.keep([CHART])
        changed = replace(CHART, hash="other", document="{}", stored_at=NEVER)
        await asyncio.gather(*(store.charts.keep([OLDER, changed]) for _ in range(5)))
        await store.charts.keep([])
        assert await store.charts.all() == [OLDER, CHART]

    async def test_a_version_can_be_replaced(self, store: Store) -> None:
        """The one that is there goes, others stay; where there was none there is one now."""
        await store.charts.keep([OLDER])
        for row in (CHART, replace(CHART, hash="other", document="{}", stored_at=NEVER)):
            await store.charts.replace(row)
            assert await store.charts.all() == [OLDER, row]


@pytest.mark.mission("ENG-21", "ENG-17")
class TestLivingVersions:
    """Versions with living instances."""

    async def test_versions_with_living_instances_are_known(self, store: Store) -> None:
        """One that has none, or only such as have ended, is not living."""
        rows = [instance("a"), instance("b", version=2, ended=True), instance("c", chart="claim", tenant="x")]
        await store.run(writing(created=rows))
        assert {*await store.charts.living_versions()} == {("expense", 1), ("claim", 1)}
        await store.run(writing(updated=[replace(INSTANCE, id="a", seq=2, ended=True, updated_at=AT)]))
        assert {*await store.charts.living_versions()} == {("claim", 1)}
