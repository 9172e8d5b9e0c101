"""Histories on PostgreSQL: the lines of each instance, and the log of all lines and live messages.

The log misses nothing, in whatever order transactions commit. Lines and messages have the stamp of the unit
that wrote them. Of one stamp the lines come first, then the messages, each in the order of their positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.tables import HISTORY, MESSAGE, Where, listed
from headway.store.queries import EventPage, EventQuery
from headway.store.rows import AFTER_LINES, Cursor, EventRow, HistoryRow, Key, LiveRow, LogRow

PAGE = f"{HISTORY.select} WHERE tenant = $1 AND instance = $2 AND position > $3 ORDER BY position LIMIT $4"
NEWEST = f"{HISTORY.select} WHERE tenant = $1 AND instance = $2 ORDER BY position DESC LIMIT $3"
JOURNALS = (
    "SELECT DISTINCT tenant, instance FROM history WHERE (tenant, instance) > ($1, $2)"
    " ORDER BY tenant, instance LIMIT $3"
)
HORIZON = "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"
"""The oldest transaction under way: what has a lower stamp is there, and no more of it will come."""
LAST_EVENT = f"SELECT {HORIZON}"
# OFFSET 0: a look into the index for each line, whatever the planner believes about the table.
OWN = (
    "CROSS JOIN LATERAL (SELECT tenant AS whose, id AS which, chart, owner, parent FROM instance"
    " WHERE tenant = told.tenant AND id = told.instance{or_none} OFFSET 0) AS own"
)
OF_INSTANCE = OWN.format(or_none="")
# A message that tells of pruned instances has the name of their chart.
OF_MESSAGE = OWN.format(
    or_none=" UNION ALL SELECT told.tenant, '', told.name, NULL, NULL WHERE told.kind = 'pruned'"
)
IS_LIVE = "kind IN ('live', 'pruned')"
"""What is in the log, as the condition of its indexes."""
WINDOW = 1_000
"""How many lines and messages one page of a query examines."""
FIRST = "ORDER BY stamp, position LIMIT"
THE_END = Cursor(*[2**63 - 1] * 3)
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


class PostgresHistory:
    """The lines of all instances of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._database.rows(HISTORY, PAGE, *key, after, limit)

    async def newest(self, key: Key, limit: int) -> Sequence[HistoryRow]:
        """The last lines of an instance's history, the newest first."""
        return await self._database.rows(HISTORY, NEWEST, *key, limit)

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""
        return [(tenant, name) for tenant, name in await self._database.fetch(JOURNALS, *after, limit)]

    async def pruned(self, key: Key) -> str:  # noqa: ARG002 - here an instance goes with all its lines
        """Nothing: an instance is pruned as a whole."""
        return ""


class PostgresEvents:
    """The log of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def page(self, query: EventQuery) -> EventPage:
        """Events from a cursor on; none is missed."""
        sql, values = page_of_events(query)
        return event_page(query, await self._database.fetch(sql, *values))

    async def last(self) -> Cursor:
        """The cursor from which to read the events that are committed from now on."""
        [(horizon,)] = await self._database.fetch(LAST_EVENT)
        return Cursor(horizon)

    async def forgotten(self) -> Cursor:
        """The cursor up to which the log has gaps because something was pruned."""
        return next((Cursor(*row) for row in await self._database.fetch(FORGOTTEN)), Cursor())


def page_of_events(query: EventQuery) -> tuple[str, list[Any]]:
    """The statement that answers with the horizon in each row, and one row at least."""
    where = Where()
    limit = where.bind(query.limit)
    stamp, position, message = query.after
    lines = f"stamp < {HORIZON} AND {where.bound('(stamp, position) > ({}, {})', stamp, position)}"
    # Before its messages come all lines of a stamp: who is among these has seen none of them.
    seen = message if position >= AFTER_LINES else 0
    live = f"{IS_LIVE} AND stamp < {HORIZON} AND {where.bound('(stamp, position) > ({}, {})', stamp, seen)}"
    window = _window(query, lines, live)
    where.equal(chart=query.chart, owner=query.owner, parent=query.parent)
    where.readable(query.readable)
    if _is_of_one_instance(query):
        where.equal(tenant=query.tenant, instance=query.instance)
    else:  # not by the index of instances, which would sort all that the tenant ever had
        where.equal(whose=query.tenant, which=query.instance)
    page = (
        f"(SELECT stamp AS at_stamp, position AS at_position, {LINE}"
        f" FROM {HISTORY.name} AS told {OF_INSTANCE} {where} AND {lines}"
        " AND (stamp, position) <= ((SELECT stamp FROM last), (SELECT position FROM last))"
        f" {FIRST} {limit})"
        f" UNION ALL (SELECT stamp, position, {LIVE}"
        f" FROM {MESSAGE.name} AS told {OF_MESSAGE} {where} AND {live}"
        " AND (stamp, position) <= ((SELECT stamp FROM last), (SELECT message FROM last))"
        f" {FIRST} {limit})"
    )
    return (
        f"WITH last AS MATERIALIZED ({window})"
        f" SELECT {HORIZON} AS horizon, {HELD_BACK} AS held_back, last.*, page.*"
        f" FROM last LEFT JOIN ({page} ORDER BY 1, 3, 2 LIMIT {limit}) AS page ON true"
        " ORDER BY page.at_stamp, page.is_live, page.at_position"
    ), where.values


def _window(query: EventQuery, lines: str, live: str) -> str:
    """The query for where to stop looking; an index leads to what one instance has, and all have no need."""
    end = "SELECT {}::bigint AS stamp, {}::bigint AS position, {}::bigint AS message".format(*THE_END)
    if _is_of_one_instance(query) or query == EventQuery(query.after, limit=query.limit):
        return end
    last = f"{FIRST} 1 OFFSET {max(query.limit, WINDOW) - 1}"
    return (
        f"SELECT * FROM ({end}"
        f" UNION ALL (SELECT stamp, position, 0 FROM {HISTORY.name} WHERE {lines} {last})"
        f" UNION ALL (SELECT stamp, {AFTER_LINES}, position FROM {MESSAGE.name} WHERE {live} {last})"
        ") AS ends ORDER BY stamp, position, message LIMIT 1"
    )


def _is_of_one_instance(query: EventQuery) -> bool:
    return query.instance is not None and query.tenant is not None


def event_page(query: EventQuery, records: Sequence[Sequence[Any]]) -> EventPage:
    """Events, and where to read on: after the last one, or at the horizon when these are all."""
    horizon, held_back, *last = records[0][:5]
    events = [_event(*record[7:]) for record in records if record[7] is not None]
    if len(events) == query.limit:
        return EventPage(events, events[-1].cursor, complete=False, held_back=held_back)
    if (end := Cursor(*last)) != THE_END:
        return EventPage(events, end, complete=False, held_back=held_back)
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
