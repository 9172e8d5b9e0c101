"""The lines of all histories and the live messages as one log that misses nothing, whoever commits when.

Both have the stamp of the unit that wrote them. Of one stamp the lines come first, then the messages, each
in the order of their positions.
"""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.store.port import EventPage, EventQuery
from headway.store.postgres_query import Where
from headway.store.postgres_tables import HISTORY, MESSAGE, listed
from headway.store.rows import AFTER_LINES, Cursor, EventRow, LiveRow, LogRow

HORIZON = "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"
"""The oldest transaction under way: what has a lower stamp is there, and no more of it will come."""
LAST_EVENT = f"SELECT {HORIZON}"
# OFFSET 0: a look into the index for each line, whatever the planner believes about the table.
OWN = (
    "CROSS JOIN LATERAL (SELECT chart, owner, parent FROM instance"
    " WHERE tenant = told.tenant AND id = told.instance OFFSET 0) AS own"
)
IS_LIVE = "kind = 'live'"
HELD_BACK = (
    f"EXISTS (SELECT 1 FROM {HISTORY.name} WHERE stamp >= {HORIZON})"
    f" OR EXISTS (SELECT 1 FROM {MESSAGE.name} WHERE stamp >= {HORIZON} AND {IS_LIVE})"
)
FORGOTTEN = "SELECT stamp, position, message FROM forgotten WHERE log = 'events'"
FORGET = """
INSERT INTO forgotten (log, stamp, position, message) SELECT 'events', stamp, position, message FROM last
ON CONFLICT (log) DO UPDATE
SET stamp = excluded.stamp, position = excluded.position, message = excluded.message
WHERE (excluded.stamp, excluded.position, excluded.message)
    > (forgotten.stamp, forgotten.position, forgotten.message)
"""
"""The part of a statement that prunes which notes the `last` that goes."""
WHOSE = "chart, owner, parent"
LINE = f"false AS is_live, {WHOSE}, {listed(HISTORY.columns)}, {', '.join(['NULL'] * len(MESSAGE.columns))}"
LIVE = f"true, {WHOSE}, {', '.join(['NULL'] * len(HISTORY.columns))}, {listed(MESSAGE.columns)}"


def page_of_events(query: EventQuery) -> tuple[str, list[Any]]:
    """The statement that answers with the horizon in each row, and one row at least."""
    where = Where()
    where.add(f"stamp < {HORIZON}")
    wanted = ("tenant", "instance", "chart", "owner", "parent")
    where.equal(**{name: getattr(query, name) for name in wanted})
    limit = where.bind(query.limit)
    stamp, position, message = query.after
    lines = where.bound("(stamp, position) > ({}, {})", stamp, position)
    # Before its messages come all lines of a stamp: who is among these has seen none of them.
    live = where.bound("(stamp, position) > ({}, {})", stamp, message if position >= AFTER_LINES else 0)
    rest = f"ORDER BY stamp, position LIMIT {limit}"
    page = (
        f"(SELECT stamp AS at_stamp, position AS at_position, {LINE}"
        f" FROM {HISTORY.name} AS told {OWN} {where} AND {lines} {rest})"
        f" UNION ALL (SELECT stamp, position, {LIVE}"
        f" FROM {MESSAGE.name} AS told {OWN} {where} AND {IS_LIVE} AND {live} {rest})"
    )
    return (
        f"SELECT edge.horizon, {HELD_BACK} AS held_back, page.*"
        f" FROM (SELECT {HORIZON} AS horizon) AS edge"
        f" LEFT JOIN ({page} ORDER BY 1, 3, 2 LIMIT {limit}) AS page ON true"
        " ORDER BY page.at_stamp, page.is_live, page.at_position"
    ), where.values


def event_page(query: EventQuery, records: Sequence[Sequence[Any]]) -> EventPage:
    """Events, and where to read on: after the last one, or at the horizon when these are all."""
    horizon, held_back, *_ = records[0]
    events = [_event(*record[4:]) for record in records if record[4] is not None]
    if events and len(events) == query.limit:
        return EventPage(events, events[-1].cursor, complete=False, held_back=held_back)
    return EventPage(events, max(query.after, Cursor(horizon)), complete=True, held_back=held_back)


def _event(is_live: bool, *columns: Any) -> LogRow:  # noqa: FBT001 - a column
    """A row of a page, which has the columns of both after those that say whose it is."""
    whose, line, message = (
        columns[:3],
        columns[3 : 3 + len(HISTORY.columns)],
        columns[-len(MESSAGE.columns) :],
    )
    if not is_live:
        return EventRow(HISTORY.rows([line])[0], *whose)
    [row] = MESSAGE.rows([message])
    return LiveRow(row, Cursor(row.stamp, AFTER_LINES, row.position), *whose)
