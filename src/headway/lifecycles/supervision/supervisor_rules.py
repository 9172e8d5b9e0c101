"""What a supervisor knows, and the actions that its chart names: which worker does what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway import View
from headway.lifecycles.supervision.messages import job_of, task_id, to
from headway.statechart import model

Changed = dict[str, Any]


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
class SupervisorData:
    """What a supervisor knows: its workers, the jobs that wait, and tasks whose worker is gone.

    `waiting` is how many workers each of those jobs needs, in their order. Thousands may wait: it is a plain
    mapping, and what goes through it job by job is done only when a worker is free.
    """

    workspace_id: str = ""
    hands: dict[str, Hand] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    orphans: list[str] = field(default_factory=list)


def note_up(view: View) -> Changed:
    """The worker can be given tasks; those it has had before its pause it still has."""
    message, hands = view.payload, view.context.hands
    before = hands.get(message.worker)
    hand = Hand(message.capacity, tasks=before.tasks if before else [])
    return {"hands": {**hands, message.worker: hand}}


def give_word(view: View) -> list[model.Action]:
    """Send the worker a sign of life."""
    return [to(view.payload.worker, "keep_alive")]


def note_down(view: View) -> Changed:
    """The worker is given nothing more for now."""
    hands, worker = view.context.hands, view.payload.worker
    return {"hands": {**hands, worker: replace(hands[worker], up=False)}} if worker in hands else {}


def note_gone(view: View) -> Changed:
    """The tasks of the worker need another one."""
    known, message = view.context, view.payload
    if message.worker not in known.hands:
        return {}
    left = [task for task in known.hands[message.worker].tasks if task not in message.given_up]
    return {"hands": _without(known.hands, message.worker), "orphans": [*known.orphans, *left]}


def note_free(view: View) -> Changed:
    """The worker has a place again."""
    message, hands = view.payload, view.context.hands
    if message.worker not in hands:
        return {}
    left = [task for task in hands[message.worker].tasks if task != message.task]
    return {"hands": {**hands, message.worker: replace(hands[message.worker], tasks=left)}}


def note_waiting(view: View) -> Changed:
    """The job waits behind those that came before it."""
    message = view.payload
    return {"waiting": {**view.context.waiting, message.job: message.count}}


def note_over(view: View) -> Changed:
    """The job waits no longer, and all places it had are free."""
    known, job = view.context, view.payload.job
    if job in known.waiting:
        return {"waiting": _without(known.waiting, job)}
    return {
        "orphans": [task for task in known.orphans if job_of(task) != job],
        "hands": {
            name: replace(hand, tasks=[task for task in hand.tasks if job_of(task) != job])
            for name, hand in known.hands.items()
        },
    }


def dismiss_all(view: View) -> list[model.Action]:
    """All workers on duty end, and all jobs that run or wait; later ones are accepted."""
    known = view.context
    given = [task for hand in known.hands.values() for task in hand.tasks]
    jobs = dict.fromkeys([*map(job_of, [*given, *known.orphans]), *known.waiting])
    return [
        model.Put(values={"hands": {}, "waiting": {}, "orphans": []}),
        *(to(job, "cancel") for job in jobs),
        *(to(worker, "terminate") for worker in known.hands),
    ]


def substitute(view: View) -> list[dict[str, Any]]:
    """A worker in the place of one that has failed; not for one that was dismissed."""
    message = view.payload
    if not message.failed or message.worker not in view.context.hands:
        return []
    return [
        {
            "workspace_id": view.context.workspace_id,
            "metadata": message.metadata,
            "capacity": message.capacity,
            "supervisor_timeout_seconds": message.supervisor_timeout_seconds,
            "supervisor": view.instance,
            "on_duty": True,
            "stands_in_for": message.worker,
        }
    ]


def place(view: View) -> list[model.Action]:
    """Give what can be given: first tasks whose worker is gone, then jobs in their order.

    A job that needs more workers than are free is passed over, and is the first to be looked at next time.
    """
    known, crew = view.context, Crew(view.context.hands)
    if not crew.free:
        return []
    orphans, jobs = _take_orphans(known.orphans, crew), _take_jobs(known.waiting, crew)
    if not orphans and not jobs:
        return []
    left = {
        "hands": crew.hands,
        "orphans": [task for task in known.orphans if task not in orphans],
        "waiting": {job: count for job, count in known.waiting.items() if job not in jobs},
    }
    return [
        model.Put(values=left),
        *(to(job_of(task), "reallocate", task=task, worker=worker) for task, worker in orphans.items()),
        *(to(job, "allocate_resources", workers=workers) for job, workers in jobs.items()),
    ]


class Crew:
    """Workers while they are given tasks: who is free, the least busy first."""

    def __init__(self, hands: Mapping[str, Hand]) -> None:
        self.hands = dict(hands)
        self.free = self._free()

    def give(self, worker: str, task: str) -> None:
        """The worker has one more task."""
        hand = self.hands[worker]
        self.hands[worker] = replace(hand, tasks=[*hand.tasks, task])
        self.free = self._free()

    def _free(self) -> list[str]:
        with_room = [name for name, hand in self.hands.items() if hand.has_room()]
        return sorted(with_room, key=lambda name: len(self.hands[name].tasks))


def _take_orphans(orphans: list[str], crew: Crew) -> dict[str, str]:
    """Who takes over which task."""
    taken: dict[str, str] = {}
    for task in orphans:
        if not crew.free:
            break
        taken[task] = crew.free[0]
        crew.give(taken[task], task)
    return taken


def _take_jobs(waiting: Mapping[str, int], crew: Crew) -> dict[str, list[str]]:
    """Which jobs get which workers."""
    taken: dict[str, list[str]] = {}
    for job, count in waiting.items():
        if not crew.free:
            break
        if count <= len(crew.free):
            taken[job] = crew.free[:count]
            for number, worker in enumerate(taken[job]):
                crew.give(worker, task_id(job, number))
    return taken


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}
