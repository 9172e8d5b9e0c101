"""Timers on PostgreSQL: those that are due, and lists of them."""

from __future__ import annotations

from typing import Any

from headway.store.port import TimerQuery
from headway.store.postgres.query import NOW, Where
from headway.store.postgres.tables import TIMER

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
