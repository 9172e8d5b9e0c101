"""Versions of charts on PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.tables import CHART
from headway.store.rows import ChartRow, Version

ALL = f"{CHART.select} ORDER BY chart, version"
VERSIONS = "SELECT chart, version FROM chart_version"
KEEP = f"{CHART.insert.format(rows='$1::chart_given[]')} ON CONFLICT DO NOTHING"
REPLACE = CHART.upsert.format(rows="$1::chart_given[]")
# Reads all live instances once, also when several versions are asked for.
LIVING_VERSIONS = "SELECT DISTINCT chart, version FROM instance WHERE NOT ended"


class PostgresCharts:
    """The chart versions of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def all(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""
        return await self._database.rows(CHART, ALL)

    async def versions(self) -> Collection[Version]:
        """The names and numbers of all versions."""
        return {(chart, version) for chart, version in await self._database.fetch(VERSIONS)}

    async def keep(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is stored already stays as it is."""
        await self._database.write(KEEP, sorted(CHART.values(charts)))

    async def replace(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the stored one."""
        await self._database.write(REPLACE, CHART.values([chart]))

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended."""
        return {(chart, version) for chart, version in await self._database.fetch(LIVING_VERSIONS)}
