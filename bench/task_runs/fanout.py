"""One task run with many processes that do nothing, from its creation until its hook has ended it."""

import asyncio
from time import perf_counter

from bench.engine.places import Places
from bench.harness import WrongResult
from headway.lifecycles.task_runs.chart import TaskRun
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.lifecycles.task_runs.runners import Process, ProcessTask, Runner, Runners, RunTask
from headway.lifecycles.task_runs.runs import TaskRuns
from headway.node import Node

CAPACITY = 1_000
LONGEST = 120
runners = Runners()


@runners("no_op")
class NoOp(Runner):
    """As many processes as its config says, each of which does nothing."""

    async def prepare(self, run: RunTask) -> None:
        """Name them."""
        run.add(*(Process(str(number)) for number in range(run.config["count"])))

    async def run(self, process: ProcessTask) -> None:
        """Do nothing."""

    async def after_all_completed(self, run: RunTask) -> None:
        """Nothing is left to do."""


class FanOut:
    """A node with a worker; each round has a new database."""

    def __init__(self, places: Places, store: str) -> None:
        self._places, self._store = places, store
        self._lifecycle = task_runs(runners)

    def run(self, cycles: int) -> float:
        """A run with that many processes; the seconds from its creation to its completion."""
        address = self._places.place(self._store).address
        return self._places.run(
            self._fan_out(address if "://" in address else f"sqlite:///{address}", cycles)
        )

    def verify(self) -> None:
        """The clock stopped when the run was completed with all processes."""

    async def _fan_out(self, address: str, count: int) -> float:
        charts, handlers = self._lifecycle.charts, self._lifecycle.handlers
        async with Node(address, charts, handlers=handlers, capacity=CAPACITY) as node:
            tenant = node.tenant()
            runs = TaskRuns(tenant, runners)
            begin = perf_counter()
            run = await runs.create_run("no_op", config={"count": count})
            await asyncio.wait_for(tenant.until(run.instance, "Completed", "Failed"), LONGEST)
            elapsed = perf_counter() - begin
            found = (await runs.get(TaskRun, run.instance)).existing
        if found != {"Completed": count}:
            raise WrongResult(f"{found} instead of {count} completed")
        return elapsed
