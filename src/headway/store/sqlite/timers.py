"""Timers on SQLite: those that are due, and lists of them."""

from __future__ import annotations

from collections.abc import Collection
from heapq import merge
from itertools import islice

from headway.codec import encode
from headway.store.port import TimerQuery, Version
from headway.store.rows import TimerRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.tables import TIMER, to_time

# Each version by itself, so that what waits for a node that knows another version costs nothing.
DUE = f"""
{TIMER.select} WHERE chart = ? AND version = ? AND due <= ? ORDER BY due, tenant, id LIMIT ?
"""
NEXT_DUE = "SELECT min(due) FROM timer WHERE chart = ? AND version = ?"
FILTERS = {
    "ids": "id IN (SELECT value FROM json_each(:ids))",
    "after": "(due, id) > (:due, :id)",
}


def due(connection: Connection, now: int, limit: int, versions: Collection[Version]) -> list[TimerRow]:
    """The first timers that are due, of instances of these versions."""
    lists = [TIMER.rows(connection.fetch(DUE, (*version, now, limit))) for version in versions]
    return [*islice(merge(*lists, key=lambda row: (row.due, row.tenant, row.id)), limit)]


def next_due(connection: Connection, versions: Collection[Version]) -> int | None:
    """When the next timer of these versions is due."""
    found = [connection.fetch(NEXT_DUE, version) for version in versions]
    return min((at for [(at,)] in found if at is not None), default=None)


def list_timers(connection: Connection, query: TimerQuery) -> list[TimerRow]:
    """A page of a tenant's timers, by due time."""
    values = {"tenant": query.tenant, "limit": query.limit, "ids": encode(query.ids).decode()}
    if query.after is not None:
        values |= {"due": to_time(query.after[0]), "id": query.after[1]}
    return TIMER.rows(connection.fetch(page(query), values))


def page(query: TimerQuery) -> str:
    """The statement for the filters that are set. What other tenants have set costs nothing: `+due`."""
    terms = ["tenant = :tenant"]
    terms += [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    return f"{TIMER.select} WHERE {' AND '.join(terms)} ORDER BY +due, id LIMIT :limit"
