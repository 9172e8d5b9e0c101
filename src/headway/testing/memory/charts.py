"""Versions of charts in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from headway.store.rows import ChartRow, Version
from headway.testing.memory.tables import JobRunner, Tables


class MemoryCharts:
    """The chart versions of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def all(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""
        return await self._call(lambda tables, _: [tables.charts[key] for key in sorted(tables.charts)])

    async def versions(self) -> Collection[Version]:
        """The names and numbers of all versions."""
        return await self._call(lambda tables, _: {*tables.charts})

    async def keep(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is stored already stays as it is."""

        def keep(tables: Tables, _: datetime) -> None:
            for row in charts:
                tables.charts.setdefault((row.chart, row.version), row)

        await self._call(keep, writes=True)

    async def replace(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the stored one."""

        def put(tables: Tables, _: datetime) -> None:
            tables.charts[chart.chart, chart.version] = chart

        await self._call(put, writes=True)

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended."""
        return await self._call(
            lambda tables, _: {(row.chart, row.version) for row in tables.instances.values() if not row.ended}
        )
