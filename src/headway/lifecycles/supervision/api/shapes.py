"""What goes in and out of the routes of supervision."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from headway.api.call import WHOLE, Strict
from headway.codec import encode
from headway.lifecycles.supervision.job_rules import DEEPEST, LARGEST_DESCRIPTION, MOST_WORKERS, fits
from headway.lifecycles.supervision.worker_rules import LEAST_PATIENCE, MOST_TASKS

WEEK = 604_800
PLAIN = r"^[^\x00]*$"
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


RequestId = Annotated[
    str | None,
    Field(
        pattern=r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$",
        description="A repeat with the same id gets the first answer again, as with `Idempotency-Key`.",
    ),
]
Workspace = Annotated[
    str, Field(max_length=36, pattern=PLAIN, description="Jobs get workers of theirs only.")
]
Text = Annotated[str, Field(max_length=10_000, pattern=PLAIN)]
Seconds = Annotated[float, Field(gt=0, le=WEEK)]
Description = Annotated[
    str,
    Field(min_length=1, max_length=LARGEST_DESCRIPTION, pattern=PLAIN),
    AfterValidator(_not_blank),
    AfterValidator(_not_long),
]
Metadata = Annotated[
    dict[str, Any],
    AfterValidator(_not_large),
    Field(description="What its owner knows of it; nobody reads it."),
]
WorkerStatus = Literal["IDLE", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "TERMINATED"]
JobStatus = Literal["SUBMITTED", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELED"]


class NewWorker(Strict):
    """A worker to create."""

    workspace_id: Workspace = ""
    metadata: Metadata = {}
    capacity: Annotated[int, Field(ge=1, le=MOST_TASKS), WHOLE] = Field(
        1, description="How many tasks it has places for; it does one after the other."
    )
    supervisor_timeout_seconds: Annotated[float, Field(ge=LEAST_PATIENCE, le=WEEK)] = 3600
    request_id: RequestId = None


class NewJob(Strict):
    """A job to submit. With a parent it is a sub-job, one level below it and in its workspace."""

    task_description: Description
    depth: Annotated[int, Field(ge=0, le=DEEPEST), WHOLE] | None = None
    worker_count: Annotated[int, Field(ge=1, le=MOST_WORKERS), WHOLE] = 1
    parent_job_id: Annotated[str, Field(min_length=1, max_length=400, pattern=PLAIN)] | None = None
    workspace_id: Workspace = ""
    timeout_seconds: Seconds = 3600
    request_id: RequestId = None


class Move(Strict):
    """Why, and what the action needs; nothing else is taken."""

    reason: Text | None = None
    request_id: RequestId = None
    tasks: list[Description] | None = Field(
        None, description="For `start`: tasks of its own. Without them the worker takes those of jobs."
    )
    code: Text | None = Field(None, description="For `fail`: the error's code.")
    message: Text | None = Field(None, description="For `fail`: what happened.")
    result: Any = Field(None, description="For `succeed`.")
    workers: list[str] | None = Field(None, description="For `allocate`.")


class TaskShown(Strict):
    """A task of a worker."""

    id: str
    description: str
    job: str
    number: int
    of: int
    reached: Any


class ResultShown(Strict):
    """What a task of a worker's own has come to."""

    task: str
    result: Any


class WorkerShown(Strict):
    """A worker as it is now."""

    id: str
    status: WorkerStatus
    workspace_id: str
    metadata: dict[str, Any]
    capacity: int
    on_duty: bool
    tasks: list[TaskShown] = Field(description="Those it has not done yet; the first is in hand.")
    results: list[ResultShown] = Field(description="Of its own tasks, the last ten at most.")
    stands_in_for: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    paused_at: datetime | None
    completed_at: datetime | None


class JobShown(Strict):
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


class Workers(Strict):
    """A page of workers."""

    items: list[WorkerShown]
    next: str | None


class Jobs(Strict):
    """A page of jobs."""

    items: list[JobShown]
    next: str | None


class TransitionShown(Strict):
    """A change of state."""

    from_state: str | None
    to_state: str
    trigger: str
    actor: str
    reason: str | None
    timestamp: datetime


class Transitions(Strict):
    """A page of changes, the oldest first."""

    items: list[TransitionShown]
    next: str | None
