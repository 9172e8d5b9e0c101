"""What a job knows, and the conditions and actions that its chart names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headway import No, View
from headway.codec import encode
from headway.lifecycles.supervision.messages import Task, task_id, to
from headway.statechart import model

DEEPEST = 5
MOST_WORKERS = 10
MOST_CRASHES = 3
LARGEST_DESCRIPTION = 90_000
"""Bytes of JSON: it travels to a worker with a safe point of up to 900,000, in a message of at most 1 MB."""


@dataclass
class JobData:
    """What is known of a job; `validate` says whether it can be run."""

    task_description: str = ""
    depth: int = 0
    worker_count: int = 1
    parent_job_id: str | None = None
    workspace_id: str = ""
    supervisor: str = ""
    timeout_seconds: float = 3600
    workers: dict[str, str] = field(default_factory=dict)
    """Which worker does which part."""
    results: dict[str, Any] = field(default_factory=dict)
    """What each part that is done has come to."""
    reached: dict[str, Any] = field(default_factory=dict)
    """How far the worker before had come with a part."""
    result: Any = None
    error: str | None = None
    submitted_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


def problems(job: JobData) -> list[str]:
    """Why a job cannot be run."""
    rules = (
        (bool(job.task_description.strip()), "a job needs a task description"),
        (fits(job.task_description), f"a task description has at most {LARGEST_DESCRIPTION:,} bytes"),
        (0 <= job.depth <= DEEPEST, f"depth is 0 to {DEEPEST}, not {job.depth}"),
        (
            1 <= job.worker_count <= MOST_WORKERS,
            f"worker_count is 1 to {MOST_WORKERS}",
        ),
        (job.depth == 0 or job.parent_job_id is not None, "a job below depth 0 has a parent job"),
    )
    return [problem for holds, problem in rules if not holds]


def fits(description: str) -> bool:
    """Whether a task description is short enough to be sent to a worker."""
    return len(encode(description)) <= LARGEST_DESCRIPTION


def schema_valid(view: View) -> bool | No:
    """The job can be run as it is described."""
    found = problems(view.context)
    return not found or No("; ".join(found))


def resources_available(view: View) -> bool | No:
    """As many workers are free as the job needs."""
    free, wanted = len(set(view.payload.workers)), view.context.worker_count
    return free >= wanted or No(f"{wanted} workers are needed, {free} are free")


def depth_left(view: View) -> bool | No:
    """There is room for a job below this one."""
    return view.context.depth < DEEPEST or No(f"a job at depth {DEEPEST} has no sub-jobs")


def crashes_left(view: View) -> bool | No:
    """A crashed worker is replaced at most `MOST_CRASHES` times."""
    return view.counters["crashes"] < MOST_CRASHES or No(f"{MOST_CRASHES} workers have been replaced already")


def all_done(view: View) -> bool:
    """Every part has its result."""
    return bool(len(view.context.results) >= view.context.worker_count)


def ask_for_workers(view: View) -> list[model.Action]:
    """The supervisor hears that the job waits."""
    return _to_supervisor(view, "job_waits", count=view.context.worker_count)


def assign_tasks(view: View) -> list[model.Action]:
    """Each worker gets its part."""
    count = view.context.worker_count
    chosen = {task_id(view.instance, n): name for n, name in enumerate(view.payload.workers[:count])}
    return [
        model.Put(values={"workers": chosen}),
        *(_assigned(view, task, worker) for task, worker in chosen.items()),
    ]


def move_task(view: View) -> list[model.Action]:
    """Another worker gets the part, unless it has been done meanwhile."""
    job, moved = view.context, view.payload
    if moved.task in job.results:
        return []
    return [
        model.Put(values={"workers": {**job.workers, moved.task: moved.worker}}),
        _assigned(view, moved.task, moved.worker),
    ]


def keep_result(view: View) -> dict[str, Any]:
    """Keep what a part has come to."""
    done = view.payload
    return {"results": {**view.context.results, done.task: done.result}}


def keep_reached(view: View) -> dict[str, Any]:
    """A worker that takes over a part resumes where the previous worker was."""
    heard = view.payload
    if heard.reached is None:
        return {}
    return {"reached": {**view.context.reached, heard.task: heard.reached}}


def gather_results(view: View) -> dict[str, Any]:
    """The job's result: that of its one part, or those of all in their order."""
    job = view.context
    parts = [job.results.get(task_id(view.instance, number)) for number in range(job.worker_count)]
    return {"result": parts[0] if job.worker_count == 1 else parts}


def store_result(view: View) -> dict[str, Any]:
    """Keep what the job has produced."""
    return {"result": view.payload.result}


def release_workers(view: View) -> list[model.Action]:
    """Workers still assigned to the job stop, and their places become free."""
    job = view.context
    busy = {worker for task, worker in job.workers.items() if task not in job.results}
    return [to(worker, "drop", job=view.instance) for worker in sorted(busy)]


def tell_over(view: View) -> list[model.Action]:
    """The supervisor hears that the job needs nobody any more."""
    return _to_supervisor(view, "job_over")


def note_problems(view: View) -> dict[str, Any]:
    """Keep why the job is invalid."""
    return {"error": f"invalid: {'; '.join(problems(view.context))}"}


def note_timeout(view: View) -> dict[str, Any]:
    """Keep that the job took too long, and how long it might have taken."""
    return {"error": f"timeout: the job took longer than {job_limit(view):g} s"}


def note_failure(view: View) -> dict[str, Any]:
    """Keep what went wrong: the code, and the message where there is one."""
    return {"error": f"{view.payload.code}: {view.payload.message}".removesuffix(": ")}


def note_crash(view: View) -> dict[str, Any]:
    """Keep the error of the worker that crashed last."""
    return {"error": f"worker_crash: {view.payload.error}"}


def sub_job(view: View) -> dict[str, Any]:
    """A job one level deeper."""
    asked, job = view.payload, view.context
    return {
        **asdict(asked),
        "depth": job.depth + 1,
        "parent_job_id": view.instance,
        "workspace_id": job.workspace_id,
        "supervisor": job.supervisor,
    }


def job_limit(view: View) -> float:
    """How many seconds a job may take from its submission on."""
    return float(view.context.timeout_seconds)


def _assigned(view: View, task: str, worker: str) -> model.Send:
    job = view.context
    number = int(task.rpartition("#")[2])
    part = Task(
        task, job.task_description, view.instance, number, of=job.worker_count, reached=job.reached.get(task)
    )
    return to(worker, "assign", **asdict(part))


def _to_supervisor(view: View, event: str, **data: Any) -> list[model.Action]:
    supervisor = view.context.supervisor
    return [to(supervisor, event, job=view.instance, **data)] if supervisor else []
