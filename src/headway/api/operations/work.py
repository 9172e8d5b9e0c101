"""For operators: open work, timers, and the workers there are."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query

from headway.api.bodies import NO_NUL, ResponseBody
from headway.api.call import HttpCall
from headway.api.cursors import cursor_place, cursor_text, id_of, paged
from headway.api.parameters import PER_PAGE, Cursor, Here, Limit, Who, Yes, needs
from headway.api.problems import Problem
from headway.api.route import Router
from headway.api.workers import remote_of
from headway.codec import Meta
from headway.engine.bulk import hasten
from headway.engine.engine import LONGEST_NAME
from headway.errors import UnknownInstanceError
from headway.node import Node
from headway.statechart.snapshot import Snapshot
from headway.store.queries import TimerQuery, WorkQuery
from headway.store.rows import TimerRow, WorkRow

WORK, TIMERS = "work", "timers"
MOST_HELD = 10_000
"""So much held work is looked at for the list of workers."""

router = Router(prefix="/v1/operations", tags=["operations"], dependencies=[needs("operate")])

WorkId = Annotated[str, Path(description="The work's id.", max_length=500)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
DryRun = Annotated[
    bool, Meta(description="Only report what would happen. Changes are made only with `false`.")
]
OfInstance = Annotated[
    str | None, Query(description="Only those of this instance.", max_length=LONGEST_NAME, pattern=NO_NUL)
]
OfQueue = Annotated[
    str | None, Query(description="Only those of this queue.", max_length=200, pattern=NO_NUL)
]
SAME = (
    *("id", "instance", "state", "handler", "queue", "priority", "attempt", "due", "worker"),
    *("leased_until", "started_at", "affinity", "concurrency", "at_once", "rate", "rate_most"),
)


class WorkItem(ResponseBody):
    """Open work of a state: its next attempt, or the one that a worker holds. Times are in milliseconds."""

    id: str
    instance: str
    state: str
    handler: str
    queue: str
    priority: int
    attempt: int
    due: Annotated[datetime, Meta(description="From then on a worker may claim it.")]
    worker: Annotated[str | None, Meta(description="Who holds it; null while it waits.")]
    leased_until: Annotated[datetime | None, Meta(description="Without a sign of life it is lost then.")]
    started_at: Annotated[datetime | None, Meta(description="When this attempt was claimed last.")]
    lease_ms: int
    heartbeat_ms: int
    timeout_ms: int | None
    affinity: Annotated[str | None, Meta(description="Only the worker with this resource may claim it.")]
    concurrency: Annotated[str | None, Meta(description="At most `at_once` of this key are held at a time.")]
    at_once: int
    rate: Annotated[str | None, Meta(description="Of this key, `rate_most` may start within `rate_per_ms`.")]
    rate_most: int
    rate_per_ms: int
    has_checkpoint: bool


class WorkItems(ResponseBody):
    """A page of open work, by id."""

    items: list[WorkItem]
    next: str | None


class TimerShown(ResponseBody):
    """An event that comes by itself."""

    id: str
    instance: str
    event: str
    due: datetime


class TimersPage(ResponseBody):
    """A page of timers, the next one first."""

    items: list[TimerShown]
    next: str | None


class WorkerSummary(ResponseBody):
    """A worker: of this process, one that calls it, or one elsewhere that holds work of the tenant."""

    name: str
    kind: Literal["node", "remote", "elsewhere"]
    queues: list[str]
    handlers: list[str]
    waiting: Annotated[
        bool, Meta(description="It waits for work at this moment; only known of a remote one.")
    ]
    silent_seconds: Annotated[
        float | None, Meta(description="Seconds since a remote worker last called this process.")
    ]
    held: Annotated[int, Meta(description="How much work of the caller's tenant it holds.")]
    leased_until: Annotated[datetime | None, Meta(description="When the first of its leases runs out.")]


class WorkerSummaries(ResponseBody):
    """The workers that this process knows, and those that hold work of the tenant."""

    items: list[WorkerSummary]
    complete: Annotated[bool, Meta(description="False when more work is held than was looked at.")]
    next: None = None


@router.get("/work", operation_id="list_work")
async def list_work(
    node: Here,
    caller: Who,
    *,
    queue: OfQueue = None,
    leased: Annotated[Yes | None, Query(description="Only what a worker holds, or what waits.")] = None,
    instance: OfInstance = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> WorkItems:
    """The open work of the caller's tenant: what waits for a worker or for its time, and who holds what."""
    after = None if cursor is None else id_of(cursor_place(WORK, str, cursor))
    ids = None
    if instance is not None:
        ids = tuple(work.id for work in (await _snapshot(node, caller.tenant, instance)).work.values())

    async def read(count: int) -> Any:
        return await node.engine.store.work.page(
            WorkQuery(caller.tenant, ids, queue, leased, after=after, limit=count)
        )

    rows, following = await paged(read, limit, lambda row: cursor_text(WORK, row.id))
    return WorkItems(items=[_work(row) for row in rows], next=following)


@router.get("/work/{work}", operation_id="get_work")
async def get_work(work: WorkId, node: Here, caller: Who) -> WorkItem:
    """One item of open work."""
    return _work(await _row(node, caller.tenant, work))


@router.post("/work/{work}/retry", operation_id="retry_work")
async def retry_work(work: WorkId, node: Here, caller: Who, call: HttpCall) -> WorkItem:
    """Let work that waits for its next attempt be due now. What is due already stays as it is.

    The chart decides by itself how often work is tried, and what follows: this only ends the waiting.
    """
    row = await _row(node, caller.tenant, work)
    once = None if call.keyed is None else call.keyed.part("retry")
    if await hasten(node.engine, [(row.tenant, row.id, row.attempt)], once):
        wake_workers(call)
        # A worker may have claimed or even finished it by now: that is what was asked for.
        return _work(next(iter(await _rows(node, caller.tenant, work)), row))
    row = await _row(node, caller.tenant, work)
    if row.worker is not None:
        raise Problem("not_possible", f"{work} cannot be retried: {row.worker} runs attempt {row.attempt}")
    return _work(row)


@router.get("/timers", operation_id="list_timers")
async def list_timers(
    node: Here, caller: Who, *, instance: OfInstance = None, cursor: Cursor = None, limit: Limit = PER_PAGE
) -> TimersPage:
    """The timers of the caller's tenant, the next one first."""
    after = None if cursor is None else _time_of(cursor_place(TIMERS, tuple[datetime, str], cursor))
    ids = None
    if instance is not None:
        ids = tuple((await _snapshot(node, caller.tenant, instance)).timers)

    async def read(count: int) -> Any:
        return await node.engine.store.timers.page(TimerQuery(caller.tenant, ids, after=after, limit=count))

    rows, following = await paged(read, limit, lambda row: cursor_text(TIMERS, (row.due, row.id)))
    return TimersPage(items=[_timer(row) for row in rows], next=following)


@router.get("/workers", operation_id="list_workers")
async def list_workers(node: Here, caller: Who, call: HttpCall) -> WorkerSummaries:
    """Who works: in this process, from outside through it, and elsewhere for the caller's tenant."""
    held = await node.engine.store.work.page(WorkQuery(caller.tenant, leased=True, limit=MOST_HELD))
    leases: dict[str, list[WorkRow]] = defaultdict(list)
    for row in held:
        leases[row.worker or ""].append(row)
    known = [*_own(node, caller.tenant), *_remote(call, caller.tenant)]
    elsewhere = sorted(leases.keys() - {each["name"] for each in known})
    known += [{"name": name, "kind": "elsewhere"} for name in elsewhere]
    return WorkerSummaries(
        items=[_worker(each, leases[each["name"]]) for each in known], complete=len(held) < MOST_HELD
    )


def wake_workers(call: HttpCall) -> None:
    """Have those of this process look for work now."""
    if call.node.worker is not None:
        call.node.worker.wake()
    remote_of(call.app).waiting.wake_all()


async def _rows(node: Node, tenant: str, work: str) -> Sequence[WorkRow]:
    return await node.engine.store.work.page(WorkQuery(tenant, (work,)))


async def _row(node: Node, tenant: str, work: str) -> WorkRow:
    found = await _rows(node, tenant, work)
    if not found:
        raise Problem("unknown_work", f"there is no open work {work}")
    return found[0]


async def _snapshot(node: Node, tenant: str, instance: str) -> Snapshot:
    """Where an instance stands; an unknown one has no work and no timers."""
    try:
        return await node.engine.get(tenant, instance)
    except UnknownInstanceError:
        return Snapshot("", 0, instance)


def _time_of(place: tuple[datetime, str]) -> tuple[datetime, str]:
    if place[0].tzinfo is None:
        raise Problem("cursor", "this is no cursor of this route")
    return place[0], id_of(place[1])


def _work(row: WorkRow) -> WorkItem:
    return WorkItem(
        **{name: getattr(row, name) for name in SAME},
        lease_ms=row.lease,
        heartbeat_ms=row.heartbeat,
        timeout_ms=row.timeout,
        rate_per_ms=row.rate_per,
        has_checkpoint=row.checkpoint is not None,
    )


def _timer(row: TimerRow) -> TimerShown:
    return TimerShown(id=row.id, instance=row.instance, event=row.event, due=row.due)


def _own(node: Node, tenant: str) -> list[dict[str, Any]]:
    worker = node.worker
    if worker is None or (worker.tenants and tenant not in worker.tenants):
        return []
    handlers = sorted(worker.handlers.names)
    return [{"name": worker.id, "kind": "node", "queues": [*worker.queues], "handlers": handlers}]


def _remote(call: HttpCall, tenant: str) -> list[dict[str, Any]]:
    now = time.monotonic()
    return [
        {
            "name": each.name,
            "kind": "remote",
            "queues": [*each.queues],
            "handlers": [*each.handlers],
            "waiting": each.waiting,
            "silent_seconds": round(now - each.seen_at, 3),
        }
        for each in remote_of(call.app).workers.of(tenant)
    ]


def _worker(known: dict[str, Any], held: Sequence[WorkRow]) -> WorkerSummary:
    unknown = {"queues": [], "handlers": [], "waiting": False, "silent_seconds": None}
    until = min((row.leased_until for row in held if row.leased_until is not None), default=None)
    return WorkerSummary(**{**unknown, **known}, held=len(held), leased_until=until)
