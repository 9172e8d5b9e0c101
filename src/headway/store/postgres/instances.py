"""Instances on PostgreSQL: pages of them, and the end of those that are over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from headway.store.port import Owned
from headway.store.postgres.connection import Connection
from headway.store.postgres.database import Commands, PostgresDatabase
from headway.store.postgres.history import FORGET, IS_LIVE
from headway.store.postgres.tables import INSTANCE, Where
from headway.store.queries import InstanceQuery, StateCounts
from headway.store.rows import AFTER_LINES, PRUNED, Cursor, InstanceRow, Key, StateCount
from headway.store.unit import LookUpInstances

THE_LAST = 2**62
"""No limit; but a query with one reads a log in order, by its key, however large it is thought to be."""
IN_ORDER = "no > 0"
"""What all instances have, and what only those who list them say: it opens the indexes for lists to them."""
ONE_INSTANCE = f"{INSTANCE.select} WHERE tenant = $1 AND id = $2"
# One look into the index for each key, whatever is thought about the size of the table.
SOME_INSTANCES = f"""
SELECT found.* FROM unnest($1::key_given[]) AS given
CROSS JOIN LATERAL ({INSTANCE.select} WHERE tenant = given.tenant AND id = given.key LIMIT 1) AS found
"""
AFTER = "no > (SELECT no FROM instance WHERE tenant = $1 AND id = {})"
# The living may be few among many that have ended, or all there are: it steps from one set of leaf states to
# the next, and takes the first of each status that occurs. So it reads no more than a page for each status.
LIVING_PAGE = f"""
WITH RECURSIVE place AS (
    (SELECT chart, states, status FROM instance WHERE tenant = $1 AND NOT ended {{of_chart}}
    ORDER BY tenant, chart, states LIMIT 1)
    UNION ALL
    SELECT next.* FROM place CROSS JOIN LATERAL (
        SELECT chart, states, status FROM instance
        WHERE tenant = $1 AND NOT ended AND (chart, states) > (place.chart, place.states) {{of_chart}}
        ORDER BY tenant, chart, states LIMIT 1
    ) AS next
), page AS MATERIALIZED (
    SELECT found.no FROM (SELECT DISTINCT chart, status FROM place) AS place CROSS JOIN LATERAL (
        SELECT no FROM instance {{where}} AND chart = place.chart AND status = place.status
        ORDER BY no LIMIT {{limit}}
    ) AS found ORDER BY found.no LIMIT {{limit}}
)
{INSTANCE.select} WHERE tenant = $1 AND {IN_ORDER} AND no = ANY (ARRAY(SELECT no FROM page)) ORDER BY no
"""
NAMES = "SELECT tenant, id FROM instance WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3"
LIVING = (
    f"{INSTANCE.select} WHERE (tenant, id) > ($1, $2) AND chart = $3 AND NOT ended"
    " ORDER BY tenant, id LIMIT $4"
)
OWNED = {
    table: f"SELECT tenant, id, instance FROM {table} WHERE (tenant, id) > ($1, $2)"
    " ORDER BY tenant, id LIMIT $3"
    for table in ("timer", "work", "ask")
}
# As in `found_by_key`: a join that is planned for an empty table would read the whole of it later.
BY_KEY = (
    "{given} CROSS JOIN LATERAL (SELECT ctid AS place FROM {table} WHERE {match} OFFSET 0) AS found"
    " WHERE held.ctid = found.place"
)
OF_THE_OLD = "tenant = old.tenant AND instance = old.id"
OF_THE_ASKED = "tenant = asked.tenant AND ask = asked.id"
# The first part steps from chart to chart: each may be kept for a time of its own.
# The live messages of its last step have the stamp of its last line. They stay, but whose they are is gone.
PRUNE_INSTANCES = f"""
WITH RECURSIVE kind AS (
    (SELECT chart FROM instance WHERE ended AND $3::text IS NULL ORDER BY chart LIMIT 1)
    UNION ALL
    SELECT next.chart FROM kind CROSS JOIN LATERAL (
        SELECT chart FROM instance WHERE ended AND chart > kind.chart ORDER BY chart LIMIT 1
    ) AS next
), old AS MATERIALIZED (
    SELECT ended.* FROM (SELECT chart FROM kind UNION ALL SELECT $3::text) AS kind CROSS JOIN LATERAL (
        SELECT ctid AS location, tenant, id FROM instance
        WHERE ended AND chart = kind.chart AND ended_at < $1
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) AS ended LIMIT $2
), lines AS (
    DELETE FROM history AS held USING {BY_KEY.format(given="old", table="history", match=OF_THE_OLD)}
    RETURNING held.stamp
), last AS (
    SELECT max(stamp) AS stamp, {AFTER_LINES} AS position, {AFTER_LINES} AS message
    FROM lines HAVING count(*) > 0
), noted AS (
    {FORGET}
), asked AS (
    DELETE FROM ask AS held USING {BY_KEY.format(given="old", table="ask", match=OF_THE_OLD)}
    RETURNING held.tenant, held.id
), audience AS (
    DELETE FROM ask_audience AS held
    USING {BY_KEY.format(given="asked", table="ask_audience", match=OF_THE_ASKED)}
), gone AS (
    DELETE FROM instance AS held USING old WHERE held.ctid = old.location
    RETURNING held.tenant, held.chart, held.version, held.states, held.stamp
), told AS (
    INSERT INTO outbox (stamp, tenant, id, instance, kind, name, data, at)
    SELECT greatest(pg_current_xact_id()::text::bigint, max(stamp)), tenant,
        format('{PRUNED}:%s:%s:%s:%s', pg_current_xact_id(), chart, version, states), '', '{PRUNED}', chart,
        jsonb_build_object('version', version, 'states', states, 'count', count(*))::text,
        coalesce($4::timestamptz, statement_timestamp())
    FROM gone GROUP BY tenant, chart, version, states
)
SELECT count(*) FROM gone
"""
# What the oldest transaction under way keeps from the readers of the log is taken back: an instance with
# later lines counts where its last line before them has led.
COUNTS = f"""
WITH horizon AS MATERIALIZED (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS stamp
), late AS MATERIALIZED (
    SELECT instance, min(since) AS since FROM (
        SELECT tenant, instance, since FROM history WHERE stamp >= (SELECT stamp FROM horizon)
        ORDER BY stamp, position LIMIT {THE_LAST}
    ) AS line WHERE tenant = $1 GROUP BY instance
), moved AS MATERIALIZED (
    SELECT held.chart, held.version, held.states, held.since, held.ended, earlier.version AS version_then,
        earlier.after AS states_then, coalesce(late.since, held.since) AS since_then
    FROM late CROSS JOIN LATERAL (
        SELECT chart, version, states, since, ended FROM instance
        WHERE tenant = $1 AND id = late.instance OFFSET 0
    ) AS held LEFT JOIN LATERAL (
        SELECT version, after FROM history
        WHERE tenant = $1 AND instance = late.instance AND stamp < (SELECT stamp FROM horizon)
        ORDER BY position DESC LIMIT 1
    ) AS earlier ON true
), pruned AS MATERIALIZED (
    SELECT name AS chart, data::jsonb AS data FROM (
        SELECT tenant, kind, name, data FROM outbox
        WHERE {IS_LIVE} AND stamp >= (SELECT stamp FROM horizon) ORDER BY stamp, position LIMIT {THE_LAST}
    ) AS message WHERE tenant = $1 AND kind = '{PRUNED}'
), counted AS (
    SELECT chart, version, states, false AS ended, count(*) AS number, min(since) AS oldest
    FROM instance WHERE tenant = $1 AND NOT ended GROUP BY chart, version, states
    UNION ALL SELECT chart, version, states, true, count(*), NULL
    FROM instance WHERE tenant = $1 AND ended GROUP BY chart, version, states
    UNION ALL SELECT chart, version, states, ended, -count(*), NULL
    FROM moved GROUP BY chart, version, states, ended
    UNION ALL SELECT chart, version_then, states_then, false, count(*), min(since_then)
    FROM moved WHERE states_then IS NOT NULL GROUP BY chart, version_then, states_then
    UNION ALL SELECT chart, (data ->> 'version')::bigint, data ->> 'states', true,
        (data ->> 'count')::bigint, NULL FROM pruned
), summed AS (
    SELECT chart, version, states, ended, sum(number)::bigint AS number, min(oldest) AS oldest
    FROM counted GROUP BY chart, version, states, ended
)
SELECT (SELECT stamp FROM horizon) AS horizon, summed.*
FROM (SELECT 1) AS once LEFT JOIN summed ON number > 0
"""


OLDEST = """
WITH RECURSIVE place AS (
    (SELECT chart, version, states, since FROM instance WHERE tenant = $1 AND NOT ended
    ORDER BY tenant, chart, states, version, since LIMIT 1)
    UNION ALL
    SELECT next.* FROM place CROSS JOIN LATERAL (
        SELECT chart, version, states, since FROM instance
        WHERE tenant = $1 AND NOT ended
        AND (chart, states, version) > (place.chart, place.states, place.version)
        ORDER BY tenant, chart, states, version, since LIMIT 1
    ) AS next
)
SELECT chart, version, states, false, 1, since FROM place
"""


class PostgresInstances:
    """The instances of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.commands: Commands = {LookUpInstances: _look_up}

    async def get(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return await self._database.row(INSTANCE, ONE_INSTANCE, *key)

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that exist, in any order."""
        return await self._database.rows(INSTANCE, SOME_INSTANCES, [*keys])

    async def page(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        sql, values = page_of_instances(query)
        return await self._database.rows(INSTANCE, sql, *values)

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances after a key, by tenant and id."""
        return [(tenant, name) for tenant, name in await self._database.fetch(NAMES, *after, limit)]

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, ordered as `names`."""
        return await self._database.rows(INSTANCE, LIVING, *after, chart, limit)

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The keys of all timers, work or asks, each with the key of its instance, ordered as `names`."""
        found = await self._database.fetch(OWNED[table], *after, limit)
        return [((tenant, name), (tenant, instance)) for tenant, name, instance in found]

    async def oldest(self, tenant: str) -> Sequence[StateCount]:
        """For each version and set of leaf states of living instances one that got there first."""
        return [StateCount(*group) for group in await self._database.fetch(OLDEST, tenant)]

    async def counts(self, tenant: str) -> StateCounts:
        """How many instances of a tenant are in which leaf states, and the cursor at which that is true."""
        found = await self._database.fetch(COUNTS, tenant)
        items = [StateCount(*group) for _, *group in found if group[0] is not None]
        return StateCounts(items, Cursor(found[0][0]))

    async def prune(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that ended before a time, with their history and asks; returns how many."""
        now = self._database.time()
        [(count,)] = await self._database.write(PRUNE_INSTANCES, before, limit, chart, now)
        return int(count)


async def _look_up(connection: Connection, command: LookUpInstances) -> Sequence[InstanceRow]:
    return INSTANCE.rows(await connection.fetch(SOME_INSTANCES, [*command.keys]))


def page_of_instances(query: InstanceQuery) -> tuple[str, list[Any]]:
    """The statement for the filters that are set."""
    where = Where()
    where.equal(tenant=query.tenant)
    where.add(IN_ORDER)
    where.equal(chart=query.chart, status=query.status, parent=query.parent, owner=query.owner)
    where.readable(query.readable)
    if query.ended is not None:
        where.add("ended" if query.ended else "NOT ended")
    if query.after is not None:
        where.add(AFTER, query.after)
    limit = where.bind(query.limit)
    if query.ended is False and query.status is query.parent is query.owner is None:
        of_chart = "" if query.chart is None else f"AND chart = {where.bind(query.chart)}"
        return LIVING_PAGE.format(of_chart=of_chart, where=where, limit=limit), where.values
    return f"{INSTANCE.select} {where} ORDER BY no LIMIT {limit}", where.values
