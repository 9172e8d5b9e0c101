"""What goes in and out of the routes of supervision."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from headway.codec import UNSET, Meta, UnsetType, encode
from headway.http import NO_NUL, Check, RequestBody, RequestKey, ResponseBody
from headway.lifecycles.supervision.job_rules import DEEPEST, LARGEST_DESCRIPTION, MOST_WORKERS, fits
from headway.lifecycles.supervision.worker_rules import LEAST_PATIENCE, MOST_TASKS

WEEK = 604_800
LARGEST_METADATA = 10_000


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing")
    return text


def _not_long(text: str) -> str:
    if not fits(text):
        raise ValueError(f"it has more than {LARGEST_DESCRIPTION:,} bytes")
    return text


def _not_large(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(encode(metadata)) > LARGEST_METADATA:
        raise ValueError(f"it has more than {LARGEST_METADATA:,} bytes")
    return metadata


Workspace = Annotated[
    str, Meta(max_length=36, pattern=NO_NUL, description="Jobs get workers of theirs only.")
]
Text = Annotated[str, Meta(max_length=10_000, pattern=NO_NUL)]
Seconds = Annotated[float, Meta(gt=0, le=WEEK)]
Description = Annotated[
    str,
    Meta(min_length=1, max_length=LARGEST_DESCRIPTION, pattern=NO_NUL),
    Check(_not_blank),
    Check(_not_long),
]
Metadata = Annotated[
    dict[str, Any], Check(_not_large), Meta(description="What its owner knows of it; nobody reads it.")
]
WorkerStatus = Literal["IDLE", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "TERMINATED"]
JobStatus = Literal["SUBMITTED", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELED"]


class NewWorker(RequestBody):
    """A worker to create."""

    workspace_id: Workspace = ""
    metadata: Metadata = {}
    capacity: Annotated[
        int,
        Meta(ge=1, le=MOST_TASKS),
        Meta(description="How many tasks it has places for; it does one after the other."),
    ] = 1
    supervisor_timeout_seconds: Annotated[float, Meta(ge=LEAST_PATIENCE, le=WEEK)] = 3600
    request_id: RequestKey = None


class NewJob(RequestBody):
    """A job to submit. With a parent it is a sub-job, one level below it and in its workspace."""

    task_description: Description
    depth: Annotated[int, Meta(ge=0, le=DEEPEST)] | None = None
    worker_count: Annotated[int, Meta(ge=1, le=MOST_WORKERS)] = 1
    parent_job_id: Annotated[str, Meta(min_length=1, max_length=400, pattern=NO_NUL)] | None = None
    workspace_id: Workspace = ""
    timeout_seconds: Seconds = 3600
    request_id: RequestKey = None


class Move(RequestBody):
    """Why, and what the action needs; nothing else is taken."""

    reason: Text | None = None
    request_id: RequestKey = None
    tasks: Annotated[
        list[Description] | UnsetType | None,
        Meta(description="For `start`: tasks of its own. Without them the worker takes those of jobs."),
    ] = UNSET
    code: Annotated[Text | UnsetType | None, Meta(description="For `fail`: the error's code.")] = UNSET
    message: Annotated[Text | UnsetType | None, Meta(description="For `fail`: what happened.")] = UNSET
    result: Annotated[Any, Meta(description="For `succeed`.")] = UNSET
    workers: Annotated[list[str] | UnsetType | None, Meta(description="For `allocate`.")] = UNSET


class TaskShown(ResponseBody):
    """A task of a worker."""

    id: str
    description: str
    job: str
    number: int
    of: int
    reached: Any


class ResultShown(ResponseBody):
    """What a task of a worker's own has come to."""

    task: str
    result: Any


class WorkerShown(ResponseBody):
    """A worker as it is now."""

    id: str
    status: WorkerStatus
    workspace_id: str
    metadata: dict[str, Any]
    capacity: int
    on_duty: bool
    tasks: Annotated[list[TaskShown], Meta(description="Those it has not done yet; the first is in hand.")]
    results: Annotated[list[ResultShown], Meta(description="Of its own tasks, the last ten at most.")]
    stands_in_for: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    paused_at: datetime | None
    completed_at: datetime | None


class JobShown(ResponseBody):
    """A job as it is now."""

    id: str
    status: JobStatus
    task_description: str
    depth: int
    parent_job_id: str | None
    worker_count: int
    workspace_id: str
    workers: list[str]
    crashes: int
    result: Any
    error: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class Workers(ResponseBody):
    """A page of workers."""

    items: list[WorkerShown]
    next: str | None


class Jobs(ResponseBody):
    """A page of jobs."""

    items: list[JobShown]
    next: str | None


class TransitionShown(ResponseBody):
    """A change of state."""

    from_state: str | None
    to_state: str
    trigger: str
    actor: str
    reason: str | None
    timestamp: datetime


class Transitions(ResponseBody):
    """A page of changes, the oldest first."""

    items: list[TransitionShown]
    next: str | None
