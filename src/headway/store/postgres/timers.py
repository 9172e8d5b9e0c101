"""Timers on PostgreSQL: those that are due, and lists of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.tables import NOW, TIMER, Where
from headway.store.queries import TimerQuery
from headway.store.rows import TimerRow, Version

# Each version by itself, so that what waits for a node that knows another version costs nothing.
DUE_TIMERS = f"""
SELECT due.* FROM unnest($3::chart_version_given[]) AS known CROSS JOIN LATERAL (
    {TIMER.select} WHERE chart = known.chart AND version = known.version AND due <= {NOW}
    ORDER BY due, tenant, id LIMIT $2
) AS due ORDER BY due, tenant, id LIMIT $2
"""
NEXT_TIMER = """
SELECT min(next.due) FROM unnest($1::chart_version_given[]) AS known CROSS JOIN LATERAL (
    SELECT due FROM timer WHERE chart = known.chart AND version = known.version AND due IS NOT NULL
    ORDER BY due LIMIT 1
) AS next
"""


class PostgresTimers:
    """The timers of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def due(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""
        due = await self._database.rows(TIMER, DUE_TIMERS, self._database.time(), limit, [*versions])
        if due:
            self._database.memory.clock.at_least(due[-1].due)
        return due

    async def next(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""
        return next((due for (due,) in await self._database.fetch(NEXT_TIMER, [*versions])), None)

    async def page(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers, by due time."""
        sql, values = page_of_timers(query)
        return await self._database.rows(TIMER, sql, *values)


def page_of_timers(query: TimerQuery) -> tuple[str, list[Any]]:
    """The statement for the filters that are set."""
    where = Where()
    where.equal(tenant=query.tenant)
    if query.ids is not None:
        where.add("id = ANY({}::text[])", query.ids)
    if query.after is not None:
        where.add("(due, id) > ({}::timestamptz, {}::text)", *query.after)
    limit = where.bind(query.limit)
    return f"{TIMER.select} {where} ORDER BY due, id LIMIT {limit}", where.values
