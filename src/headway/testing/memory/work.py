"""Work in memory: handed out by urgency and in turn, within its limits, and held by its lease."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from headway.codec import replace
from headway.store.port import Attempt, Claim, Version, WorkQuery
from headway.store.rows import Key, WorkRow
from headway.testing.memory.tables import Tables

MICROSECOND = timedelta(microseconds=1)


def claim_work(tables: Tables, claim: Claim, now: datetime) -> list[WorkRow]:
    """Lease what is due: the most urgent first, the tenants in turn, each item to one worker only."""
    by_priority: dict[int, dict[str, list[WorkRow]]] = {}
    for row in tables.work.values():
        if row.worker is None and row.due <= now and _fits(claim, row):
            by_priority.setdefault(row.priority, {}).setdefault(row.tenant, []).append(row)
    taken: list[WorkRow] = []
    for priority in sorted(by_priority, reverse=True):
        for row in _in_turn(tables, by_priority[priority], claim.worker, now):
            if len(taken) >= claim.limit:
                return taken
            until = now + timedelta(milliseconds=row.lease)
            leased = replace(row, worker=claim.worker, leased_until=until, started_at=now)
            tables.work[row.tenant, row.id] = leased
            tables.served = row.tenant
            _use_rate(tables, row, now)
            taken.append(leased)
    return taken


def _fits(claim: Claim, row: WorkRow) -> bool:
    return (
        row.queue in claim.queues
        and (row.chart, row.version) in claim.versions
        and (not claim.handlers or row.handler in claim.handlers)
        and (not claim.tenants or row.tenant in claim.tenants)
    )


def _in_turn(
    tables: Tables, by_tenant: dict[str, list[WorkRow]], worker: str, now: datetime
) -> Iterator[WorkRow]:
    """What may run, a tenant after the other from the one on that was served last."""
    tenants = sorted(by_tenant, key=lambda tenant: (tenant <= tables.served, tenant))
    lines = deque(deque(sorted(by_tenant[tenant], key=_order)) for tenant in tenants)
    while lines:
        line = lines.popleft()
        while line:
            row = line.popleft()
            if _has_room(tables, row, worker, now):
                yield row
                lines.append(line)
                break


def _order(row: WorkRow) -> tuple[datetime, str]:
    return row.due, row.id


def _has_room(tables: Tables, row: WorkRow, worker: str, now: datetime) -> bool:
    if row.affinity is not None and tables.held_by_another((row.tenant, row.affinity), worker, now):
        return False
    if row.concurrency is not None and _running_with(tables, row) >= row.at_once:
        return False
    return row.rate is None or _rate_left(tables, row, now) > 0


def _running_with(tables: Tables, row: WorkRow) -> int:
    key = (row.tenant, row.concurrency)
    return sum(
        each.worker is not None and (each.tenant, each.concurrency) == key for each in tables.work.values()
    )


def _rate_left(tables: Tables, row: WorkRow, now: datetime) -> int:
    """What a rate has left, by the generic cell rate algorithm."""
    if row.rate_most < 1:
        return 0
    used = max(timedelta(), tables.pace.get((row.tenant, row.rate or ""), now) - now)
    return row.rate_most - -(-used // _interval(row))


def _use_rate(tables: Tables, row: WorkRow, now: datetime) -> None:
    if row.rate is not None:
        key = (row.tenant, row.rate)
        tables.pace[key] = max(now, tables.pace.get(key, now)) + _interval(row)


def _interval(row: WorkRow) -> timedelta:
    return max(1, -(-row.rate_per * 1_000 // row.rate_most)) * MICROSECOND


def _held(tables: Tables, worker: str, item: Attempt, now: datetime) -> WorkRow | None:
    """The row of an attempt that a worker holds."""
    row = tables.work.get(item[:2])
    if row is None or row.leased_until is None or row.leased_until <= now:
        return None
    return row if (row.worker, row.attempt) == (worker, item[2]) else None


def extend(tables: Tables, worker: str, items: Sequence[Attempt], now: datetime) -> list[Key]:
    """Extend the leases that a worker still holds."""
    kept: list[Key] = []
    for item in items:
        if row := _held(tables, worker, item, now):
            tables.work[item[:2]] = replace(row, leased_until=now + timedelta(milliseconds=row.lease))
            kept.append(item[:2])
    return kept


def release(
    tables: Tables, worker: str, items: Sequence[Attempt], *, now: datetime, due: datetime | None
) -> list[Key]:
    """Hand back what a worker holds."""
    released: list[Key] = []
    for item in items:
        if row := _held(tables, worker, item, now):
            tables.work[item[:2]] = replace(row, worker=None, leased_until=None, due=due or row.due)
            released.append(item[:2])
    return released


def hasten(tables: Tables, items: Sequence[Attempt], now: datetime) -> list[Key]:
    """Let work be due now that waits for its time."""
    hastened: list[Key] = []
    for item in items:
        row = tables.work.get(item[:2])
        if row is not None and row.worker is None and row.attempt == item[2] and row.due > now:
            tables.work[item[:2]] = replace(row, due=now)
            hastened.append(item[:2])
    return hastened


def keep_checkpoint(tables: Tables, worker: str, item: Attempt, *, now: datetime, data: str) -> bool:
    """Keep how far an attempt has come that a worker holds."""
    row = _held(tables, worker, item, now)
    if row is not None:
        tables.work[item[:2]] = replace(row, checkpoint=data)
    return row is not None


def expired(tables: Tables, now: datetime, limit: int, versions: Collection[Version]) -> list[WorkRow]:
    """Work of instances of these versions whose lease has run out, the longest first."""
    found = [
        (row.leased_until, row.tenant, row.id, row)
        for row in tables.work.values()
        if row.leased_until is not None and row.leased_until <= now and (row.chart, row.version) in versions
    ]
    return [row for *_, row in sorted(found, key=lambda each: each[:3])[:limit]]


def next_at(tables: Tables, now: datetime) -> datetime | None:
    """When work that is not due yet will be, or the next lease runs out."""
    times = (row.due if row.worker is None else row.leased_until for row in tables.work.values())
    return min((at for at in times if at is not None and at > now), default=None)


def list_work(tables: Tables, query: WorkQuery) -> list[WorkRow]:
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
