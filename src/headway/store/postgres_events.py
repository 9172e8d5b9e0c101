"""The lines of all histories as one log that misses nothing, whoever commits when."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.store.port import EventPage, EventQuery
from headway.store.postgres_query import Where
from headway.store.postgres_tables import HISTORY, listed
from headway.store.rows import Cursor, EventRow

HORIZON = "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"
"""The oldest transaction under way: what has a lower stamp is there, and no more of it will come."""
LAST_EVENT = f"SELECT {HORIZON}"
# OFFSET 0: a look into the index for each line, whatever the planner believes about the table.
OWN = (
    "CROSS JOIN LATERAL (SELECT chart, owner FROM instance"
    " WHERE tenant = line.tenant AND id = line.instance OFFSET 0) AS own"
)


def page_of_events(query: EventQuery) -> tuple[str, list[Any]]:
    """The statement that answers with the horizon in each row, and one row at least."""
    where = Where()
    where.add(f"stamp < {HORIZON}")
    where.add("(stamp, position) > ({}, {})", *query.after)
    where.equal(tenant=query.tenant, instance=query.instance, chart=query.chart, owner=query.owner)
    limit = where.bind(query.limit)
    columns = listed(HISTORY.columns)
    lines = (
        f"SELECT {columns}, chart, owner FROM {HISTORY.name} AS line {OWN} {where}"
        f" ORDER BY stamp, position LIMIT {limit}"
    )
    return (
        f"SELECT edge.horizon, EXISTS (SELECT 1 FROM {HISTORY.name} WHERE stamp >= {HORIZON}) AS held_back,"
        f" page.chart, page.owner, {listed(HISTORY.columns, 'page.')}"
        f" FROM (SELECT {HORIZON} AS horizon) AS edge LEFT JOIN ({lines}) AS page ON true"
        " ORDER BY page.stamp, page.position"
    ), where.values


def event_page(query: EventQuery, records: Sequence[Sequence[Any]]) -> EventPage:
    """Events, and where to read on: after the last one, or at the horizon when these are all."""
    horizon, held_back, *_ = records[0]
    found = [record for record in records if record[2] is not None]
    lines = HISTORY.rows(columns for _, _, _, _, *columns in found)
    events = [
        EventRow(line, chart, owner) for line, (_, _, chart, owner, *_) in zip(lines, found, strict=True)
    ]
    if events and len(events) == query.limit:
        return EventPage(events, events[-1].cursor, complete=False, held_back=held_back)
    return EventPage(events, max(query.after, Cursor(horizon)), complete=True, held_back=held_back)
