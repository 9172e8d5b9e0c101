"""Lists of timers on SQLite."""

from __future__ import annotations

from headway.codec import encode
from headway.store.port import TimerQuery
from headway.store.rows import TimerRow
from headway.store.sqlite_connection import Connection
from headway.store.sqlite_tables import TIMER, to_time

FILTERS = {
    "ids": "id IN (SELECT value FROM json_each(:ids))",
    "after": "(due, id) > (:due, :id)",
}


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
