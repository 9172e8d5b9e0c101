"""What a worker knows, and the conditions and actions that its chart names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from headway import No, View
from headway.codec import encode
from headway.lifecycles.supervision.messages import Reached, Task, to
from headway.statechart import model

TRANSIENT = ("network_error",)
EXHAUSTED = ("resources_exhausted",)
CRASHES = ("crashed",)
"""The process of the worker has died by itself."""
HOST_LOST = "host_lost"
"""The service, or the machine it runs on, was lost too often while the worker was at a task."""
MOST_LOSSES = 20
HEARTBEAT, LEASE = "3s", "15s"
"""After four heartbeats that did not come, and before the fifth, the service is taken to be gone."""
UNRECOVERABLE = ("unrecoverable", "timeout")

MOST_TASKS = 100
MOST_RESULTS, LARGEST_RESULTS = 10, 1_000_000
"""How many results of its own tasks a worker keeps, and their bytes of JSON."""
THIRDS = 3
"""How often a worker checks for its supervisor within the timeout."""
LEAST_PATIENCE = 3
"""Seconds; the shortest timeout, so that a worker checks at most once a second."""


@dataclass
class OwnResult:
    """What a task that belongs to no job has come to."""

    task: str
    result: Any = None


@dataclass
class WorkerData:
    """What is known of a worker."""

    workspace_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    capacity: int = 1
    supervisor: str = ""
    stands_in_for: str | None = None
    supervisor_timeout_seconds: float = 3600
    on_duty: bool = False
    tasks: list[Task] = field(default_factory=list)
    results: list[OwnResult] = field(default_factory=list)
    """What its own tasks have come to: the last ones, as many as fit."""
    heard_at: str | None = None
    """When the supervisor last gave a word."""
    unheard: int = 0
    """How many thirds of its patience have passed since then."""
    error: str | None = None
    started_at: str | None = None
    running_since: str | None = None
    """When it last came to run; further tasks do not change that."""
    paused_at: str | None = None
    completed_at: str | None = None


def has_capacity(view: View) -> bool | No:
    """A worker takes no more tasks than it has room for, and each once."""
    given, capacity = view.payload.tasks, view.context.capacity
    if given is None:
        return True
    if not given:
        return No("no task is assigned")
    if len(set(given)) < len(given):
        return No("a task is assigned twice")
    return len(given) <= capacity or No(
        f"{len(given)} tasks are more than the worker's capacity of {capacity}"
    )


def stands_in(view: View) -> bool:
    """The worker was made for the place of one that failed."""
    return view.context.stands_in_for is not None


def is_free(view: View) -> bool:
    """The worker has nothing to do."""
    return not view.context.tasks


def no_pending_tasks(view: View) -> bool | No:
    """All tasks are done."""
    pending = view.context.tasks
    return not pending or No(f"still pending: {', '.join(task.id for task in pending)}")


def more_tasks(view: View) -> bool:
    """There is a task after the one that is done."""
    return len(view.context.tasks) > 1


def did_its_own(view: View) -> bool:
    """The worker was started for tasks of its own, and has done the last of them."""
    return not view.context.on_duty


def is_at_it(view: View) -> bool:
    """The task in hand belongs to the job that is over."""
    tasks = view.context.tasks
    return bool(tasks) and tasks[0].job == view.payload.job


def not_retryable(view: View) -> bool | No:
    """Only an error that no retry can mend is unrecoverable."""
    code = view.payload.code
    return code not in TRANSIENT or No(f"{code} is tried again, it is not unrecoverable")


def take_tasks(view: View) -> dict[str, Any]:
    """The worker's tasks are those it is given; without any it is on duty for jobs."""
    given = view.payload.tasks
    return {
        "on_duty": given is None,
        "tasks": [asdict(Task(id=each, description=each)) for each in given or ()],
    }


def add_task(view: View) -> dict[str, Any]:
    """One more task, after those it has; the supervisor counts its places."""
    return {"tasks": [*map(asdict, view.context.tasks), asdict(view.payload)]}


def drop_tasks(view: View) -> dict[str, Any]:
    """What a job that is over had here is forgotten."""
    return {"tasks": [asdict(task) for task in view.context.tasks if task.job != view.payload.job]}


def finish_task(view: View) -> list[model.Action]:
    """The task in hand is done: its job gets the result, and its place is free."""
    tasks = view.context.tasks
    if not tasks:
        return []
    done, result = tasks[0], (view.event.data or {}).get("result")
    left = model.Put(values={"tasks": [asdict(task) for task in tasks[1:]]})
    if done.job:
        kept: model.Action = to(done.job, "task_done", task=done.id, result=result)
    else:
        kept = model.Put(values={"results": _last([*view.context.results, OwnResult(done.id, result)])})
    return [left, kept, *_to_supervisor(view, "place_free", task=done.id)]


def note_error(view: View) -> dict[str, Any]:
    """Keep what went wrong: the code, and the message where there is one."""
    return {"error": _error(view)}


def hold_reached(view: View) -> dict[str, Any]:
    """The current task will resume from its last safe point, also in another process."""
    in_hand = [{**asdict(task), "reached": _reached(view, task)} for task in view.context.tasks[:1]]
    return {"tasks": [*in_hand, *map(asdict, view.context.tasks[1:])]}


def tell_up(view: View) -> list[model.Action]:
    """The supervisor hears that the worker takes tasks."""
    return _to_supervisor(view, "worker_up", capacity=view.context.capacity)


def tell_down(view: View) -> list[model.Action]:
    """The supervisor hears that the worker takes no further tasks for now."""
    return _to_supervisor(view, "worker_down")


def tell_gone(view: View) -> list[model.Action]:
    """The job hears how far its task is; the supervisor, that the worker has ended: it finds others."""
    messages = [
        to(task.job, "left_at", **asdict(Reached(task.id, task.reached)))
        for task in view.context.tasks[:1]
        if task.job and task.reached is not None
    ]
    return [*messages, *_to_supervisor(view, "worker_gone")]


def tell_crash(view: View) -> list[model.Action]:
    """The job of the task in hand hears of the crash; the supervisor replaces the worker."""
    messages = [
        to(task.job, "worker_crash", error=_error(view), task=task.id, reached=_reached(view, task))
        for task in view.context.tasks[:1]
        if task.job
    ]
    return [*messages, *_tell_failed(view)]


def tell_failure(view: View) -> list[model.Action]:
    """The job of the task in hand fails with it; the worker is replaced, but not for that task."""
    said = view.event.data
    messages = [
        to(task.job, "error", code=said["code"], message=said.get("message", ""))
        for task in view.context.tasks[:1]
        if task.job
    ]
    given_up = [task.id for task in view.context.tasks[:1]]
    return [*messages, *_tell_failed(view, given_up=given_up)]


def a_third(view: View) -> float:
    """A third of a worker's patience, in seconds: whole milliseconds, so that three are never less."""
    patience = max(view.context.supervisor_timeout_seconds, LEAST_PATIENCE)
    return float(ceil(patience * 1000 / THIRDS) / 1000)


def until_next_third(view: View) -> float:
    """The seconds until a worker listens again, the same for all tasks and safe points in between."""
    third = timedelta(seconds=a_third(view))
    passed = (view.now - datetime.fromisoformat(view.context.running_since)) % third
    return float(ceil((third - passed).total_seconds() * 1000) / 1000)


def note_silence(view: View) -> dict[str, Any]:
    """One more third of its patience is over; a time in which nothing ran counts as one."""
    return {"unheard": view.context.unheard + 1}


def is_silent(view: View) -> bool:
    """The supervisor has given no word for the worker's whole patience, though it was listened for."""
    worker = view.context
    if worker.unheard < THIRDS or worker.heard_at is None:
        return False
    patience = timedelta(seconds=worker.supervisor_timeout_seconds)
    return bool(view.now - datetime.fromisoformat(worker.heard_at) >= patience)


def note_timeout_of_supervisor(view: View) -> dict[str, Any]:
    """Keep that the supervisor was silent, and for how long it might have been."""
    seconds = view.context.supervisor_timeout_seconds
    return {"error": f"supervisor_timeout: the supervisor was silent for {seconds:g} s"}


def ask_for_word(view: View) -> list[model.Action]:
    """The supervisor is asked whether it is still there."""
    supervisor = view.context.supervisor
    return [to(supervisor, "worker_asks", worker=view.instance)] if supervisor else []


def _last(results: list[OwnResult]) -> list[dict[str, Any]]:
    """The last results, the newest of them always."""
    kept: list[dict[str, Any]] = []
    room = LARGEST_RESULTS
    for each in map(asdict, reversed(results[-MOST_RESULTS:])):
        room -= len(encode(each))
        if kept and room < 0:
            break
        kept.insert(0, each)
    return kept


def _tell_failed(view: View, **more: Any) -> list[model.Action]:
    """The supervisor hears what it needs for another worker of the same kind."""
    worker = view.context
    kind = {
        "metadata": worker.metadata,
        "capacity": worker.capacity,
        "supervisor_timeout_seconds": worker.supervisor_timeout_seconds,
    }
    return _to_supervisor(view, "worker_gone", failed=True, **kind, **more)


def _to_supervisor(view: View, event: str, **data: Any) -> list[model.Action]:
    worker = view.context
    if not worker.on_duty or not worker.supervisor:
        return []
    return [to(worker.supervisor, event, worker=view.instance, **data)]


def _reached(view: View, task: Task) -> Any:
    """The safe point that comes with the event, or else the last known one."""
    reached = view.event.data.get("reached")
    return task.reached if reached is None else reached


def _error(view: View) -> str:
    said = view.event.data
    return f"{said['code']}: {said.get('message', '')}".removesuffix(": ")
