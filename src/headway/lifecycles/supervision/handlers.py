"""The work of supervision: jobs are validated, tasks are performed in the processes of their workers."""

from __future__ import annotations

from typing import Any

from headway import Event
from headway.lifecycles.supervision.chart import Job
from headway.lifecycles.supervision.performing import Part
from headway.lifecycles.supervision.process import WorkerProcess
from headway.lifecycles.supervision.worker_rules import TRANSIENT
from headway.worker import Fail, Handlers, Work


def read_aloud(part: Part) -> dict[str, Any]:
    """A task for want of another one: its lines are gone through, each up to a safe point."""
    lines = part.description.splitlines()
    for number in range(part.reached or 0, len(lines)):
        part.safe_point(number + 1)
    return {"lines": len(lines)}


def handlers_for(perform: str) -> Handlers:
    """The handlers; `perform` names the function, as `module:function`, that performs tasks."""
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
        reached = tasks[0]["reached"] if work.checkpointed is None else work.checkpointed
        outcome = await process.perform(tasks[0], reached, work.checkpoint)
        if not isinstance(outcome, Fail):
            return {"result": outcome}
        if outcome.code not in TRANSIENT:
            await work.let_go()
        return outcome

    return handlers


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
