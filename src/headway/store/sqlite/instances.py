"""Instances on SQLite: pages of them, and the end of those that are over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

from headway.store.port import Owned
from headway.store.queries import InstanceQuery, StateCounts
from headway.store.rows import InstanceRow, Key, StateCount
from headway.store.sqlite.asks import ASKS_OF_INSTANCE_GONE
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import Commands, SqliteDatabase, look_up
from headway.store.sqlite.history import Group, last_event, prune_lines, tell_of_pruned
from headway.store.sqlite.tables import INSTANCE, from_time, readable_values, to_time
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
SELECT tenant, id, chart, version, states FROM instance WHERE ended = 1 AND chart = ? AND updated_at < ?
ORDER BY updated_at, no LIMIT ?
"""
# The index of each kind is named, so that a file without statistics is read in the same way.
COUNT_LIVING = """
SELECT chart, version, states, 0, count(*), min(since) FROM instance INDEXED BY instance_by_states
WHERE tenant = ? AND ended = 0 GROUP BY chart, states, version
"""
COUNT_ENDED = """
SELECT chart, version, states, 1, count(*), NULL FROM instance INDEXED BY instance_ended_by_states
WHERE tenant = ? AND ended = 1 GROUP BY chart, states, version
"""
NEXT_OLDEST = """
SELECT chart, states, version, since FROM instance
WHERE tenant = ? AND ended = 0 AND (chart, states, version) > (?, ?, ?)
ORDER BY chart, states, version, since LIMIT 1
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

    async def oldest(self, tenant: str) -> Sequence[StateCount]:
        """For each version and set of leaf states of living instances one that got there first."""
        return await self._database.read_at_once(lambda seen: read_oldest(seen, tenant))

    async def counts(self, tenant: str) -> StateCounts:
        """How many instances of a tenant are in which leaf states, and the cursor at which that is true."""
        return await self._database.read_at_once(lambda seen: read_counts(seen, tenant))

    async def prune(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that ended before a time, with their history and asks; returns how many.

        A long history goes in several transactions, so that nobody waits long.
        """
        count, complete = 0, False
        while not complete:
            prune = partial(
                prune_ended,
                before=to_time(before),
                limit=limit - count,
                chart=chart,
                now=self._database.now(),
            )
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


def read_counts(connection: Connection, tenant: str) -> StateCounts:
    """The counts of a tenant; belongs in a snapshot."""
    found = [*connection.fetch(COUNT_LIVING, (tenant,)), *connection.fetch(COUNT_ENDED, (tenant,))]
    items = [
        StateCount(chart, version, states, bool(ended), count, None if oldest is None else from_time(oldest))
        for chart, version, states, ended, count, oldest in found
    ]
    return StateCounts(items, last_event(connection))


def read_oldest(connection: Connection, tenant: str) -> list[StateCount]:
    """One of each set of leaf states, from one set to the next."""
    found: list[StateCount] = []
    place: tuple[str, str, int] = ("", "", 0)
    while rows := connection.fetch(NEXT_OLDEST, (tenant, *place)):
        [(chart, states, version, since)] = rows
        place = (chart, states, version)
        found.append(StateCount(chart, version, states, ended=False, count=1, oldest=from_time(since)))
    return found


def prune_ended(
    connection: Connection, before: int, limit: int, chart: str | None, *, now: datetime
) -> tuple[int, bool]:
    """Delete some; returns how many, and whether that is all for now. Belongs in a transaction."""
    lines, complete = LINES, True
    pruned: Counter[Group] = Counter()
    for key, group in _ended(connection, before, limit, chart):
        gone, complete = prune_lines(connection, key, lines)
        if not complete:
            break
        lines -= gone
        for statement in ALL_OF_AN_INSTANCE:
            connection.write(statement, [key])
        pruned[group] += 1
    tell_of_pruned(connection, pruned, now)
    return pruned.total(), complete


def _ended(connection: Connection, before: int, limit: int, chart: str | None) -> list[tuple[Key, Group]]:
    charts = connection.fetch(CHARTS_WITH_ENDED) if chart is None else [(chart,)]
    found: list[tuple[Key, Group]] = []
    for (name,) in charts:
        found += [
            ((tenant, key), (tenant, *group))
            for tenant, key, *group in connection.fetch(ENDED, (name, before, limit - len(found)))
        ]
    return found
