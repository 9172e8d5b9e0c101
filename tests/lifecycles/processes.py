"""Taking a process of a task run through its life."""

from __future__ import annotations

from headway.lifecycles.task_runs.rules import PERMANENT, RETRYABLE, TIMEOUT
from headway.statechart.snapshot import Event
from tests.lifecycles.world import World


def go(world: World, *steps: str, to: str = "it") -> None:
    """Take a process through events, ends of its work, errors and limits of time."""
    for name in steps:
        if name == "done":
            world.done(to)
        elif name in {*RETRYABLE, *PERMANENT, TIMEOUT}:
            world.failed(name, to)
        else:
            world.send(Event(name), to)
