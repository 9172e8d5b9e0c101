"""Remote workers: claim work, give signs of life, keep checkpoints, and end it, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from headway.api import shapes
from headway.api.caller import Caller
from headway.api.depends import (
    WHOLE,
    ActorId,
    Change,
    Duration,
    Keyed,
    Ordinal,
    RequestId,
    Strict,
    Who,
    needs,
)
from headway.api.kept import kept_model, response_of
from headway.api.problems import Problem
from headway.api.requests import wrong
from headway.api.streams import Streams
from headway.codec import decode
from headway.engine.once import Request as KeyedRequest
from headway.engine.orders import Receipt
from headway.errors import ResultRefusedError, WorkLostError
from headway.statechart.snapshot import Event
from headway.store.queries import Claim
from headway.worker.attempt import AttemptRef, LeaseStatus, worker_id
from headway.worker.outcomes import Fail
from headway.worker.progress import ProgressReport
from headway.worker.remote import LONGEST_WAIT, ClaimedWork, Remote

T = TypeVar("T")
MOST_AT_ONCE = 100

router = APIRouter(prefix="/v1/work", tags=["work"], dependencies=[needs("work")])

NO_NUL = r"^[^\x00]*$"
WorkId = Annotated[str, Path(description="The work's id.", max_length=500)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
Names = Annotated[list[Name], Field(min_length=1, max_length=100)]


class ClaimBody(Strict):
    """What a worker asks for, and how long it waits for it."""

    worker: ActorId = Field(description="The worker's name. No two processes that run at a time share one.")
    handlers: Names = Field(description="The handlers that the worker has.", examples=[["pay"]])
    queues: Names = ["default"]
    charts: dict[Name, list[Ordinal]] | None = Field(
        None,
        description="The versions of charts that the worker knows, by name: it gets work of their instances"
        " alone. Without them: of all versions that the service's node knows.",
        examples=[{"Expense": [1, 2]}],
    )
    limit: Annotated[int, Field(ge=1, le=MOST_AT_ONCE), WHOLE] = Field(
        1, description="How much there is room for."
    )
    wait: Annotated[float, Field(ge=0, le=int(LONGEST_WAIT))] = Field(
        0, description="For so many seconds the answer waits when there is no work."
    )


class Work(Strict):
    """An attempt at the work of a state, leased to the worker. Times are in milliseconds."""

    id: str = Field(description="The same for all attempts: a key for what must happen once.")
    attempt: int
    instance: str
    chart: str
    version: int
    state: str
    handler: str
    queue: str
    context: dict[str, Any] = Field(description="The instance's context now.")
    checkpoint: Any = Field(description="What an earlier attempt has kept.")
    leased_until: datetime | None = Field(description="Without a sign of life the work is lost then.")
    lease_ms: int
    heartbeat_ms: int = Field(description="How often a sign of life is wanted.")
    timeout_ms: int | None = Field(description="For so long the attempt may take.")
    trace: str | None = Field(description="The W3C `traceparent` of the call that led to it.")


class Works(Strict):
    """What was claimed: nothing when there was nothing."""

    items: list[Work]


class Attempt(Strict):
    """Which attempt a worker speaks of."""

    worker: ActorId
    attempt: Ordinal


class HeartbeatBody(Attempt):
    """A sign of life, and how far the work is."""

    progress: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="From 0 to 1.")
    message: Annotated[str, Field(max_length=10_000, pattern=NO_NUL)] | None = None
    data: dict[str, Any] = Field({}, description="What else fills in the text that the chart `says`.")
    counters: dict[str, Change] = Field({}, description="What to add to counters of the instance.")
    checkpoint: Any = Field(None, description="How far the work is, for an attempt that may follow.")


class Sign(Strict):
    """Whether to go on: only when `held`. Else stop, and tell nothing more."""

    standing: LeaseStatus = Field(
        description="`left`: the instance does not want it any more; `lost`: the lease is gone, or another's."
    )


class CheckpointBody(Attempt):
    """How far the work is."""

    checkpoint: Any


class CompleteBody(Attempt):
    """The work is done."""

    result: Any = Field(None, description="What the chart gets of it.")
    event: Name | None = Field(
        None, description="End it with this event of the chart; it carries the result."
    )


class FailBody(Attempt):
    """The attempt has failed; the chart says by the code whether there is another."""

    code: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,99}$", examples=["CARD_DECLINED"])]
    message: Annotated[str, Field(max_length=10_000, pattern=NO_NUL)] = ""
    details: dict[str, Any] = {}


class ReleaseBody(Attempt):
    """The same attempt is for anyone to claim, now or after a while."""

    after: Duration = Field("0s", description="A duration such as `30s` or `5m`.")


def remote_of(app: Any) -> Remote:
    """What remote workers of the application's node can do; it is made when one comes."""
    state = app.state
    if getattr(state, "remote", None) is None:
        state.remote = Remote(state.node.engine)
    remote: Remote = state.remote
    return remote


@router.post("/claim", operation_id="claim_work", response_model=Works)
async def claim(body: ClaimBody, caller: Who, request: Request, keyed: Keyed) -> Works | Response:
    """Lease work of the caller's tenant. With `wait`, the answer comes as soon as there is some.

    A repeat with the same `Idempotency-Key` gets the same work, and leases no other.
    """
    remote = remote_of(request.app)
    asked = Claim(
        worker=worker_id(caller.actor.id, body.worker),
        queues=tuple(body.queues),
        limit=body.limit,
        versions=remote.versions(body.charts),
        handlers=tuple(body.handlers),
        tenants=(caller.tenant,),
    )
    # A claim that waits holds its connection as a stream does.
    streams: Streams = request.app.state.streams
    with streams.take(caller) if body.wait else nullcontext():
        if keyed is not None:
            return await _claim_once(asked, body.wait, keyed, request)
        found = await _while_there(remote.claim(asked, body.wait), request)
    return _works(found or ())


async def _claim_once(asked: Claim, wait: float, keyed: KeyedRequest, request: Request) -> Response:
    """Claim for a request with a key; what is leased for a caller who is gone waits for the repeat."""
    remote = remote_of(request.app)
    claiming = remote.claim_once(asked, wait, keyed, lambda items: kept_model(_works(items)))
    kept = await _while_there(claiming, request)
    if kept is None:
        raise Problem("unavailable", "the claim was cut short", headers={"Retry-After": "1"})
    return response_of(kept)


def _works(items: Sequence[ClaimedWork]) -> Works:
    return Works(items=[_work(item) for item in items])


@router.post("/{work}/heartbeat", operation_id="heartbeat")
async def heartbeat(
    work: WorkId,
    body: HeartbeatBody,
    caller: Who,
    request: Request,
    *,
    request_id: RequestId,
) -> Sign:
    """Keep the lease, and tell how far the work is. Without one in time the work goes to another worker."""
    remote, ref = remote_of(request.app), _attempt(work, body, caller)
    report = _report(body)
    with _problems():
        status = await remote.heartbeat(ref, report, request_id)
        if status == "held" and body.checkpoint is not None:
            await remote.checkpoint(ref, body.checkpoint)
    return Sign(standing=status)


@router.post("/{work}/checkpoint", operation_id="checkpoint_work")
async def checkpoint(work: WorkId, body: CheckpointBody, caller: Who, request: Request) -> Sign:
    """Keep how far the work is, for an attempt that may follow."""
    with _problems():
        await remote_of(request.app).checkpoint(_attempt(work, body, caller), body.checkpoint)
    return Sign(standing="held")


@router.post("/{work}/complete", operation_id="complete_work")
async def complete(work: WorkId, body: CompleteBody, caller: Who, request: Request) -> shapes.Standing:
    """End the work with a result, or with an event. What comes again gets the first answer."""
    outcome = body.result if body.event is None else Event(body.event, body.result)
    with _problems():
        return _standing(await remote_of(request.app).end(_attempt(work, body, caller), outcome))


@router.post("/{work}/fail", operation_id="fail_work")
async def fail(work: WorkId, body: FailBody, caller: Who, request: Request) -> shapes.Standing:
    """End the attempt with an error. What comes again gets the first answer."""
    failed = Fail(body.code, body.message)
    failed.details = body.details
    with _problems():
        return _standing(await remote_of(request.app).end(_attempt(work, body, caller), failed))


@router.post("/{work}/release", operation_id="release_work")
async def release(work: WorkId, body: ReleaseBody, caller: Who, request: Request) -> Sign:
    """Hand the work back without an outcome: for a worker that ends, or cannot do it now."""
    with _problems():
        await remote_of(request.app).release(_attempt(work, body, caller), body.after)
    return Sign(standing="left")


def _attempt(work: str, body: Attempt, caller: Caller) -> AttemptRef:
    worker = worker_id(caller.actor.id, body.worker)
    return AttemptRef(tenant=caller.tenant, worker=worker, id=work, attempt=body.attempt)


def _report(body: HeartbeatBody) -> ProgressReport | None:
    """The progress in a heartbeat; raises Problem 422 if there is a message, data or counters without it."""
    if body.progress is None:
        if body.counters or body.data or body.message is not None:
            raise wrong("body.progress", "it comes with a message, data or counters")
        return None
    data = body.data if body.message is None else {**body.data, "message": body.message}
    return ProgressReport(fraction=body.progress, data=data, counters=body.counters)


def _work(item: ClaimedWork) -> Work:
    row, snapshot = item.row, item.snapshot
    return Work(
        id=row.id,
        attempt=row.attempt,
        instance=row.instance,
        chart=snapshot.chart,
        version=snapshot.version,
        state=row.state,
        handler=row.handler,
        queue=row.queue,
        context=snapshot.context,
        checkpoint=None if row.checkpoint is None else decode(object, row.checkpoint),
        leased_until=row.leased_until,
        lease_ms=row.lease,
        heartbeat_ms=row.heartbeat,
        timeout_ms=row.timeout,
        trace=row.trace,
    )


def _standing(receipt: Receipt) -> shapes.Standing:
    return shapes.Standing(
        id=receipt.instance,
        chart=receipt.chart,
        version=receipt.version,
        seq=receipt.seq,
        status=receipt.status,
        states=list(receipt.states),
        ended=receipt.ended,
    )


@contextmanager
def _problems() -> Iterator[None]:
    """Tell what the engine says to a worker as problems."""
    try:
        yield
    except WorkLostError as error:
        raise Problem("lease_lost", str(error), standing=error.status) from error
    except ResultRefusedError as error:
        raise Problem("result_refused", str(error), error=error.code) from error
    except ValueError as error:
        raise wrong("body.after", str(error)) from error


async def _while_there(call: Coroutine[Any, Any, T], request: Request) -> T | None:
    """What a call answers; None when its caller goes away first, or the service is about to stop."""
    calling = asyncio.create_task(call)
    others = [asyncio.create_task(_gone(request)), asyncio.create_task(request.app.state.stopping.wait())]
    try:
        await asyncio.wait({calling, *others}, return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
    finally:
        for task in (calling, *others):
            task.cancel()
    with suppress(asyncio.CancelledError):
        return await calling
    return None


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
