"""What workers and jobs know, and the conditions and actions their charts name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway import No, View
from headway.statechart import model

TRANSIENT = ("network_error",)
EXHAUSTED = ("resources_exhausted",)
UNRECOVERABLE = ("unrecoverable", "timeout", "lost")

DEEPEST = 5
MOST_WORKERS = 10
MOST_CRASHES = 3


@dataclass
class WorkerData:
    """What is known of a worker."""

    workspace_id: str = ""
    capacity: int = 1
    supervisor_timeout_seconds: float = 3600
    tasks: list[str] = field(default_factory=list)
    error: str | None = None
    started_at: str | None = None
    paused_at: str | None = None
    completed_at: str | None = None


@dataclass
class Assignment:
    """The tasks a worker is given."""

    tasks: list[str]


@dataclass
class Finished:
    """One task a worker has done."""

    task: str


@dataclass
class Error:
    """What went wrong."""

    code: str
    message: str = ""


def has_capacity(view: View) -> bool | No:
    """A worker takes at least one task, and no more than it has room for."""
    given, capacity = len(view.payload.tasks), view.context.capacity
    if not given:
        return No("no task is assigned")
    return given <= capacity or No(f"{given} tasks are more than the worker's capacity of {capacity}")


def no_pending_tasks(view: View) -> bool | No:
    """All tasks are done."""
    pending = view.context.tasks
    return not pending or No(f"still pending: {', '.join(pending)}")


def not_retryable(view: View) -> bool | No:
    """Only an error that no retry can mend is unrecoverable."""
    code = view.payload.code
    return code not in TRANSIENT or No(f"{code} is tried again, it is not unrecoverable")


def take_tasks(view: View) -> dict[str, Any]:
    """The worker's tasks are those it is given."""
    return {"tasks": view.payload.tasks}


def finish_task(view: View) -> dict[str, Any]:
    """A task that is done is no longer pending."""
    return {"tasks": [task for task in view.context.tasks if task != view.payload.task]}


def note_error(view: View) -> dict[str, Any]:
    """Keep what went wrong: the code, and the message where there is one."""
    said = view.event.data
    return {"error": f"{said['code']}: {said.get('message', '')}".removesuffix(": ")}


def supervisor_patience(view: View) -> float:
    """How long a worker goes on without a word from its supervisor, in seconds."""
    return float(view.context.supervisor_timeout_seconds)


@dataclass
class JobData:
    """What is known of a job; `validate` says whether it can be run."""

    task_description: str = ""
    depth: int = 0
    worker_count: int = 1
    parent_job_id: str | None = None
    workspace_id: str = ""
    tasks: list[str] = field(default_factory=list)
    timeout_seconds: float = 3600
    result: Any = None
    error: str | None = None
    submitted_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


@dataclass
class Result:
    """What a job has produced."""

    result: Any = None


@dataclass
class SubJob:
    """A job that a running job hands down."""

    task_description: str
    worker_count: int = 1


def problems(job: JobData) -> list[str]:
    """Why a job cannot be run."""
    rules = (
        (bool(job.task_description.strip()), "a job needs a task description"),
        (0 <= job.depth <= DEEPEST, f"depth is 0 to {DEEPEST}, not {job.depth}"),
        (
            1 <= job.worker_count <= MOST_WORKERS,
            f"worker_count is 1 to {MOST_WORKERS}",
        ),
        (job.depth == 0 or job.parent_job_id is not None, "a job below depth 0 has a parent job"),
    )
    return [problem for holds, problem in rules if not holds]


def schema_valid(view: View) -> bool | No:
    """The job can be run as it is described."""
    found = problems(view.context)
    return not found or No("; ".join(found))


def resources_available(view: View) -> bool | No:
    """As many workers are free as the job needs."""
    free, wanted = view.facts.get("free_workers", 0), view.context.worker_count
    return free >= wanted or No(f"{wanted} workers are needed, {free} are free")


def depth_left(view: View) -> bool | No:
    """There is room for a job below this one."""
    return view.context.depth < DEEPEST or No(f"a job at depth {DEEPEST} has no sub-jobs")


def crashes_left(view: View) -> bool | No:
    """A worker that crashed is replaced only so often."""
    return view.counters["crashes"] < MOST_CRASHES or No(f"{MOST_CRASHES} workers have been replaced already")


def plan_tasks(view: View) -> dict[str, Any]:
    """What each worker of the job is started with."""
    return {"tasks": [view.context.task_description]}


def note_problems(view: View) -> dict[str, Any]:
    """Keep why the job is invalid."""
    return {"error": "; ".join(problems(view.context))}


def note_crash(view: View) -> dict[str, Any]:
    """Keep the error of the worker that crashed last."""
    return {"error": f"worker_crash: {(view.event.data or {}).get('error')}"}


def store_result(view: View) -> dict[str, Any]:
    """Keep what the job has produced."""
    return {"result": view.payload.result}


def one_worker(view: View) -> dict[str, Any]:
    """A worker for the job."""
    job = view.context
    return {"workspace_id": job.workspace_id, "supervisor_timeout_seconds": job.timeout_seconds}


def all_workers(view: View) -> list[dict[str, Any]]:
    """As many workers as the job wants."""
    return [one_worker(view)] * view.context.worker_count


def sub_job(view: View) -> dict[str, Any]:
    """A job one level deeper."""
    asked = view.payload
    return {
        "task_description": asked.task_description,
        "worker_count": asked.worker_count,
        "depth": view.context.depth + 1,
        "parent_job_id": view.instance,
    }


def try_allocation(_view: View) -> list[model.Action]:
    """As if the allocation had been asked for again."""
    return [model.Raise(event="allocate_resources")]


def job_limit(view: View) -> float:
    """How many seconds a job may take from its submission on."""
    return float(view.context.timeout_seconds)
