"""Versions of charts on SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.store.rows import ChartRow, Version
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import CHART

ALL = f"{CHART.select} ORDER BY chart, version"
VERSIONS = "SELECT chart, version FROM chart_version"
KEEP = f"{CHART.insert} ON CONFLICT (chart, version) DO NOTHING"
# Reads all live instances once, also when several versions are asked for.
LIVING_VERSIONS = "SELECT DISTINCT chart, version FROM instance WHERE ended = 0"


class SqliteCharts:
    """The chart versions of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def all(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""
        return await self._database.rows(CHART, ALL)

    async def versions(self) -> Collection[Version]:
        """The names and numbers of all versions."""
        return {(chart, version) for chart, version in await self._database.fetch(VERSIONS)}

    async def keep(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is stored already stays as it is."""
        await self._database.write(lambda held: held.write(KEEP, [*map(CHART.values, charts)]))

    async def replace(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the stored one."""
        await self._database.write(lambda held: held.write(CHART.upsert, [CHART.values(chart)]))

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended."""
        return {(chart, version) for chart, version in await self._database.fetch(LIVING_VERSIONS)}
