"""Timers on SQLite: those that are due, and lists of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice

from headway.codec import encode
from headway.store.queries import TimerQuery
from headway.store.rows import TimerRow, Version
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import TIMER, from_time, to_time

# Each version by itself, so that what waits for a node that knows another version costs nothing.
DUE = f"""
{TIMER.select} WHERE chart = ? AND version = ? AND due <= ? ORDER BY due, tenant, id LIMIT ?
"""
NEXT_DUE = "SELECT min(due) FROM timer WHERE chart = ? AND version = ?"
FILTERS = {
    "ids": "id IN (SELECT value FROM json_each(:ids))",
    "after": "(due, id) > (:due, :id)",
}


class SqliteTimers:
    """The timers of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def due(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""
        now = self._database.time()
        return await self._database.read(lambda held: _due(held, now, limit, versions))

    async def next(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""
        at = await self._database.read(lambda held: _next_due(held, versions))
        return None if at is None else from_time(at)

    async def page(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers, by due time."""
        values = {"tenant": query.tenant, "limit": query.limit, "ids": encode(query.ids).decode()}
        if query.after is not None:
            values |= {"due": to_time(query.after[0]), "id": query.after[1]}
        return await self._database.rows(TIMER, page(query), values)


def _due(connection: Connection, now: int, limit: int, versions: Collection[Version]) -> list[TimerRow]:
    """The first timers that are due, of instances of these versions."""
    lists = [TIMER.rows(connection.fetch(DUE, (*version, now, limit))) for version in versions]
    return [*islice(merge(*lists, key=lambda row: (row.due, row.tenant, row.id)), limit)]


def _next_due(connection: Connection, versions: Collection[Version]) -> int | None:
    """When the next timer of these versions is due."""
    found = [connection.fetch(NEXT_DUE, version) for version in versions]
    return min((at for [(at,)] in found if at is not None), default=None)


def page(query: TimerQuery) -> str:
    """The statement for the filters that are set. What other tenants have set costs nothing: `+due`."""
    terms = ["tenant = :tenant"]
    terms += [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    return f"{TIMER.select} WHERE {' AND '.join(terms)} ORDER BY +due, id LIMIT :limit"
