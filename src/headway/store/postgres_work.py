"""How a worker gets its work: the most urgent first, the tenants in turn, each item to one worker only."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.store.port import Claim
from headway.store.postgres_connection import Connection
from headway.store.postgres_tables import WORK, listed
from headway.store.rows import Key, WorkRow

ATTEMPTS = 5
NOW = "coalesce($1::timestamptz, statement_timestamp())"
FITS = f"worker IS NULL AND due <= {NOW} AND ($5::text[] IS NULL OR handler = ANY($5::text[]))"
SAME_PLACE = "queue = place.queue AND priority = place.priority AND tenant = place.tenant"

# The first part steps through the index of waiting work, from one priority and tenant to the next, so that a
# backlog costs nothing. Then each tenant's items are numbered, and those that another worker is about to take
# are passed over.
CLAIM = f"""
WITH RECURSIVE place AS (
    SELECT first.* FROM unnest($3::text[]) AS wanted (queue) CROSS JOIN LATERAL (
        SELECT queue, priority, tenant FROM work WHERE worker IS NULL AND queue = wanted.queue
        ORDER BY priority, tenant LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.* FROM place CROSS JOIN LATERAL (
        SELECT queue, priority, tenant FROM work
        WHERE worker IS NULL AND queue = place.queue AND (priority, tenant) > (place.priority, place.tenant)
        ORDER BY priority, tenant LIMIT 1
    ) AS next
), inviting AS MATERIALIZED (
    SELECT *, tenant <= $7::text AS served FROM place
    WHERE ($4::text[] IS NULL OR tenant = ANY($4::text[]))
    AND EXISTS (SELECT 1 FROM work WHERE {SAME_PLACE} AND {FITS})
    ORDER BY priority DESC, served, tenant LIMIT $6::bigint
), waiting AS MATERIALIZED (
    SELECT item.*, served,
        row_number() OVER (PARTITION BY item.priority, item.tenant ORDER BY due, id) AS turn
    FROM inviting AS place CROSS JOIN LATERAL (
        SELECT ctid AS location, priority, tenant, due, id FROM work
        WHERE {SAME_PLACE} AND {FITS} ORDER BY due, id LIMIT $6::bigint
    ) AS item
), chosen AS MATERIALIZED (
    SELECT waiting.* FROM waiting JOIN work ON work.ctid = waiting.location WHERE work.worker IS NULL
    ORDER BY waiting.priority DESC, waiting.turn, waiting.served, waiting.tenant
    LIMIT $6::bigint FOR UPDATE OF work SKIP LOCKED
), leased AS (
    UPDATE work SET worker = $2, started_at = {NOW},
        leased_until = {NOW} + work.lease * interval '1 millisecond'
    FROM chosen WHERE work.ctid = chosen.location
    RETURNING {listed(WORK.columns, "work.")}, chosen.turn, chosen.served
)
SELECT count.count, {listed(WORK.columns, "leased.")} FROM (SELECT count(*) FROM waiting) AS count
LEFT JOIN leased ON true ORDER BY leased.priority DESC, leased.turn, leased.served, leased.tenant
"""
EXTEND = f"""
UPDATE work SET leased_until = {NOW} + work.lease * interval '1 millisecond'
FROM unnest($3::lease_given[]) AS given
WHERE work.tenant = given.tenant AND work.id = given.id AND work.attempt = given.attempt
AND work.worker = $2 AND work.leased_until > {NOW}
RETURNING work.tenant, work.id
"""


class Desk:
    """Hands work out, and remembers whose turn it was so that no tenant is passed over."""

    def __init__(self) -> None:
        self._served = ""

    async def claim(self, connection: Connection, claim: Claim, now: datetime | None) -> list[WorkRow]:
        """Lease what is due; tries again when others were quicker and there is more."""
        claimed: list[WorkRow] = []
        for _ in range(ATTEMPTS):
            room = claim.limit - len(claimed)
            waiting, rows = await self._claim(connection, claim, room, now)
            claimed += rows
            if len(rows) in {room, waiting}:
                break
        return claimed

    async def _claim(
        self, connection: Connection, claim: Claim, room: int, now: datetime | None
    ) -> tuple[int, list[WorkRow]]:
        wanted = (claim.queues, claim.tenants or None, claim.handlers or None)
        records = await connection.fetch(CLAIM, now, claim.worker, *wanted, room, self._served, writes=True)
        rows = WORK.rows(columns for _, *columns in records if columns[0] is not None)
        if rows:
            self._served = rows[-1].tenant
        return records[0][0], rows


async def extend(
    connection: Connection, worker: str, items: Sequence[tuple[str, str, int]], now: datetime | None
) -> list[Key]:
    """Extend the leases that a worker still holds."""
    held = await connection.fetch(EXTEND, now, worker, sorted(items), writes=True)
    return [(tenant, work) for tenant, work in held]
