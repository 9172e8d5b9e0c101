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
    """A safe point is due for the worker's data; the task waits there for its next attempt."""

    def __init__(self, reached: Any) -> None:
        super().__init__("the task continues in the next attempt")
        self.reached = reached


def read_aloud(part: Part) -> dict[str, Any]:
    """The default task: it goes through its lines, with a safe point after each."""
    lines = part.description.splitlines()
    for number in range(part.reached or 0, len(lines)):
        part.safe_point(number + 1)
    return {"lines": len(lines)}


def handlers_for(perform: str, carried_every: float = MINUTE) -> Handlers:
    """The handlers; `perform` names the function, as `module:function`, that performs tasks.

    Each safe point is kept for the next attempt. Every `carried_every` seconds one is also stored in the
    worker's data, unless it is large. It outlives the attempt: if the worker is lost or terminated, the next
    one begins there.
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
            await work.release_resource()
        return outcome

    return handlers


def _keeping(work: Work, known: Any, carried_every: float) -> Callable[[Any], Awaitable[None]]:
    """A function that keeps safe points; it raises CarriedError when one is due for the worker's data."""
    begun = time.monotonic()

    async def keep(value: Any) -> None:
        is_due = time.monotonic() - begun >= carried_every
        if is_due and value not in (None, known) and len(encode(value)) <= LARGEST_CARRIED:
            raise CarriedError(value)
        await work.checkpoint(value)

    return keep


async def _process(work: Work, perform: str, task: str | None) -> WorkerProcess:
    """The worker's process; one that has died, or runs a task that is no longer wanted, is replaced."""
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
