"""Work on SQLite: what a worker may do with what it holds, and lists of work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from headway.codec import encode
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import Attempt, Key, Version, WorkRow
from headway.store.sqlite.claims import WorkClaims
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import Commands, SqliteDatabase
from headway.store.sqlite.tables import WORK, from_time, to_time
from headway.store.unit import ClaimWork, HastenWork

HELD = """
WHERE tenant = :tenant AND id = :id AND attempt = :attempt AND worker = :worker AND leased_until > :now
RETURNING tenant, id
"""
EXTEND = f"UPDATE work SET leased_until = :now + lease * 1000 {HELD}"
RELEASE = f"""
UPDATE work SET worker = NULL, leased_until = NULL, due = coalesce(:due, due),
    place = CASE WHEN :due > :now THEN NULL ELSE place END {HELD}
"""
HASTEN = """
UPDATE work SET due = :now
WHERE tenant = :tenant AND id = :id AND attempt = :attempt AND worker IS NULL AND due > :now
RETURNING tenant, id
"""
# The place in the queue depends on the version: the next claim computes it again.
SET_VERSION = "UPDATE work SET version = ?3, place = NULL WHERE tenant = ?1 AND id = ?2"
CHECKPOINT = f"UPDATE work SET checkpoint = :data {HELD}"
EXPIRED = f"""
{WORK.select} WHERE worker IS NOT NULL AND leased_until <= ?
AND json_array(chart, version) IN (SELECT value FROM json_each(?))
ORDER BY leased_until, tenant, id LIMIT ?
"""
NEXT = """
SELECT min(at) FROM (
    SELECT min(due) AS at FROM work INDEXED BY work_for_later
    WHERE worker IS NULL AND place IS NULL AND due > :now
    UNION ALL
    SELECT min(leased_until) FROM work INDEXED BY work_leased WHERE worker IS NOT NULL AND leased_until > :now
)
"""
FILTERS = {
    "ids": "id IN (SELECT value FROM json_each(:ids))",
    "queue": "queue = :queue",
    "after": "id > :after",
}


class SqliteWork:
    """The work items of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._claims = claims = WorkClaims()
        self.commands: Commands = {
            ClaimWork: lambda held, given: claims.claim(held, given.claim, database.time()),
            HastenWork: lambda held, given: _hasten(held, given.items, database.time()),
        }

    async def claim(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, the tenants in turn, each item to one worker only."""
        return await self._database.write(lambda held: self._claims.claim(held, claim, self._database.time()))

    async def extend(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend leases of a worker; returns the keys of the items that it still holds."""
        return await self._change(EXTEND, worker, items)

    async def release(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand back items that a worker holds, claimable from `due` on; returns the keys of those it held."""
        return await self._change(RELEASE, worker, items, due=None if due is None else to_time(due))

    async def hasten(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Make items due now that nobody holds and that are due later; returns their keys."""
        return await self._database.write(lambda held: _hasten(held, items, self._database.time()))

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep the progress of an attempt, for it and later ones; False if the lease is lost."""
        return bool(await self._change(CHECKPOINT, worker, [item], data=data))

    async def expired(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Items of instances of these versions whose lease has run out, the longest first."""
        values = (self._database.time(), encode([*versions]).decode(), limit)
        return await self._database.rows(WORK, EXPIRED, values)

    async def next(self) -> datetime | None:
        """When the next item becomes due or the next lease runs out."""
        [(at,)] = await self._database.fetch(NEXT, {"now": self._database.time()})
        return None if at is None else from_time(at)

    async def page(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work, by id."""
        values = {name: getattr(query, name) for name in ("tenant", "queue", "after", "limit")}
        values["ids"] = encode(query.ids).decode()
        return await self._database.rows(WORK, page(query), values)

    async def _change(
        self, sql: str, worker: str, items: Sequence[Attempt], **values: str | int | None
    ) -> list[Key]:
        """Change the items that a worker holds; returns their keys."""
        return await self._database.write(
            lambda held: _changed(held, sql, worker, items, now=self._database.time(), **values)
        )


def page(query: WorkQuery) -> str:
    """The statement for the filters that are set.

    What is named or leased is found by an index; else the tenant's work is gone through.
    """
    terms = ["tenant = :tenant"]
    terms += [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    if query.leased is not None:
        terms.append(f"worker IS {'NOT NULL' if query.leased else 'NULL'}")
    return f"{WORK.select} {_index(query)} WHERE {' AND '.join(terms)} ORDER BY id LIMIT :limit"


def _index(query: WorkQuery) -> str:
    return "INDEXED BY work_leased" if query.leased and query.ids is None else ""


def _hasten(connection: Connection, items: Sequence[Attempt], now: int) -> list[Key]:
    return _changed(connection, HASTEN, "", items, now=now)


def _changed(
    connection: Connection, sql: str, worker: str, items: Sequence[Attempt], **values: str | int | None
) -> list[Key]:
    """The keys of the items that a statement has changed; belongs in a transaction."""
    changed: list[Key] = []
    for tenant, work, attempt in items:
        item = {"tenant": tenant, "id": work, "attempt": attempt, "worker": worker}
        if connection.fetch(sql, item | values):
            changed.append((tenant, work))
    return changed
