"""The lines of all histories on SQLite: a log in the order of its positions, because one writes at a time."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from headway.store.port import EventPage, EventQuery
from headway.store.rows import Cursor, EventRow
from headway.store.sqlite_connection import Connection
from headway.store.sqlite_tables import HISTORY

WINDOW = 1_000
"""So many lines are looked at for those that fit a query."""

# Not the highest position there is: that goes back when instances are pruned.
LAST_EVENT = "SELECT seq FROM sqlite_sequence WHERE name = 'history'"
WINDOW_ENDS = "SELECT position FROM history WHERE position > ? ORDER BY position LIMIT 1 OFFSET ?"
FILTERS = {
    "tenant": "line.tenant = :tenant",
    "instance": "line.instance = :instance",
    "chart": "own.chart = :chart",
    "owner": "own.owner = :owner",
}
COLUMNS = ", ".join(f"line.{column}" for column in HISTORY.columns)


def read_events(connection: Connection, query: EventQuery) -> EventPage:
    """A page of events; belongs in a snapshot."""
    end = max(query.after, last_event(connection))
    last = _window_ends(connection, query) or end.position
    given = {name: getattr(query, name) for name in FILTERS if getattr(query, name) is not None}
    bound = {**given, "after": query.after.position, "last": last, "limit": query.limit}
    found = connection.fetch(_page(given), bound)
    lines = HISTORY.rows(columns for _, _, *columns in found)
    events = [EventRow(line, chart, owner) for line, (chart, owner, *_) in zip(lines, found, strict=True)]
    if events and len(events) == query.limit:
        return EventPage(events, events[-1].cursor, complete=False)
    return EventPage(events, Cursor(0, last), complete=last >= end.position)


def last_event(connection: Connection) -> Cursor:
    """From where to read what comes from now on."""
    found = connection.fetch(LAST_EVENT)
    return Cursor(0, found[0][0] if found else 0)


def _window_ends(connection: Connection, query: EventQuery) -> int | None:
    """Where to stop looking, unless the log ends before; an index leads to the lines of one instance."""
    if query.instance is not None and query.tenant is not None:
        return None
    found = connection.fetch(WINDOW_ENDS, (query.after.position, max(query.limit, WINDOW) - 1))
    return found[0][0] if found else None


def _page(given: dict[str, str]) -> str:
    """The statement for the filters that are set; it looks at each line before its instance."""
    terms = ["line.position > :after", "line.position <= :last", *(FILTERS[name] for name in given)]
    return (
        f"SELECT own.chart, own.owner, {COLUMNS} FROM history AS line"
        " CROSS JOIN instance AS own ON own.tenant = line.tenant AND own.id = line.instance"
        f" WHERE {' AND '.join(terms)} ORDER BY line.position LIMIT :limit"
    )
