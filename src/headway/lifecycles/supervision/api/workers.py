"""Workers over HTTP: created, started, supervised."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from starlette.responses import Response

from headway import Snapshot
from headway.codec import as_dict
from headway.http import METRICS_TYPE as CONTENT_TYPE
from headway.http import PER_PAGE, Cursor, Here, Limit, Router, Who, needs
from headway.http import metrics_text as text_of
from headway.lifecycles.supervision.api import shapes
from headway.lifecycles.supervision.api.calls import Calls, Doing, Machine, calls_on
from headway.lifecycles.supervision.chart import Worker
from headway.lifecycles.supervision.meters import meters_of
from headway.node import InstanceRow

FIELDS = (
    *("workspace_id", "metadata", "capacity", "on_duty", "tasks", "results", "stands_in_for", "error"),
    *("started_at", "paused_at", "completed_at"),
)


def _shown(_row: InstanceRow, snapshot: Snapshot) -> dict[str, Any]:
    return {field: snapshot.context[field] for field in FIELDS}


WORKERS = Machine(
    Worker.chart.name,
    "w_",
    {
        "start": Doing("start_task", ("tasks",)),
        "complete": Doing("complete_tasks"),
        "fail": Doing("error_unrecoverable", ("code", "message")),
        "pause": Doing("pause"),
        "resume": Doing("resume"),
        "terminate": Doing("terminate"),
        "keep-alive": Doing("keep_alive"),
    },
    _shown,
)

router = Router(prefix="/api", tags=["supervision"])
Id = Annotated[str, Path(description="The worker's id.", min_length=1, max_length=400)]
Workers = Annotated[Calls, Depends(calls_on(WORKERS))]
Own = Literal["start", "complete", "fail"]
Supervised = Literal["pause", "resume", "terminate", "keep-alive"]
MOVED: dict[str, Any] = {"response_model": shapes.WorkerShown, "dependencies": [needs("send")]}
READ: dict[str, Any] = {"dependencies": [needs("read")]}


@router.post("/workers", operation_id="supervision_create_worker", status_code=201, **MOVED)
async def create_worker(workers: Workers, body: shapes.NewWorker | None = None) -> Response:
    """Create a worker, which is IDLE until it is started."""
    wanted = body or shapes.NewWorker()
    context = as_dict(wanted)
    del context["request_id"]
    context["supervisor"] = await workers.supervisor(wanted.workspace_id)
    return await workers.create(context)


@router.get("/workers", operation_id="supervision_list_workers", response_model=shapes.Workers, **READ)
async def list_workers(
    workers: Workers,
    *,
    status: Annotated[shapes.WorkerStatus | None, Query(description="Only those in this state.")] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> Response:
    """The workers, in the order of their creation."""
    return await workers.page(cursor, limit, status=status)


@router.get(
    "/workers/{worker_id}", operation_id="supervision_get_worker", response_model=shapes.WorkerShown, **READ
)
async def get_worker(worker_id: Id, workers: Workers) -> Response:
    """A worker as it is now."""
    return await workers.get(worker_id)


@router.get(
    "/workers/{worker_id}/transitions",
    operation_id="supervision_list_worker_transitions",
    response_model=shapes.Transitions,
    **READ,
)
async def worker_transitions(
    worker_id: Id, workers: Workers, *, cursor: Cursor = None, limit: Limit = PER_PAGE
) -> Response:
    """How a worker came to where it is."""
    return await workers.transitions(worker_id, cursor, limit)


@router.post("/workers/{worker_id}/{action}", operation_id="supervision_move_worker", **MOVED)
async def move_worker(
    worker_id: Id, action: Own, workers: Workers, body: shapes.Move | None = None
) -> Response:
    """Start a worker, let it end when it has nothing to do, or say that it has failed."""
    return await workers.move(worker_id, action, body)


@router.post("/supervisor/workers/{worker_id}/{action}", operation_id="supervision_supervise_worker", **MOVED)
async def supervise_worker(
    worker_id: Id, action: Supervised, workers: Workers, body: shapes.Move | None = None
) -> Response:
    """Pause a worker at its next safe point, resume it, terminate it, or say that it has a supervisor."""
    return await workers.move(worker_id, action, body)


@router.get("/supervisor/metrics", operation_id="supervision_metrics", dependencies=[needs("operate")])
async def metrics(node: Here, caller: Who) -> Response:
    """What the supervision of the caller's tenant has done, in the text format of Prometheus."""
    return Response(text_of(meters_of(node).families(), caller.tenant), media_type=CONTENT_TYPE)
