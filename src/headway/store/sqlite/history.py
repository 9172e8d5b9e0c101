"""Histories on SQLite: the lines of each instance, and the log of all lines and live messages.

Only one transaction writes at a time, so positions are in the order of commits. A live message records the
position of the last line written before it, and follows that line in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from headway.store.queries import EventPage, EventQuery
from headway.store.rows import (
    PRUNED,
    Cursor,
    EventRow,
    HistoryRow,
    Key,
    LiveRow,
    LogRow,
    pruned_message,
)
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import HISTORY, MESSAGE, readable_values

PAGE = f"{HISTORY.select} WHERE tenant = ? AND instance = ? AND position > ? ORDER BY position LIMIT ?"
NEWEST = f"{HISTORY.select} WHERE tenant = ? AND instance = ? ORDER BY position DESC LIMIT ?"
JOURNALS = (
    "SELECT DISTINCT tenant, instance FROM history WHERE (tenant, instance) > (?, ?)"
    " ORDER BY tenant, instance LIMIT ?"
)
PRUNE_HISTORY = """
DELETE FROM history WHERE position IN (
    SELECT position FROM history WHERE tenant = ? AND instance = ? ORDER BY position LIMIT ?
)
"""
LAST_TO_GO = "SELECT hash FROM history WHERE tenant = ? AND instance = ? ORDER BY position LIMIT 1 OFFSET ?"
# The lines that are left must show that the engine deleted the others.
NOTE_PRUNED = "UPDATE instance SET pruned = ? WHERE tenant = ? AND id = ?"
LAST_PRUNED = "SELECT pruned FROM instance WHERE tenant = ? AND id = ? AND pruned IS NOT NULL"
WINDOW = 1_000
"""How many lines and messages one page of a query examines."""
# Not the highest position there is: that goes back when instances and messages are pruned.
LAST_EVENT = "SELECT name, seq FROM sqlite_sequence WHERE name IN ('history', 'outbox')"
FORGOTTEN = "SELECT stamp, position, message FROM forgotten WHERE log = 'events'"
FILTERS = {
    "instance": "told.instance = :instance",
    "chart": "{chart} = :chart",
    "owner": "own.owner = :owner",
    "parent": "own.parent = :parent",
}
READABLE = "({chart} NOT IN (SELECT value FROM json_each(:closed)) OR own.owner = :person)"
OF_INSTANCE = "own.chart"
OF_MESSAGE = "CASE told.kind WHEN 'pruned' THEN told.name ELSE own.chart END"
"""The chart of a message: one that tells of pruned instances has the name of their chart."""
IS_LIVE = "kind IN ('live', 'pruned')"
"""What is in the log, as the condition of its indexes."""
TENANT = "told.tenant = :tenant"
ALL_OF_A_TENANT = "+told.tenant = :tenant"
"""Not by the index of instances, which would sort all that the tenant ever had."""
OWN = "CROSS JOIN instance AS own ON own.tenant = told.tenant AND own.id = told.instance"
"""Each line and message is looked at before its instance."""
LINES = (
    f"SELECT own.chart, own.owner, own.parent, {', '.join(f'told.{column}' for column in HISTORY.columns)}"
    f" FROM history AS told {OWN} WHERE told.position > :after_line AND told.position <= :last_line"
    " {filters} ORDER BY told.position LIMIT :limit"
)
MESSAGES = (
    f"SELECT {OF_MESSAGE}, own.owner, own.parent,"
    f" told.line, {', '.join(f'told.{column}' for column in MESSAGE.columns)}"
    " FROM outbox AS told LEFT JOIN instance AS own ON own.tenant = told.tenant AND own.id = told.instance"
    f" WHERE told.{IS_LIVE} AND (own.id IS NOT NULL OR told.kind = 'pruned')"
    " AND told.position > :after_message AND told.position <= :last_message"
    " {filters} ORDER BY told.position LIMIT :limit"
)
FIRST_MESSAGE = f"SELECT position FROM outbox WHERE {IS_LIVE} AND line >= ? ORDER BY line, position LIMIT 1"
WINDOW_OF_LINES = "SELECT position FROM history WHERE position > ? ORDER BY position LIMIT 1 OFFSET ?"
WINDOW_OF_MESSAGES = "SELECT line, position FROM outbox WHERE position > ? ORDER BY position LIMIT 1 OFFSET ?"
cursor_of = attrgetter("cursor")
Group = tuple[str, str, int, str]
"""What instances that are pruned have in common: tenant, chart, version and final states."""


def forgetting(last: str) -> str:
    """The statement that notes the last event that goes: what a query finds, a line and a message."""
    return (
        "INSERT INTO forgotten (log, stamp, position, message)"
        f" SELECT 'events', 0, * FROM ({last}) WHERE true"
        " ON CONFLICT (log) DO UPDATE SET position = excluded.position, message = excluded.message"
        " WHERE (excluded.position, excluded.message) > (forgotten.position, forgotten.message)"
    )


FORGET_LINES = forgetting(
    "SELECT position, 0 FROM history WHERE tenant = ? AND instance = ? ORDER BY position DESC LIMIT 1"
)
# They stay, but without their instance nobody knows whose they are.
FORGET_LIVE = forgetting(
    f"SELECT line, position FROM outbox WHERE {IS_LIVE} AND tenant = ? AND instance = ?"
    " ORDER BY position DESC LIMIT 1"
)


class SqliteHistory:
    """The lines of all instances of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._database.rows(HISTORY, PAGE, (*key, after, limit))

    async def newest(self, key: Key, limit: int) -> Sequence[HistoryRow]:
        """The last lines of an instance's history, the newest first."""
        return await self._database.rows(HISTORY, NEWEST, (*key, limit))

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""
        found = await self._database.fetch(JOURNALS, (*after, limit))
        return [(tenant, name) for tenant, name in found]

    async def pruned(self, key: Key) -> str:
        """The hash of an instance's last pruned line, while other lines or its row are left; else empty."""
        return next((str(last) for (last,) in await self._database.fetch(LAST_PRUNED, key)), "")


def tell_of_pruned(connection: Connection, pruned: Mapping[Group, int], now: datetime) -> None:
    """Put into the log how many instances of each group are gone; belongs in their transaction."""
    for group, count in pruned.items():
        last = last_event(connection)
        message = pruned_message(group, count, f"{PRUNED}:{last.message + 1}", now)
        connection.write(MESSAGE.insert, [[*MESSAGE.values(message), last.position]])


def prune_lines(connection: Connection, key: Key, limit: int) -> tuple[int, bool]:
    """Delete the first lines of an instance; returns how many, and whether these are all.

    Belongs in a transaction.
    """
    connection.write(FORGET_LINES, [key])
    connection.write(FORGET_LIVE, [key])
    last = connection.fetch(LAST_TO_GO, (*key, limit - 1))
    gone = connection.write(PRUNE_HISTORY, [(*key, limit)])
    if last:
        connection.write(NOTE_PRUNED, [(*last[0], *key)])
    return gone, not last


class SqliteEvents:
    """The log of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def page(self, query: EventQuery) -> EventPage:
        """Events from a cursor on, in the order of commits."""
        return await self._database.read_at_once(lambda seen: read_events(seen, query))

    async def last(self) -> Cursor:
        """The cursor from which to read the events that are committed from now on."""
        return await self._database.read(last_event)

    async def forgotten(self) -> Cursor:
        """The cursor up to which the log has gaps because something was pruned."""
        found = await self._database.fetch(FORGOTTEN)
        return Cursor(*found[0]) if found else Cursor()


def read_events(connection: Connection, query: EventQuery) -> EventPage:
    """A page of events; belongs in a snapshot."""
    end = max(query.after, last_event(connection))
    after = _in_both_logs(connection, query.after, end)
    last = _in_both_logs(connection, _window_ends(connection, query, after, end), end)
    given = {name: getattr(query, name) for name in (*FILTERS, "tenant") if getattr(query, name) is not None}
    bound = {
        **given,
        **readable_values(query.readable),
        "after_line": after.position,
        "after_message": after.message,
        "last_line": last.position,
        "last_message": last.message,
        "limit": query.limit,
    }
    found: list[LogRow] = []
    if last.position > after.position:
        found += _lines(connection.fetch(_filtered(LINES, query, OF_INSTANCE), bound))
    if last.message > after.message:
        found += _messages(connection.fetch(_filtered(MESSAGES, query, OF_MESSAGE), bound))
        found.sort(key=cursor_of)
    events = found[: query.limit]
    if len(events) == query.limit:
        return EventPage(events, events[-1].cursor, complete=False)
    return EventPage(events, last, complete=last >= end)


def last_event(connection: Connection) -> Cursor:
    """The cursor of the last event; reading after it returns only new events."""
    found = dict(connection.fetch(LAST_EVENT))
    return Cursor(0, found.get("history", 0), found.get("outbox", 0))


def _in_both_logs(connection: Connection, cursor: Cursor, end: Cursor) -> Cursor:
    """The same place with the last message before it, which the cursor of a line does not contain."""
    if cursor.message or not end.message:
        return cursor
    found = connection.fetch(FIRST_MESSAGE, (cursor.position,))
    return Cursor(0, cursor.position, found[0][0] - 1 if found else end.message)


def _window_ends(connection: Connection, query: EventQuery, after: Cursor, end: Cursor) -> Cursor:
    """Where to stop looking; an index leads to what one instance has."""
    size = max(query.limit, WINDOW)
    is_near = end.position - after.position < size and end.message - after.message < size
    if is_near or (query.instance is not None and query.tenant is not None):
        return end
    lines = connection.fetch(WINDOW_OF_LINES, (after.position, size - 1))
    messages = connection.fetch(WINDOW_OF_MESSAGES, (after.message, size - 1))
    return min([end, *(Cursor(0, *place) for place in (*lines, *messages))])


def _filtered(sql: str, query: EventQuery, chart: str) -> str:
    """The statement for the filters that are set."""
    terms = [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    if query.readable is not None:
        terms.append(READABLE)
    if query.tenant is not None:
        terms.append(ALL_OF_A_TENANT if query.instance is None else TENANT)
    return sql.format(filters="".join(f" AND {term.format(chart=chart)}" for term in terms))


def _lines(found: Iterable[tuple[Any, ...]]) -> list[EventRow]:
    return [EventRow(HISTORY.rows([line])[0], *whose) for *whose, line in _parted(found)]


def _messages(found: Iterable[tuple[Any, ...]]) -> list[LiveRow]:
    rows = [(MESSAGE.rows([message])[0], line, whose) for *whose, (line, *message) in _parted(found)]
    return [LiveRow(row, Cursor(0, line, row.position), *whose) for row, line, whose in rows]


def _parted(found: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Whose each is (chart, owner, parent), and the rest of its columns."""
    return ((*row[:3], row[3:]) for row in found)
