"""What workers, jobs and their supervisor tell each other."""

from __future__ import annotations

from dataclasses import dataclass
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
    """The last safe point that somebody has come to with it."""


@dataclass
class Reached:
    """The last safe point of a task, from where whoever goes on with it begins."""

    task: str
    reached: Any = None


def to(instance: str, event: str, **data: Any) -> model.Send:
    """A message to another instance."""
    return model.Send(event=event, target=f"#_scxml_{instance}", payload=model.Payload(content=data))


def task_id(job: str, number: int) -> str:
    """The name of a job's part."""
    return f"{job}#{number}"


def job_of(task: str) -> str:
    """The job that a part belongs to."""
    return task.rpartition("#")[0]
