"""Timers in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from headway.store.queries import TimerQuery
from headway.store.rows import TimerRow, Version
from headway.testing.memory.tables import JobRunner, Tables


class MemoryTimers:
    """The timers of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def due(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""

        def due(tables: Tables, now: datetime) -> list[TimerRow]:
            rows = [row for row in _of(tables, versions) if row.due <= now]
            return sorted(rows, key=lambda row: (row.due, row.tenant, row.id))[:limit]

        return await self._call(due)

    async def next(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""
        return await self._call(
            lambda tables, _: min((row.due for row in _of(tables, versions)), default=None)
        )

    async def page(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers, by due time."""
        return await self._call(lambda tables, _: _page(tables, query))


def _of(tables: Tables, versions: Collection[Version]) -> list[TimerRow]:
    return [row for row in tables.timers.values() if (row.chart, row.version) in versions]


def _page(tables: Tables, query: TimerQuery) -> list[TimerRow]:
    rows = [
        row
        for row in tables.timers.values()
        if row.tenant == query.tenant
        and (query.ids is None or row.id in query.ids)
        and (query.after is None or (row.due, row.id) > query.after)
    ]
    return sorted(rows, key=lambda row: (row.due, row.id))[: query.limit]
