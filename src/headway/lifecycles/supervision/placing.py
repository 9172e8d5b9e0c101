"""Which worker does what: the supervisor's knowledge, and how it changes with what the supervisor hears."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

from headway import View
from headway.lifecycles.supervision.messages import job_of, task_id, to
from headway.statechart import model


@dataclass
class Hand:
    """A worker on duty: how many tasks it has places for, and which it has; `up` if it takes more."""

    capacity: int
    up: bool = True
    tasks: list[str] = field(default_factory=list)

    def has_room(self) -> bool:
        """Whether it can be given a task now."""
        return self.up and len(self.tasks) < self.capacity


@dataclass
class Wish:
    """A job that waits for so many workers."""

    job: str
    count: int


@dataclass
class SupervisorData:
    """What a supervisor knows: its workers, the jobs that wait, and tasks whose worker is gone."""

    workspace_id: str = ""
    hands: dict[str, Hand] = field(default_factory=dict)
    waiting: list[Wish] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)


@dataclass
class Up:
    """A worker that takes tasks."""

    worker: str
    capacity: int


@dataclass
class Down:
    """A worker that keeps its tasks and takes no further ones."""

    worker: str


@dataclass
class Gone:
    """A worker that has ended; one that `failed` is replaced. Nobody else gets what was `given_up`."""

    worker: str
    failed: bool = False
    capacity: int = 1
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


def note_up(view: View) -> dict[str, Any]:
    """The worker can be given tasks; those it has had before its pause it still has."""
    known, told = _known(view), view.payload
    before = known.hands.get(told.worker)
    known.hands[told.worker] = Hand(told.capacity, up=True, tasks=before.tasks if before else [])
    return asdict(known)


def note_down(view: View) -> dict[str, Any]:
    """The worker is given nothing more for now."""
    known = _known(view)
    hand = known.hands.get(view.payload.worker)
    if hand is not None:
        hand.up = False
    return asdict(known)


def note_gone(view: View) -> dict[str, Any]:
    """The tasks of the worker need another one."""
    known, told = _known(view), view.payload
    hand = known.hands.pop(told.worker, None)
    if hand is not None:
        known.orphans += [task for task in hand.tasks if task not in told.given_up]
    return asdict(known)


def note_free(view: View) -> dict[str, Any]:
    """The worker has a place again."""
    known, told = _known(view), view.payload
    hand = known.hands.get(told.worker)
    if hand is not None and told.task in hand.tasks:
        hand.tasks.remove(told.task)
    return asdict(known)


def note_waiting(view: View) -> dict[str, Any]:
    """The job waits behind those that came before it."""
    known, told = _known(view), view.payload
    known.waiting.append(Wish(told.job, told.count))
    return asdict(known)


def note_over(view: View) -> dict[str, Any]:
    """The job waits no longer, and all places it had are free."""
    known, job = _known(view), view.payload.job
    known.waiting = [wish for wish in known.waiting if wish.job != job]
    known.orphans = [task for task in known.orphans if job_of(task) != job]
    for hand in known.hands.values():
        hand.tasks = [task for task in hand.tasks if job_of(task) != job]
    return asdict(known)


def substitute(view: View) -> list[dict[str, Any]]:
    """A worker in the place of one that has failed."""
    told = view.payload
    if not told.failed:
        return []
    return [
        {
            "workspace_id": view.context.workspace_id,
            "capacity": told.capacity,
            "supervisor": view.instance,
            "on_duty": True,
            "stands_in_for": told.worker,
        }
    ]


def place(view: View) -> list[model.Action]:
    """Give what can be given: first tasks whose worker is gone, then jobs in their order.

    A job that needs more workers than are free is passed over, and is the first to be looked at next time.
    """
    known = _known(view)
    told = [*_place_orphans(known), *_place_jobs(known)]
    return [model.Put(values=asdict(known)), *told] if told else []


def _known(view: View) -> SupervisorData:
    """A copy of what is known, to be changed."""
    known: SupervisorData = deepcopy(view.context)
    return known


def _place_orphans(known: SupervisorData) -> list[model.Action]:
    told: list[model.Action] = []
    left: list[str] = []
    for task in known.orphans:
        worker = next(iter(_free_hands(known)), None)
        if worker is None:
            left.append(task)
        else:
            known.hands[worker].tasks.append(task)
            told.append(to(job_of(task), "reallocate", task=task, worker=worker))
    known.orphans = left
    return told


def _place_jobs(known: SupervisorData) -> list[model.Action]:
    told: list[model.Action] = []
    left: list[Wish] = []
    for wish in known.waiting:
        free = _free_hands(known)
        if len(free) < wish.count:
            left.append(wish)
            continue
        chosen = free[: wish.count]
        for number, worker in enumerate(chosen):
            known.hands[worker].tasks.append(task_id(wish.job, number))
        told.append(to(wish.job, "allocate_resources", workers=chosen))
    known.waiting = left
    return told


def _free_hands(known: SupervisorData) -> list[str]:
    """The workers with room, the least busy first."""
    free = [name for name, hand in known.hands.items() if hand.has_room()]
    return sorted(free, key=lambda name: len(known.hands[name].tasks))
