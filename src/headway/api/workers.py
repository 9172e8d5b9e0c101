"""Remote workers: claim work, give signs of life, keep checkpoints, and end it, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Path, Request
from starlette.responses import Response

from headway.api.access import Caller
from headway.api.bodies import NO_NUL, ActorId, Change, Duration, Ordinal, RequestBody, ResponseBody, wrong
from headway.api.call import HttpCall
from headway.api.idempotency import stored_json, stored_reply
from headway.api.instances import Standing, standing_reply
from headway.api.limits import Streams
from headway.api.parameters import Keyed, Who, needs
from headway.api.problems import Problem
from headway.api.route import Router
from headway.codec import Meta, decode
from headway.engine.requests import Request as KeyedRequest
from headway.errors import ResultRefusedError, WorkLostError
from headway.statechart.snapshot import Event
from headway.store.queries import Claim
from headway.worker.attempt import AttemptRef, Fail, LeaseStatus, worker_id
from headway.worker.progress import ProgressReport
from headway.worker.remote import LONGEST_WAIT, ClaimedWork, Remote

T = TypeVar("T")
MOST_AT_ONCE = 100

router = Router(prefix="/v1/work", tags=["work"], dependencies=[needs("work")])

WorkId = Annotated[str, Path(description="The work's id.", max_length=500)]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
Names = Annotated[list[Name], Meta(min_length=1, max_length=100)]


class WorkClaimBody(RequestBody):
    """What a worker asks for, and how long it waits for it."""

    worker: Annotated[
        ActorId, Meta(description="The worker's name. No two processes that run at a time share one.")
    ]
    handlers: Annotated[Names, Meta(description="The handlers that the worker has.", examples=[["pay"]])]
    queues: tuple[Name, ...] = ("default",)
    charts: Annotated[
        dict[Name, list[Ordinal]] | None,
        Meta(
            description="The versions of charts that the worker knows, by name: it gets work of "
            "their instances alone. Without them: of all versions that the service's "
            "node knows.",
            examples=[{"Expense": [1, 2]}],
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE), Meta(description="The most work items to claim.")] = 1
    wait: Annotated[
        float,
        Meta(ge=0, le=int(LONGEST_WAIT)),
        Meta(description="How many seconds to wait for work when there is none."),
    ] = 0


class WorkShown(ResponseBody):
    """An attempt at the work of a state, leased to the worker. Times are in milliseconds."""

    id: Annotated[str, Meta(description="The same for all attempts: a key for what must happen once.")]
    attempt: int
    instance: str
    chart: str
    version: int
    state: str
    handler: str
    queue: str
    context: Annotated[dict[str, Any], Meta(description="The instance's context now.")]
    checkpoint: Annotated[Any, Meta(description="What an earlier attempt has kept.")]
    leased_until: Annotated[
        datetime | None, Meta(description="When the lease expires unless a heartbeat extends it.")
    ]
    lease_ms: int
    heartbeat_ms: Annotated[int, Meta(description="The interval of heartbeats.")]
    timeout_ms: Annotated[int | None, Meta(description="The longest time that the attempt may take.")]
    trace: Annotated[str | None, Meta(description="The W3C `traceparent` of the call that led to it.")]


class WorkClaim(ResponseBody):
    """The work that was claimed; empty if there was none."""

    items: list[WorkShown]


class Attempt(RequestBody):
    """The attempt that a worker reports on."""

    worker: ActorId
    attempt: Ordinal


class HeartbeatBody(Attempt):
    """A sign of life, and how far the work is."""

    progress: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="From 0 to 1.")] = None
    message: Annotated[str, Meta(max_length=10_000, pattern=NO_NUL)] | None = None
    data: Annotated[
        dict[str, Any], Meta(description="What else fills in the text that the chart `says`.")
    ] = {}
    counters: Annotated[dict[str, Change], Meta(description="What to add to counters of the instance.")] = {}
    checkpoint: Annotated[Any, Meta(description="How far the work is, for an attempt that may follow.")] = (
        None
    )


class Sign(ResponseBody):
    """Whether to continue: only when `held`. Otherwise stop, and report nothing more."""

    standing: Annotated[
        LeaseStatus,
        Meta(
            description="`left`: the instance does not want it any more; `lost`: the lease is gone, "
            "or another's."
        ),
    ]


class CheckpointBody(Attempt):
    """How far the work is."""

    checkpoint: Any


class CompleteBody(Attempt):
    """The work is done."""

    result: Annotated[Any, Meta(description="What the chart gets of it.")] = None
    event: Annotated[
        Name | None, Meta(description="End it with this event of the chart; it carries the result.")
    ] = None


class FailBody(Attempt):
    """The attempt has failed; the chart says by the code whether there is another."""

    code: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,99}(?!\n)$", examples=["CARD_DECLINED"])]
    message: Annotated[str, Meta(max_length=10_000, pattern=NO_NUL)] = ""
    details: dict[str, Any] = {}


class ReleaseBody(Attempt):
    """The same attempt is for anyone to claim, now or after a while."""

    after: Annotated[Duration, Meta(description="A duration such as `30s` or `5m`.")] = "0s"


def remote_of(app: Any) -> Remote:
    """What remote workers of the application's node can do; it is made when one comes."""
    state = app.state
    if getattr(state, "remote", None) is None:
        state.remote = Remote(state.node.engine)
    remote: Remote = state.remote
    return remote


@router.post("/claim", operation_id="claim_work", response_model=WorkClaim)
async def claim(body: WorkClaimBody, caller: Who, request: Request, keyed: Keyed) -> WorkClaim | Response:
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
    """Claim under an idempotency key: if the caller disconnects, a repeated request gets the same work."""
    remote = remote_of(request.app)
    claiming = remote.claim_once(asked, wait, keyed, lambda items: stored_json(_works(items)))
    kept = await _while_there(claiming, request)
    if kept is None:
        raise Problem("unavailable", "the claim was cut short", headers={"Retry-After": "1"})
    return stored_reply(kept)


def _works(items: Sequence[ClaimedWork]) -> WorkClaim:
    return WorkClaim(items=[_work(item) for item in items])


@router.post("/{work}/heartbeat", operation_id="heartbeat")
async def heartbeat(
    work: WorkId,
    body: HeartbeatBody,
    caller: Who,
    call: HttpCall,
) -> Sign:
    """Extend the lease and report progress. Without a heartbeat in time the work goes to another worker."""
    remote, ref = remote_of(call.app), _attempt(work, body, caller)
    report = _report(body)
    request_id = None if call.keyed is None else call.keyed.part_id("progress")
    with _problems():
        status = await remote.heartbeat(ref, report, request_id)
        if status == "held" and body.checkpoint is not None:
            await remote.checkpoint(ref, body.checkpoint)
    return Sign(standing=status)


@router.post("/{work}/checkpoint", operation_id="checkpoint_work")
async def checkpoint(work: WorkId, body: CheckpointBody, caller: Who, call: HttpCall) -> Sign:
    """Keep how far the work is, for an attempt that may follow."""
    with _problems():
        await remote_of(call.app).checkpoint(_attempt(work, body, caller), body.checkpoint)
    return Sign(standing="held")


@router.post("/{work}/complete", operation_id="complete_work", response_model=Standing)
async def complete(work: WorkId, body: CompleteBody, caller: Who, call: HttpCall) -> Response:
    """End the work with a result, or with an event. What comes again gets the first answer."""
    outcome = body.result if body.event is None else Event(body.event, body.result)
    with _problems():
        return standing_reply(await remote_of(call.app).end(_attempt(work, body, caller), outcome))


@router.post("/{work}/fail", operation_id="fail_work", response_model=Standing)
async def fail(work: WorkId, body: FailBody, caller: Who, call: HttpCall) -> Response:
    """End the attempt with an error. What comes again gets the first answer."""
    failed = Fail(body.code, body.message)
    failed.details = body.details
    with _problems():
        return standing_reply(await remote_of(call.app).end(_attempt(work, body, caller), failed))


@router.post("/{work}/release", operation_id="release_work")
async def release(work: WorkId, body: ReleaseBody, caller: Who, call: HttpCall) -> Sign:
    """Hand the work back without an outcome: for a worker that ends, or cannot do it now."""
    with _problems():
        await remote_of(call.app).release(_attempt(work, body, caller), body.after)
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


def _work(item: ClaimedWork) -> WorkShown:
    row, snapshot = item.row, item.snapshot
    return WorkShown(
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


@contextmanager
def _problems() -> Iterator[None]:
    """Turn errors of the engine into problems."""
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
