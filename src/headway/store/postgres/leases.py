"""Leases: on work that a worker does, and on names that one node has for itself."""

from __future__ import annotations

from typing import Any

from headway.store.port import WorkQuery
from headway.store.postgres.query import NOW, Where
from headway.store.postgres.tables import LEASE, WORK, found_by_key

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


EXTEND_WORK = _of_held(f"leased_until = {NOW} + work.lease * interval '1 millisecond'")
RELEASE_WORK = _of_held("worker = NULL, leased_until = NULL, due = coalesce($4::timestamptz, work.due)")
CHECKPOINT = _of_held("checkpoint = $4")
# What a worker claims meanwhile is its own: the row is looked at again when its lock is free.
HASTEN_WORK = f"""
WITH found AS MATERIALIZED ({found_by_key(WORK.name, LATER, given="$2::attempt_given[]")})
UPDATE work SET due = {NOW} FROM found
WHERE work.ctid = found.place AND work.worker IS NULL AND work.due > {NOW}
RETURNING work.tenant, work.id
"""
EXPIRED_WORK = f"""
{WORK.select} WHERE worker IS NOT NULL AND leased_until <= {NOW}
AND (chart, version) IN (SELECT chart, version FROM unnest($3::chart_version_given[]))
ORDER BY leased_until, tenant, id LIMIT $2
"""
# From place to place through the index of waiting work, and in each to the first that is not due yet.
NEXT_WORK = f"""
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
HOLD = f"""
INSERT INTO lease (tenant, name, holder, until)
SELECT tenant, key, $3, {NOW} + $4::bigint * interval '1 millisecond' FROM unnest($2::key_given[])
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= {NOW}
RETURNING tenant, name
"""
LET_GO = """
DELETE FROM lease USING unnest($1::key_given[]) AS given
WHERE lease.tenant = given.tenant AND lease.name = given.key AND lease.holder = $2
"""
ONE_LEASE = f"{LEASE.select} WHERE tenant = $1 AND name = $2"


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
