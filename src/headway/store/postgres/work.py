"""Work on PostgreSQL: what a worker may do with what it holds, and lists of work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from headway.store.postgres.claims import WorkClaims
from headway.store.postgres.connection import Connection
from headway.store.postgres.database import Commands, PostgresDatabase, in_order, sorted_once
from headway.store.postgres.tables import NOW, WORK, Where, found_by_key
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import Attempt, Key, Version, WorkRow
from headway.store.unit import ClaimWork, HastenWork

# A worker holds an attempt as long as its lease lasts and no next attempt has taken its place. Asked in this
# way, whose it is does not tempt the planner to go through all that is leased.
HELD = found_by_key(
    WORK.name,
    "tenant = given.tenant AND id = given.id AND attempt = given.attempt"
    f" AND worker IS NOT DISTINCT FROM $2 AND leased_until > {NOW}",
    given="$3::attempt_given[]",
)

LATER = f"tenant = given.tenant AND id = given.id AND attempt = given.attempt AND due > {NOW}"


def _of_held(changes: str) -> str:
    """The statement that changes what a worker holds, and answers with its keys."""
    return f"""
    WITH found AS MATERIALIZED ({HELD}), changed AS (
        UPDATE work SET {changes} FROM found WHERE work.ctid = found.place RETURNING work.tenant, work.id
    )
    SELECT changed.tenant, changed.id FROM (
        SELECT CASE WHEN (SELECT count(*) FROM changed) <> (SELECT count(*) FROM found) THEN start_over() END
        OFFSET 0
    ) AS checked LEFT JOIN changed ON true
    """


EXTEND = _of_held(f"leased_until = {NOW} + work.lease * interval '1 millisecond'")
RELEASE = _of_held("worker = NULL, leased_until = NULL, due = coalesce($4::timestamptz, work.due)")
CHECKPOINT = _of_held("checkpoint = $4")
# What a worker claims meanwhile is its own: the row is looked at again when its lock is free.
HASTEN = f"""
WITH found AS MATERIALIZED ({found_by_key(WORK.name, LATER, given="$2::attempt_given[]")})
UPDATE work SET due = {NOW} FROM found
WHERE work.ctid = found.place AND work.worker IS NULL AND work.due > {NOW}
RETURNING work.tenant, work.id
"""
EXPIRED = f"""
{WORK.select} WHERE worker IS NOT NULL AND leased_until <= {NOW}
AND (chart, version) IN (SELECT chart, version FROM unnest($3::chart_version_given[]))
ORDER BY leased_until, tenant, id LIMIT $2
"""
# From place to place through the index of waiting work, and in each to the first that is not due yet.
NEXT = f"""
WITH RECURSIVE place AS (
    (
        SELECT queue, priority, tenant, slot FROM work WHERE worker IS NULL
        ORDER BY queue, priority, tenant, slot LIMIT 1
    )
    UNION ALL
    SELECT next.* FROM place CROSS JOIN LATERAL (
        SELECT queue, priority, tenant, slot FROM work WHERE worker IS NULL
        AND (queue, priority, tenant, slot) > (place.queue, place.priority, place.tenant, place.slot)
        ORDER BY queue, priority, tenant, slot LIMIT 1
    ) AS next
)
SELECT least(
    (
        SELECT min(later.due) FROM place CROSS JOIN LATERAL (
            SELECT due FROM work WHERE worker IS NULL AND queue = place.queue AND priority = place.priority
            AND tenant = place.tenant AND slot = place.slot AND due > {NOW} ORDER BY due LIMIT 1
        ) AS later
    ),
    (
        SELECT leased_until FROM work WHERE worker IS NOT NULL AND leased_until > {NOW}
        ORDER BY leased_until LIMIT 1
    )
)
"""


class PostgresWork:
    """The work items of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._claims = claims = WorkClaims()
        self.commands: Commands = {
            ClaimWork: lambda held, given: claims.claim(held, given.claim, database.time()),
            HastenWork: self._hasten,
        }

    async def claim(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, the tenants in turn, each item to one worker only."""
        rows = await self._database.on_connection(
            lambda connection: self._claims.claim(connection, claim, self._database.time())
        )
        if rows and rows[-1].started_at:
            self._database.memory.clock.at_least(rows[-1].started_at)
        return rows

    async def extend(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend leases of a worker; returns the keys of the items that it still holds."""
        return await self._change(EXTEND, worker, items)

    async def release(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand back items that a worker holds, claimable from `due` on; returns the keys of those it held."""
        return await self._change(RELEASE, worker, items, due)

    async def hasten(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Make items due now that nobody holds and that are due later; returns their keys."""
        return await self._database.changed_keys(items, HASTEN, self._database.time(), sorted_once(items))

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep the progress of an attempt, for it and later ones; False if the lease is lost."""
        return bool(await self._change(CHECKPOINT, worker, [item], data))

    async def expired(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Items of instances of these versions whose lease has expired, the oldest first."""
        return await self._database.rows(WORK, EXPIRED, self._database.time(), limit, [*versions])

    async def next(self) -> datetime | None:
        """When the next item becomes due or the next lease runs out."""
        [(due,)] = await self._database.fetch(NEXT, self._database.time())
        return due  # type: ignore[no-any-return]  # what the statement answers

    async def page(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work, by id."""
        sql, values = page_of_work(query)
        return await self._database.rows(WORK, sql, *values)

    async def _change(self, sql: str, worker: str, items: Sequence[Attempt], *values: Any) -> list[Key]:
        """Change the items that a worker holds; returns their keys."""
        return await self._database.changed_keys(
            items, sql, self._database.time(), worker, sorted_once(items), *values
        )

    async def _hasten(self, connection: Connection, command: HastenWork) -> list[Key]:
        values = (self._database.time(), sorted_once(command.items))
        return in_order(command.items, await connection.fetch(HASTEN, *values))


def page_of_work(query: WorkQuery) -> tuple[str, list[Any]]:
    """The statement for the filters that are set."""
    where = Where()
    where.equal(tenant=query.tenant, queue=query.queue)
    if query.ids is not None:
        where.add("id = ANY({}::text[])", query.ids)
    if query.leased is not None:
        where.add(f"worker IS {'NOT ' if query.leased else ''}NULL")
    if query.after is not None:
        where.add("id > {}", query.after)
    limit = where.bind(query.limit)
    return f"{WORK.select} {where} ORDER BY id LIMIT {limit}", where.values
