"""How workers claim work in memory: by priority, the tenants in turn, within the limits of each item."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta

from headway.codec import replace
from headway.store.queries import Claim
from headway.store.rows import WorkRow
from headway.testing.memory.tables import Tables

MICROSECOND = timedelta(microseconds=1)


def claim_due(tables: Tables, claim: Claim, now: datetime) -> list[WorkRow]:
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
