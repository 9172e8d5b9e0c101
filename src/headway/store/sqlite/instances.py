"""Instances on SQLite: pages of them, and the end of those that are over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

from headway.store.port import Owned
from headway.store.queries import InstanceQuery
from headway.store.rows import InstanceRow, Key
from headway.store.sqlite.asks import ASKS_OF_INSTANCE_GONE
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import Commands, SqliteDatabase, look_up
from headway.store.sqlite.history import prune_lines
from headway.store.sqlite.tables import INSTANCE, readable_values, to_time
from headway.store.unit import LookUpInstances

LINES = 5_000
"""How many history lines one transaction deletes, so that other writes do not wait long."""

FILTERS = {
    "chart": "chart = :chart",
    "status": "status = :status",
    "parent": "parent = :parent",
    "owner": "owner = :owner",
}
READABLE = "(chart NOT IN (SELECT value FROM json_each(:closed)) OR owner = :person)"
AFTER = "no > (SELECT no FROM instance WHERE tenant = :tenant AND id = :after)"
NAMES = "SELECT tenant, id FROM instance WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT ?"
LIVING = (
    f"{INSTANCE.select} WHERE (tenant, id) > (?, ?) AND +chart = ? AND +ended = 0 ORDER BY tenant, id LIMIT ?"
)
OWNED = {
    table: f"SELECT tenant, id, instance FROM {table} WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT ?"
    for table in ("timer", "work", "ask")
}
CHARTS_WITH_ENDED = """
WITH RECURSIVE step (chart) AS (
    SELECT min(chart) FROM instance WHERE ended = 1
    UNION ALL
    SELECT (SELECT min(chart) FROM instance WHERE ended = 1 AND chart > step.chart)
    FROM step WHERE chart IS NOT NULL
)
SELECT chart FROM step WHERE chart IS NOT NULL
"""
ENDED = """
SELECT tenant, id FROM instance WHERE ended = 1 AND chart = ? AND updated_at < ?
ORDER BY updated_at, no LIMIT ?
"""
PRUNE_INSTANCE = "DELETE FROM instance WHERE tenant = ? AND id = ?"
ALL_OF_AN_INSTANCE = (*ASKS_OF_INSTANCE_GONE, PRUNE_INSTANCE)


class SqliteInstances:
    """The instances of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.commands: Commands = {LookUpInstances: lambda held, given: look_up(held, INSTANCE, given.keys)}

    async def get(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return await self._database.row(INSTANCE, key)

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that exist, in any order."""
        return await self._database.read(lambda held: look_up(held, INSTANCE, keys))

    async def page(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        values = {name: getattr(query, name) for name in ("tenant", "after", "limit", *FILTERS)}
        return await self._database.rows(INSTANCE, page(query), values | readable_values(query.readable))

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances after a key, by tenant and id."""
        found = await self._database.fetch(NAMES, (*after, limit))
        return [(tenant, name) for tenant, name in found]

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, ordered as `names`."""
        return await self._database.rows(INSTANCE, LIVING, (*after, chart, limit))

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The keys of all timers, work or asks, each with the key of its instance, ordered as `names`."""
        found = await self._database.fetch(OWNED[table], (*after, limit))
        return [((tenant, name), (tenant, instance)) for tenant, name, instance in found]

    async def prune(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that ended before a time, with their history and asks; returns how many.

        A long history goes in several transactions, so that nobody waits long.
        """
        count, complete = 0, False
        while not complete:
            prune = partial(prune_ended, before=to_time(before), limit=limit - count, chart=chart)
            gone, complete = await self._database.write(prune)
            count += gone
        return count


def page(query: InstanceQuery) -> str:
    """The statement for the filters that are set, so that each combination finds its index."""
    terms = ["tenant = :tenant"]
    terms += [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    terms += [] if query.ended is None else [f"ended = {query.ended:d}"]
    terms += [] if query.readable is None else [READABLE]
    terms += [] if query.after is None else [AFTER]
    return f"{INSTANCE.select} WHERE {' AND '.join(terms)} ORDER BY no LIMIT :limit"


def prune_ended(connection: Connection, before: int, limit: int, chart: str | None) -> tuple[int, bool]:
    """Delete some; returns how many, and whether that is all for now. Belongs in a transaction."""
    lines, count = LINES, 0
    for key in _ended(connection, before, limit, chart):
        gone, complete = prune_lines(connection, key, lines)
        if not complete:
            return count, False
        lines -= gone
        for statement in ALL_OF_AN_INSTANCE:
            connection.write(statement, [key])
        count += 1
    return count, True


def _ended(connection: Connection, before: int, limit: int, chart: str | None) -> list[Key]:
    charts = connection.fetch(CHARTS_WITH_ENDED) if chart is None else [(chart,)]
    found: list[tuple[str, str]] = []
    for (name,) in charts:
        found += [
            (tenant, key) for tenant, key in connection.fetch(ENDED, (name, before, limit - len(found)))
        ]
    return found
