"""Jobs over HTTP: submitted, watched, cancelled."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from starlette.responses import Response

from headway import Snapshot
from headway.http import PER_PAGE, Cursor, Limit, Router, needs, wrong
from headway.lifecycles.supervision.api import shapes
from headway.lifecycles.supervision.api.calls import Calls, Doing, Machine, calls_on
from headway.lifecycles.supervision.chart import Job
from headway.lifecycles.supervision.job_rules import DEEPEST
from headway.node import DAY, InstanceRow

FIELDS = (
    *("task_description", "depth", "parent_job_id", "worker_count", "workspace_id", "result", "error"),
    *("started_at", "completed_at"),
)

ASKED = ("task_description", "worker_count", "timeout_seconds")


def _shown(_row: InstanceRow, snapshot: Snapshot) -> dict[str, Any]:
    context = snapshot.context
    return {
        **{field: context[field] for field in FIELDS},
        "workers": [context["workers"][task] for task in sorted(context["workers"])],
        "crashes": snapshot.counters.get("crashes", 0),
    }


JOBS = Machine(
    Job.chart.name,
    "j_",
    {
        "validate": Doing("validate"),
        "allocate": Doing("allocate_resources", ("workers",)),
        "succeed": Doing("success", ("result",)),
        "fail": Doing("error", ("code", "message")),
        "cancel": Doing("cancel"),
    },
    _shown,
)

router = Router(prefix="/api", tags=["supervision"])
Id = Annotated[str, Path(description="The job's id.", min_length=1, max_length=400)]
Jobs = Annotated[Calls, Depends(calls_on(JOBS))]
Own = Literal["validate", "allocate", "succeed", "fail", "cancel"]
Supervised = Literal["cancel"]
MOVED: dict[str, Any] = {"response_model": shapes.JobShown, "dependencies": [needs("send")]}
READ: dict[str, Any] = {"dependencies": [needs("read")]}


@router.post("/jobs", operation_id="supervision_submit_job", status_code=201, **MOVED)
async def submit_job(body: shapes.NewJob, jobs: Jobs) -> Response:
    """Submit a job. It is validated, waits for as many workers as it needs, and runs on them."""
    if body.parent_job_id is not None:
        return await _submit_below(body, body.parent_job_id, jobs)
    if body.depth:
        raise wrong("body.parent_job_id", f"a job at depth {body.depth} has a parent job")
    context = {name: getattr(body, name) for name in ASKED}
    context["workspace_id"] = body.workspace_id
    context["supervisor"] = await jobs.supervisor(body.workspace_id)
    return await jobs.create(context)


@router.get("/jobs", operation_id="supervision_list_jobs", response_model=shapes.Jobs, **READ)
async def list_jobs(
    jobs: Jobs,
    *,
    status: Annotated[shapes.JobStatus | None, Query(description="Only those in this state.")] = None,
    parent_job_id: Annotated[str | None, Query(description="Only the sub-jobs of this one.")] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> Response:
    """The jobs, in the order of their submission."""
    return await jobs.page(cursor, limit, status=status, parent=parent_job_id)


@router.get("/jobs/{job_id}", operation_id="supervision_get_job", response_model=shapes.JobShown, **READ)
async def get_job(job_id: Id, jobs: Jobs) -> Response:
    """A job as it is now."""
    return await jobs.get(job_id)


@router.get(
    "/jobs/{job_id}/transitions",
    operation_id="supervision_list_job_transitions",
    response_model=shapes.Transitions,
    **READ,
)
async def job_transitions(
    job_id: Id, jobs: Jobs, *, cursor: Cursor = None, limit: Limit = PER_PAGE
) -> Response:
    """How a job came to where it is."""
    return await jobs.transitions(job_id, cursor, limit)


@router.post("/jobs/{job_id}/{action}", operation_id="supervision_move_job", **MOVED)
async def move_job(job_id: Id, action: Own, jobs: Jobs, body: shapes.Move | None = None) -> Response:
    """What users, workers and the system do to a job."""
    return await jobs.move(job_id, action, body)


@router.post("/supervisor/jobs/{job_id}/{action}", operation_id="supervision_supervise_job", **MOVED)
async def supervise_job(
    job_id: Id, action: Supervised, jobs: Jobs, body: shapes.Move | None = None
) -> Response:
    """Cancel a job and its sub-jobs."""
    return await jobs.move(job_id, action, body)


async def _submit_below(body: shapes.NewJob, parent: str, jobs: Calls) -> Response:
    """A sub-job: its parent hands it down, so that it ends with it."""
    above: int = jobs.shown(await jobs.row(parent))["depth"]
    if above >= DEEPEST:
        raise wrong("body.parent_job_id", f"a job at depth {DEEPEST} has no sub-jobs")
    if body.depth not in {None, above + 1}:
        raise wrong("body.depth", f"a sub-job of {parent} is at depth {above + 1}")
    asked = {name: getattr(body, name) for name in ASKED}
    event = Job.delegate(asked, by=jobs.caller.actor)
    receipt = await jobs.send(parent, event, lasts=DAY)
    return await jobs.created(await jobs.child(parent, receipt.seq))
