"""The work of supervision: jobs are validated, tasks are performed in the processes of their workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from headway import Event
from headway.codec import encode
from headway.lifecycles.supervision.chart import Job, Worker
from headway.lifecycles.supervision.process import Part, WorkerProcess
from headway.lifecycles.supervision.worker_rules import TRANSIENT
from headway.worker import Fail, Handlers, Work

MINUTE = 60.0
LARGEST_CARRIED = 10_000
"""Bytes of JSON of a safe point that is carried: each of them stays in the worker's history."""


class CarriedError(Exception):
    """A task stands at a safe point that its worker is to know, and waits to be taken up again there."""

    def __init__(self, reached: Any) -> None:
        super().__init__("the task goes on in the next attempt")
        self.reached = reached


def read_aloud(part: Part) -> dict[str, Any]:
    """A task for want of another one: its lines are gone through, each up to a safe point."""
    lines = part.description.splitlines()
    for number in range(part.reached or 0, len(lines)):
        part.safe_point(number + 1)
    return {"lines": len(lines)}


def handlers_for(perform: str, carried_every: float = MINUTE) -> Handlers:
    """The handlers; `perform` names the function, as `module:function`, that performs tasks.

    Each safe point is kept for the next attempt. One in so many seconds, unless it is large, is carried into
    the worker's data, which outlives the attempt: whoever takes over after the worker was lost or terminated
    begins there.
    """
    handlers = Handlers()

    @handlers
    async def validate_job(_work: Work) -> Event:
        return Job.validate()

    @handlers
    async def run_task(work: Work) -> Any:
        tasks = (await work.context())["tasks"]
        try:
            process = await _process(work, perform, tasks[0]["id"] if tasks else None)
        except OSError as error:
            return Fail("resources_exhausted", f"there is no process for the worker: {error}")
        if not tasks:
            return None
        known, kept = tasks[0]["reached"], work.checkpointed
        keep = _keeping(work, known, carried_every)
        try:
            outcome = await process.perform(tasks[0], known if kept is None else kept, keep)
        except CarriedError as carried:
            return Worker.safe_point({"task": tasks[0]["id"], "reached": carried.reached})
        if not isinstance(outcome, Fail):
            return {"result": outcome}
        if outcome.code not in TRANSIENT:
            await work.let_go()
        return outcome

    return handlers


def _keeping(work: Work, known: Any, carried_every: float) -> Callable[[Any], Awaitable[None]]:
    """What keeps safe points; raises CarriedError when the worker has `known` of none for so many seconds."""
    begun = time.monotonic()

    async def keep(value: Any) -> None:
        is_due = time.monotonic() - begun >= carried_every
        if is_due and value not in (None, known) and len(encode(value)) <= LARGEST_CARRIED:
            raise CarriedError(value)
        await work.checkpoint(value)

    return keep


async def _process(work: Work, perform: str, task: str | None) -> WorkerProcess:
    """The worker's process; one that has died, or is at a task that nobody wants any more, is replaced."""
    held: WorkerProcess | None = work.resource
    if held is not None and held.can_do(task):
        return held
    process = await WorkerProcess.begin(perform, work.instance)
    try:
        await work.hold(process, process.end)
    except BaseException:
        await process.end()
        raise
    return process
