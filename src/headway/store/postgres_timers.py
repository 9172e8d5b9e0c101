"""Lists of timers on PostgreSQL."""

from __future__ import annotations

from typing import Any

from headway.store.port import TimerQuery
from headway.store.postgres_query import Where
from headway.store.postgres_tables import TIMER


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
