"""How a worker gets its work: the most urgent first, and the tenants in turn."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from headway.codec import encode, replace
from headway.store.port import Claim
from headway.store.rows import Key, WorkRow
from headway.store.sqlite_connection import Connection
from headway.store.sqlite_tables import WORK, to_time

FIRST_CHARACTER = "\0"

# Each statement steps through the index of waiting work and touches what it answers with, however much waits.
FITS = "(:handlers IS NULL OR handler IN (SELECT value FROM json_each(:handlers)))"
PRIORITIES = """
WITH RECURSIVE step (priority) AS (
    SELECT max(priority) FROM work WHERE worker IS NULL AND queue = :queue
    UNION ALL
    SELECT (
        SELECT max(priority) FROM work WHERE worker IS NULL AND queue = :queue AND priority < step.priority
    )
    FROM step WHERE priority IS NOT NULL
)
SELECT priority FROM step WHERE priority IS NOT NULL
"""
TENANTS = f"""
WITH RECURSIVE step (tenant) AS (
    SELECT min(tenant) FROM work
    WHERE worker IS NULL AND queue = :queue AND priority = :priority AND tenant >= :start
    UNION ALL
    SELECT (
        SELECT min(tenant) FROM work
        WHERE worker IS NULL AND queue = :queue AND priority = :priority AND tenant > step.tenant
    )
    FROM step WHERE tenant IS NOT NULL
)
SELECT tenant FROM step
WHERE tenant IS NOT NULL AND EXISTS (
    SELECT 1 FROM work
    WHERE worker IS NULL AND queue = :queue AND priority = :priority AND tenant = step.tenant AND due <= :now
    AND {FITS}
)
LIMIT :limit
"""
ITEMS = f"""
{WORK.select}
WHERE worker IS NULL AND queue = :queue AND priority = :priority AND tenant = :tenant AND due <= :now
AND {FITS}
ORDER BY due, id LIMIT :limit
"""
LEASE = """
UPDATE work SET worker = ?, leased_until = ? + lease * 1000, started_at = ? WHERE tenant = ? AND id = ?
"""
EXTEND = """
UPDATE work SET leased_until = :now + lease * 1000
WHERE tenant = :tenant AND id = :id AND attempt = :attempt AND worker = :worker AND leased_until > :now
RETURNING tenant, id
"""


class Desk:
    """Hands work out, and remembers whose turn it was so that no tenant is passed over."""

    def __init__(self) -> None:
        self._served = ""

    def claim(self, connection: Connection, claim: Claim, now: datetime) -> list[WorkRow]:
        """Lease what is due; belongs in a transaction."""
        waiting = Waiting(connection, claim, now)
        chosen: list[WorkRow] = []
        for priority in waiting.priorities():
            if len(chosen) < claim.limit:
                chosen += self._share_out(waiting, priority, claim.limit - len(chosen))
        at = to_time(now)
        connection.write(LEASE, [(claim.worker, at, at, row.tenant, row.id) for row in chosen])
        return [_leased(row, claim.worker, now) for row in chosen]

    def _share_out(self, waiting: Waiting, priority: int, room: int) -> list[WorkRow]:
        """Serve the tenants in turn: nobody gets a second item while another waits for a first."""
        chosen: list[WorkRow] = []
        tenants = waiting.tenants(priority, self._served, room)
        helped = dict.fromkeys(tenants, 0)
        while tenants and len(chosen) < room:
            left = room - len(chosen)
            share = max(1, left // len(tenants))
            served, tenants = tenants[:left], tenants[left:]
            for tenant in served:
                helping = waiting.items(priority, tenant, helped[tenant] + share)[helped[tenant] :]
                helped[tenant] += share
                chosen += helping
                if helping:
                    self._served = tenant
                if len(helping) == share:
                    tenants.append(tenant)
        return chosen


class Waiting:
    """The work that waits and that a worker could take."""

    def __init__(self, connection: Connection, claim: Claim, now: datetime) -> None:
        self._connection, self._claim = connection, claim
        handlers = encode(claim.handlers).decode() if claim.handlers else None
        self._fitting = {"now": to_time(now), "handlers": handlers}

    def priorities(self) -> list[int]:
        """The priorities there are, the highest first."""
        found = (self._connection.fetch(PRIORITIES, {"queue": queue}) for queue in self._claim.queues)
        return sorted({priority for rows in found for (priority,) in rows}, reverse=True)

    def tenants(self, priority: int, served: str, limit: int) -> list[str]:
        """The tenants whose work is due, from the one after that which was served last, and round."""
        found = {*self._claim.tenants} or {
            tenant
            for queue in self._claim.queues
            for start in (served + FIRST_CHARACTER, "")
            for tenant in self._tenants_from(start, queue, priority, limit)
        }
        return sorted(found, key=lambda tenant: (tenant <= served, tenant))

    def items(self, priority: int, tenant: str, limit: int) -> list[WorkRow]:
        """The first of a tenant's items, the longest due first."""
        place = {"priority": priority, "tenant": tenant, "limit": limit, **self._fitting}
        found = [
            row
            for queue in self._claim.queues
            for row in self._connection.fetch(ITEMS, {"queue": queue, **place})
        ]
        return sorted(WORK.rows(found), key=lambda row: (row.due, row.id))[:limit]

    def _tenants_from(self, start: str, queue: str, priority: int, limit: int) -> list[str]:
        place = {"start": start, "queue": queue, "priority": priority, "limit": limit, **self._fitting}
        return [tenant for (tenant,) in self._connection.fetch(TENANTS, place)]


def extend(
    connection: Connection, worker: str, items: Sequence[tuple[str, str, int]], now: datetime
) -> list[Key]:
    """Extend the leases that a worker still holds; belongs in a transaction."""
    held = {"worker": worker, "now": to_time(now)}
    return [
        (tenant, work)
        for tenant, work, attempt in items
        if connection.fetch(EXTEND, {"tenant": tenant, "id": work, "attempt": attempt, **held})
    ]


def _leased(row: WorkRow, worker: str, now: datetime) -> WorkRow:
    until = now + timedelta(milliseconds=row.lease)
    return replace(row, worker=worker, leased_until=until, started_at=now)
