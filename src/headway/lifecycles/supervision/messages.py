"""The messages between workers, jobs and their supervisor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway.statechart import model


@dataclass
class Task:
    """What one worker does for a job: part `number` of `of`, or a task of its own without a job."""

    id: str
    description: str
    job: str = ""
    number: int = 0
    of: int = 1
    reached: Any = None
    """The last safe point that a worker has reached."""


@dataclass
class Reached:
    """The last safe point of a task, where the next worker begins."""

    task: str
    reached: Any = None


@dataclass
class Assignment:
    """The tasks a worker is started with; without any it takes those of jobs, as they come."""

    tasks: list[str] | None = None


@dataclass
class Over:
    """A job whose tasks are no longer needed."""

    job: str


@dataclass
class Error:
    """What went wrong."""

    code: str
    message: str = ""


@dataclass
class Allocation:
    """The workers that a job is given, one for each of its parts."""

    workers: list[str]


@dataclass
class Moved:
    """Another worker for a part whose worker is gone."""

    task: str
    worker: str


@dataclass
class TaskDone:
    """A part of the job, and what it has come to."""

    task: str
    result: Any = None


@dataclass
class Crash:
    """How a worker of the job has ended, and how far it was with which part."""

    error: str = ""
    task: str = ""
    reached: Any = None


@dataclass
class Result:
    """What a job has produced."""

    result: Any = None


@dataclass
class SubJob:
    """A job that a running job hands down."""

    task_description: str
    worker_count: int = 1
    timeout_seconds: float = 3600


@dataclass
class Up:
    """A worker that takes tasks."""

    worker: str
    capacity: int


@dataclass
class Asks:
    """A worker that asks its supervisor for a sign of life."""

    worker: str


@dataclass
class Down:
    """A worker that keeps its tasks and takes no further ones."""

    worker: str


@dataclass
class Gone:
    """A worker that has ended; one that `failed` is replaced. Nobody else gets what was `given_up`."""

    worker: str
    failed: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    capacity: int = 1
    supervisor_timeout_seconds: float = 3600
    given_up: list[str] = field(default_factory=list)


@dataclass
class Free:
    """A task that is done."""

    worker: str
    task: str


@dataclass
class Waits:
    """A job that needs workers."""

    job: str
    count: int


@dataclass
class JobOver:
    """A job that has ended."""

    job: str


def to(instance: str, event: str, **data: Any) -> model.Send:
    """A message to another instance."""
    return model.Send(event=event, target=f"#_scxml_{instance}", payload=model.Payload(content=data))


def task_id(job: str, number: int) -> str:
    """The name of a job's part."""
    return f"{job}#{number}"


def job_of(task: str) -> str:
    """The job that a part belongs to."""
    return task.rpartition("#")[0]
