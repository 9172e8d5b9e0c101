"""How workers claim work on PostgreSQL: by priority, the tenants in turn, each item to one worker only.

Work that nothing limits is claimed in one statement. Where a limit has room, the keys that are counted are
locked first, so that the statement after that counts what is true, on however many nodes workers claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from headway.store.postgres.connection import Connection
from headway.store.postgres.tables import NOW, WORK, listed
from headway.store.queries import Claim
from headway.store.rows import WorkRow

ATTEMPTS = 5
LOCKS = 64
"""How many advisory locks all keys share: few enough for a claim to take all that it needs."""
LOCK_CLASS = 0x48656164
"""Sets these locks apart from those of others in the same database."""

LONGEST_PERIOD = 1_000_000_000_000
"""Milliseconds: some thirty years, beyond which the database could not count."""

PLACE = ("queue", "priority", "tenant", "slot")
LIMITS = ("chart", "version", "affinity", "concurrency", "at_once", "rate", "rate_most", "rate_per")
FITS = f"worker IS NULL AND due <= {NOW} AND ($5::text[] IS NULL OR handler = ANY($5::text[]))"
SAME_PLACE = " AND ".join(f"{column} = place.{column}" for column in PLACE)
IS_LIMITED = "(concurrency IS NOT NULL OR rate IS NOT NULL)"
CONCURRENCY_LOCK = f"hashtext(tenant || ' at once ' || concurrency) & {LOCKS - 1}"
RATE_LOCK = f"hashtext(tenant || ' rate ' || rate) & {LOCKS - 1}"
IS_LOCKED = (
    f"(concurrency IS NULL OR {CONCURRENCY_LOCK} = ANY($9::int[]))"
    f" AND (rate IS NULL OR {RATE_LOCK} = ANY($9::int[]))"
)
ROOM = """
CASE WHEN place.concurrency IS NOT NULL THEN place.at_once - (
    SELECT count(*) FROM (
        SELECT 1 FROM work AS leased
        WHERE leased.tenant = place.tenant AND leased.concurrency = place.concurrency
        AND leased.concurrency IS NOT NULL AND leased.worker IS NOT NULL
        LIMIT greatest(place.at_once, 0)
    ) AS leased
) END
"""
# Microseconds by which a rate is ahead of its time. A rate may be ahead by as much as its whole burst.
AHEAD = f"""
coalesce((
    SELECT greatest(0, extract(epoch FROM pace.free_at - {NOW}) * 1000000) FROM pace
    WHERE pace.tenant = {{of}}.tenant AND pace.rate = {{of}}.rate
), 0)
"""
PERIOD = f"(1000::numeric * least(greatest(rate_per, 1), {LONGEST_PERIOD}))"
BURST = f"""
CASE WHEN place.rate IS NOT NULL THEN
    place.rate_most - div({AHEAD.format(of="place")} * place.rate_most + {PERIOD} - 1, {PERIOD})
END
"""
HELD_BY_ANOTHER = f"""
EXISTS (
    SELECT 1 FROM lease
    WHERE lease.tenant = place.tenant AND lease.name = place.affinity AND holder <> $2 AND until > {NOW}
)
"""

# Steps through the index of waiting work, from one place to the next, so that a backlog costs nothing. A
# place invites when its first item is due and nothing holds it up.
INVITING = f"""
WITH RECURSIVE place AS (
    SELECT first.* FROM unnest($3::text[]) AS wanted (queue) CROSS JOIN LATERAL (
        SELECT {listed(PLACE + LIMITS)} FROM work WHERE worker IS NULL AND queue = wanted.queue
        ORDER BY priority, tenant, slot LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.* FROM place CROSS JOIN LATERAL (
        SELECT {listed(PLACE + LIMITS)} FROM work WHERE worker IS NULL AND queue = place.queue
        AND (priority, tenant, slot) > (place.priority, place.tenant, place.slot)
        ORDER BY priority, tenant, slot LIMIT 1
    ) AS next
), measured AS MATERIALIZED (
    SELECT *, {ROOM} AS room, {BURST} AS burst FROM place
    WHERE ($4::text[] IS NULL OR tenant = ANY($4::text[]))
    AND (chart, version) IN (SELECT chart, version FROM unnest($8::chart_version_given[]))
    AND (affinity IS NULL OR NOT {HELD_BY_ANOTHER}){{only}}
), inviting AS MATERIALIZED (
    SELECT place.*, tenant <= $7::text AS served,
        row_number() OVER (PARTITION BY priority, tenant ORDER BY first.due) AS nth
    FROM measured AS place CROSS JOIN LATERAL (
        SELECT due FROM work WHERE {SAME_PLACE} AND {FITS} ORDER BY due, id LIMIT 1
    ) AS first
    WHERE coalesce(room > 0, true) AND coalesce(burst > 0, true)
    ORDER BY priority DESC, nth, served, tenant LIMIT $6::bigint
)"""
ITEMS = f"""
SELECT item.*, served, {{more}} FROM inviting AS place CROSS JOIN LATERAL (
    SELECT ctid AS location, priority, tenant, due, id FROM work
    WHERE {SAME_PLACE} AND {FITS} ORDER BY due, id LIMIT {{most}}
) AS item
"""
TURN = "row_number() OVER (PARTITION BY priority, tenant ORDER BY due, id) AS turn"
NUMBERS = """
room, row_number() OVER (
    PARTITION BY item.tenant, place.concurrency ORDER BY item.priority DESC, item.due, item.id
) AS at_once, burst, row_number() OVER (
    PARTITION BY item.tenant, place.rate ORDER BY item.priority DESC, item.due, item.id
) AS started
"""
# What another worker is about to take is passed over.
LEASE = f"""
chosen AS MATERIALIZED (
    SELECT waiting.* FROM waiting JOIN work ON work.ctid = waiting.location WHERE work.worker IS NULL
    ORDER BY waiting.priority DESC, waiting.turn, waiting.served, waiting.tenant
    LIMIT $6::bigint FOR UPDATE OF work SKIP LOCKED
), leased AS (
    UPDATE work SET worker = $2, started_at = {NOW},
        leased_until = {NOW} + work.lease * interval '1 millisecond'
    FROM chosen WHERE work.ctid = chosen.location
    RETURNING {listed(WORK.columns, "work.")}, chosen.turn, chosen.served
)"""
ANSWER = f"""
SELECT total.*, {listed(WORK.columns, "leased.")}
FROM (SELECT (SELECT count(*) FROM waiting), {{locks}}) AS total
LEFT JOIN leased ON true ORDER BY leased.priority DESC, leased.turn, leased.served, leased.tenant
"""
LOCKS_NEEDED = f"""(
    SELECT array_agg(DISTINCT lock) FROM inviting CROSS JOIN LATERAL (
        VALUES ({CONCURRENCY_LOCK}), ({RATE_LOCK})
    ) AS needed (lock) WHERE lock IS NOT NULL
)"""

# As long as a place that is limited invites, nothing is claimed: it may come before the others.
CLAIM = f"""
{INVITING.format(only="")}, waiting AS MATERIALIZED (
    SELECT *, {TURN} FROM (
        {ITEMS.format(more="slot", most="$6::bigint")}
        WHERE NOT EXISTS (SELECT 1 FROM inviting WHERE {IS_LIMITED})
    ) AS item
), {LEASE}
{ANSWER.format(locks=LOCKS_NEEDED)}
"""
# The items of a key are numbered across all its places; those beyond its room stay.
CLAIM_LIMITED = f"""
{INVITING.format(only=f" AND {IS_LOCKED}")}, candidate AS (
    {ITEMS.format(more=NUMBERS, most="least($6::bigint, room, burst::bigint)")}
), waiting AS MATERIALIZED (
    SELECT *, {TURN} FROM candidate
    WHERE coalesce(at_once <= room, true) AND coalesce(started <= burst, true)
), {LEASE}, paced AS (
    INSERT INTO pace (tenant, rate, free_at)
    SELECT tenant, rate, {NOW} + interval '1 microsecond'
        * ({AHEAD.format(of="leased")} + ceil(sum({PERIOD} / greatest(rate_most, 1))))
    FROM leased WHERE rate IS NOT NULL GROUP BY tenant, rate
    ON CONFLICT (tenant, rate) DO UPDATE SET free_at = excluded.free_at
)
{ANSWER.format(locks="NULL::int[]")}
"""
LOCK = f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, lock) FROM unnest($1::int[]) AS lock"


class ClaimRound(NamedTuple):
    """The result of one statement: how many items waited, those leased, and the locks needed to continue."""

    waiting: int
    rows: list[WorkRow]
    locks: list[int]


class WorkClaims:
    """Leases work, and remembers which tenant was served last, so that all are served in turn."""

    def __init__(self) -> None:
        self._served = ""

    async def claim(self, connection: Connection, claim: Claim, now: datetime | None) -> list[WorkRow]:
        """Lease what is due; looks again when others were quicker, or a limit left room for others."""
        claimed: list[WorkRow] = []
        for _ in range(ATTEMPTS):
            wanted = self._wanted(claim, claim.limit - len(claimed), now)
            found = await _look(connection, wanted)
            if limited := bool(found.locks):
                found = await _look_under_locks(connection, wanted, found.locks)
            if found.rows:
                claimed += found.rows
                self._served = found.rows[-1].tenant
            if len(claimed) == claim.limit or found.waiting == (0 if limited else len(found.rows)):
                break
        return claimed

    def _wanted(self, claim: Claim, room: int, now: datetime | None) -> tuple[object, ...]:
        queues = [*dict.fromkeys(claim.queues)]
        tenants, handlers = claim.tenants or None, claim.handlers or None
        return (now, claim.worker, queues, tenants, handlers, room, self._served, [*claim.versions])


async def _look(connection: Connection, wanted: tuple[object, ...]) -> ClaimRound:
    return _round(await connection.fetch(CLAIM, *wanted, writes=True))


async def _look_under_locks(
    connection: Connection, wanted: tuple[object, ...], locks: list[int]
) -> ClaimRound:
    async with connection.transaction():
        await connection.fetch(LOCK, sorted(locks))
        return _round(await connection.fetch(CLAIM_LIMITED, *wanted, locks))


def _round(records: Sequence[Sequence[Any]]) -> ClaimRound:
    waiting, locks, *_ = records[0]
    rows = WORK.rows(columns for _, _, *columns in records if columns[0] is not None)
    return ClaimRound(waiting, rows, locks or [])
