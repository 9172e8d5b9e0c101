"""Work in memory: what a worker may do with what it holds, and lists of work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from headway.codec import replace
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import Attempt, Key, Version, WorkRow
from headway.store.unit import Changes, ClaimWork, HastenWork
from headway.testing.memory.claims import claim_due
from headway.testing.memory.tables import Commands, JobRunner, Tables


class MemoryWork:
    """The work items of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call
        self.commands: Commands = {
            ClaimWork: lambda tables, given, now: claim_due(tables, given.claim, now),
            HastenWork: lambda tables, given, now: _hasten(tables, given.items, now),
        }

    async def claim(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, the tenants in turn, each item to one worker only."""
        return await self._call(lambda tables, now: claim_due(tables, claim, now), writes=True)

    async def extend(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend leases of a worker; returns the keys of the items that it still holds."""
        return await self._call(lambda tables, now: _extend(tables, worker, items, now), writes=True)

    async def release(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand back items that a worker holds, claimable from `due` on; returns the keys of those it held."""
        return await self._call(
            lambda tables, now: _release(tables, worker, items, now=now, due=due), writes=True
        )

    async def hasten(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Make items due now that nobody holds and that are due later; returns their keys."""
        return await self._call(lambda tables, now: _hasten(tables, items, now), writes=True)

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep the progress of an attempt, for it and later ones; False if the lease is lost."""
        return await self._call(
            lambda tables, now: _checkpoint(tables, worker, item, now=now, data=data), writes=True
        )

    async def expired(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Items of instances of these versions whose lease has run out, the longest first."""
        return await self._call(lambda tables, now: _expired(tables, now, limit, versions))

    async def next(self) -> datetime | None:
        """When the next item becomes due or the next lease runs out."""
        return await self._call(_next)

    async def page(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work, by id."""
        return await self._call(lambda tables, _: _page(tables, query))


def write_work(tables: Tables, changes: Changes) -> None:
    """What is set and taken back in the same unit is gone; a next attempt keeps the checkpoint."""
    for row in changes.work:
        key = (row.tenant, row.id)
        before = tables.work.get(key)
        keeps = row.checkpoint is None and before is not None and before.checkpoint is not None
        tables.work[key] = replace(row, checkpoint=before.checkpoint) if keeps and before else row
    for change in changes.work_versions:
        key = (change.tenant, change.id)
        if key in tables.work:
            tables.work[key] = replace(tables.work[key], version=change.version)
    for key in changes.work_gone:
        tables.work.pop(key, None)


def _held(tables: Tables, worker: str, item: Attempt, now: datetime) -> WorkRow | None:
    """The row of an attempt that a worker holds."""
    row = tables.work.get(item[:2])
    if row is None or row.leased_until is None or row.leased_until <= now:
        return None
    return row if (row.worker, row.attempt) == (worker, item[2]) else None


def _extend(tables: Tables, worker: str, items: Sequence[Attempt], now: datetime) -> list[Key]:
    """Extend the leases that a worker still holds."""
    kept: list[Key] = []
    for item in items:
        if row := _held(tables, worker, item, now):
            tables.work[item[:2]] = replace(row, leased_until=now + timedelta(milliseconds=row.lease))
            kept.append(item[:2])
    return kept


def _release(
    tables: Tables, worker: str, items: Sequence[Attempt], *, now: datetime, due: datetime | None
) -> list[Key]:
    """Hand back what a worker holds."""
    released: list[Key] = []
    for item in items:
        if row := _held(tables, worker, item, now):
            tables.work[item[:2]] = replace(row, worker=None, leased_until=None, due=due or row.due)
            released.append(item[:2])
    return released


def _hasten(tables: Tables, items: Sequence[Attempt], now: datetime) -> list[Key]:
    """Let work be due now that waits for its time."""
    hastened: list[Key] = []
    for item in items:
        row = tables.work.get(item[:2])
        if row is not None and row.worker is None and row.attempt == item[2] and row.due > now:
            tables.work[item[:2]] = replace(row, due=now)
            hastened.append(item[:2])
    return hastened


def _checkpoint(tables: Tables, worker: str, item: Attempt, *, now: datetime, data: str) -> bool:
    """Keep how far an attempt has come that a worker holds."""
    row = _held(tables, worker, item, now)
    if row is not None:
        tables.work[item[:2]] = replace(row, checkpoint=data)
    return row is not None


def _expired(tables: Tables, now: datetime, limit: int, versions: Collection[Version]) -> list[WorkRow]:
    """Work of instances of these versions whose lease has run out, the longest first."""
    found = [
        (row.leased_until, row.tenant, row.id, row)
        for row in tables.work.values()
        if row.leased_until is not None and row.leased_until <= now and (row.chart, row.version) in versions
    ]
    return [row for *_, row in sorted(found, key=lambda each: each[:3])[:limit]]


def _next(tables: Tables, now: datetime) -> datetime | None:
    """When work that is not due yet will be, or the next lease runs out."""
    times = (row.due if row.worker is None else row.leased_until for row in tables.work.values())
    return min((at for at in times if at is not None and at > now), default=None)


def _page(tables: Tables, query: WorkQuery) -> list[WorkRow]:
    """A page of a tenant's work, by id."""
    found = [row for row in tables.work.values() if _is_asked_for(query, row)]
    return sorted(found, key=lambda row: row.id)[: query.limit]


def _is_asked_for(query: WorkQuery, row: WorkRow) -> bool:
    return (
        row.tenant == query.tenant
        and (query.ids is None or row.id in query.ids)
        and query.queue in {None, row.queue}
        and query.leased in {None, row.worker is not None}
        and (query.after is None or row.id > query.after)
    )
