"""Asks on SQLite: the audience of each open ask, and the queries of inboxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby, islice
from typing import Any

from headway.codec import encode
from headway.store.queries import AskQuery
from headway.store.rows import AskChange, AskClosing, AskRow, Key
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import ASK, Table

# A delegated ask is for that person alone. `@id` stands for a person: no role begins with @.
WHOM = """
CROSS JOIN json_each(CASE WHEN delegated_to IS NULL THEN roles ELSE json_array('@' || delegated_to) END)
WHERE closed_at IS NULL
"""
AUDIENCE = f"SELECT tenant, value, opened_at, ask.id FROM ask {WHOM} AND tenant = ?1 AND ask.id = ?2"
AUDIENCES_OF_INSTANCE = f"""
SELECT tenant, value, opened_at, ask.id FROM ask INDEXED BY ask_open_by_instance {WHOM}
AND tenant = ?1 AND instance = ?2
"""
MISFILED = f"""
WITH wanted AS MATERIALIZED (SELECT tenant, value, opened_at, ask.id FROM ask {WHOM}),
    listed AS (SELECT tenant, audience, opened_at, ask FROM ask_audience)
SELECT tenant, id FROM (SELECT * FROM wanted EXCEPT SELECT * FROM listed)
UNION SELECT tenant, ask FROM (SELECT * FROM listed EXCEPT SELECT * FROM wanted)
ORDER BY 1, 2 LIMIT ?
"""
SHOW_ASK = f"INSERT OR IGNORE INTO ask_audience (tenant, audience, opened_at, ask) {AUDIENCE}"
HIDE_ASK = f"DELETE FROM ask_audience WHERE (tenant, audience, opened_at, ask) IN ({AUDIENCE})"
HIDE_ASKS_OF_INSTANCE = f"""
DELETE FROM ask_audience WHERE (tenant, audience, opened_at, ask) IN ({AUDIENCES_OF_INSTANCE})
"""
ASK_CHANGE = Table("ask", AskChange, key=("tenant", "id"))
ASK_CLOSING = Table("ask", AskClosing, key=("tenant", "id"))
CHANGE_ASK = f"{ASK_CHANGE.update()} AND closed_at IS NULL"
CLOSE_ASK = f"{ASK_CLOSING.update()} AND closed_at IS NULL"
INBOX = """
SELECT opened_at, ask FROM ask_audience
WHERE tenant = ? AND audience = ? AND (opened_at, ask) > (?, ?) ORDER BY opened_at, ask LIMIT ?
"""
OPENED_AT = "SELECT opened_at FROM ask WHERE tenant = ? AND id = ?"
BEFORE_ALL = (-(2**63), "")
AFTER = "(opened_at, id) > ((SELECT opened_at FROM ask WHERE tenant = :tenant AND id = :after), :after)"
FOR_THEM = """
CASE WHEN delegated_to IS NOT NULL THEN delegated_to IS :person ELSE EXISTS (
    SELECT 1 FROM json_each(roles) AS role WHERE role.value IN (SELECT value FROM json_each(:roles))
) END
"""
PRUNE_OPEN_ASKS = """
DELETE FROM ask INDEXED BY ask_open_by_instance WHERE tenant = ? AND instance = ? AND closed_at IS NULL
"""
PRUNE_CLOSED_ASKS = """
DELETE FROM ask INDEXED BY ask_closed_by_instance WHERE tenant = ? AND instance = ? AND closed_at IS NOT NULL
"""
ASKS_OF_INSTANCE_GONE = (HIDE_ASKS_OF_INSTANCE, PRUNE_OPEN_ASKS, PRUNE_CLOSED_ASKS)
"""The statements that delete the asks of an instance; each takes its key."""


class SqliteAsks:
    """The asks of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def get(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""
        return await self._database.row(ASK, key)

    async def page(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks, the oldest first."""
        return await self._database.read(lambda held: list_asks(held, query))

    async def misfiled(self, limit: int) -> Sequence[Key]:
        """The keys of asks whose entries in the inbox index do not match their audience."""
        return [(tenant, ask) for tenant, ask in await self._database.fetch(MISFILED, (limit,))]


def key_of(row: AskRow | AskChange | AskClosing) -> Key:
    """Which ask it is about."""
    return row.tenant, row.id


def list_asks(connection: Connection, query: AskQuery) -> list[AskRow]:
    """A page of asks."""
    if query.open and query.instance is None and (query.roles or query.person is not None):
        return connection.snapshot(lambda held: _inbox(held, query))
    values = {name: getattr(query, name) for name in ("tenant", "instance", "person", "after", "limit")}
    return ASK.rows(connection.fetch(page(query), values | {"roles": encode([*_audiences(query)]).decode()}))


def page(query: AskQuery) -> str:
    """The statement for the filters that are set, so that each combination finds its index."""
    terms = ["tenant = :tenant", f"closed_at IS {'NULL' if query.open else 'NOT NULL'}"]
    terms += [] if query.instance is None else ["instance = :instance"]
    terms += [] if query.after is None else [AFTER]
    terms += [FOR_THEM] if query.roles or query.person is not None else []
    return f"{ASK.select} WHERE {' AND '.join(terms)} ORDER BY opened_at, id LIMIT :limit"


def _inbox(connection: Connection, query: AskQuery) -> list[AskRow]:
    """Merge what each audience has, so that the cost does not depend on what others have."""
    start = _start(connection, query)
    if start is None:
        return []
    lists = [
        connection.fetch(INBOX, (query.tenant, audience, *start, query.limit))
        for audience in _audiences(query)
    ]
    found = (ask for (_, ask), _ in groupby(merge(*lists)))
    keys = [(query.tenant, ask) for ask in islice(found, query.limit)]
    return ASK.rows(row for key in keys for row in connection.fetch(ASK.select_one, key))


def _start(connection: Connection, query: AskQuery) -> tuple[Any, ...] | None:
    """Where the page begins; None when nobody knows the ask it is to follow."""
    if query.after is None:
        return BEFORE_ALL
    found = connection.fetch(OPENED_AT, (query.tenant, query.after))
    return (*found[0], query.after) if found else None


def _audiences(query: AskQuery) -> Iterator[str]:
    yield from (role for role in dict.fromkeys(query.roles) if not role.startswith("@"))
    if query.person is not None:
        yield f"@{query.person}"
