"""Runners whose methods are not async: they wait for no thread, and a hanging one holds nobody up."""

import subprocess
import sys
from threading import Barrier, Event

import pytest

from headway.lifecycles.task_runs.runners import Process, ProcessTask, Runner, Runners, RunTask
from tests.lifecycles.task_runs.place import office_at
from tests.worker.world import until

MANY = 40
runners = Runners()
meeting = Barrier(MANY, timeout=20)
release = Event()


@runners("meeting")
class Meeting(Runner):
    """Processes that end only when all of them have begun."""

    max_retries = 0

    def prepare(self, run: RunTask) -> None:
        """As many as meet."""
        run.add(*(Process(str(number)) for number in range(MANY)))

    def run(self, process: ProcessTask) -> list[str]:
        """Wait for the others."""
        meeting.wait()
        return [process.name]


@runners("stuck")
class Stuck(Runner):
    """A process whose thread goes on when its time is over."""

    timeout_seconds = 0.05
    max_retries = 0

    def run(self, process: ProcessTask) -> None:  # noqa: ARG002 - a runner's signature
        """Wait until the test is over."""
        release.wait()


@pytest.mark.mission("TSK-F3", "TSK-M")
async def test_processes_in_threads_wait_for_no_thread(database: str) -> None:
    """All that a worker has taken run at once, so the time of none runs out while it waits for its turn."""
    async with office_at(database, runners) as office:
        run = await office.post("/task-runs", runner="meeting")
        ended = await office.until(f"/task-runs/{run['id']}", "Completed", "Failed")
        assert ended["task_processes_by_status"] == {"Completed": MANY}


@pytest.mark.mission("TSK-F3")
async def test_a_thread_that_hangs_keeps_its_place_and_no_one_elses(database: str) -> None:
    """Its process has timed out and the next run completes; the worker counts it until it ends."""
    async with office_at(database, runners) as office:
        worker = office.node.worker
        assert worker is not None
        stuck = await office.post("/task-runs", runner="stuck")
        await office.until(f"/task-runs/{stuck['id']}", "Failed")
        await until(lambda: worker.running == 1)
        run = await office.post("/task-runs", runner="meeting")
        await office.until(f"/task-runs/{run['id']}", "Completed")
        assert worker.running >= 1
        release.set()
        await until(lambda: worker.running == 0)
    release.clear()


HANGS = """
import asyncio, sys, threading
from headway.lifecycles.task_runs.runs import TaskRuns
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.lifecycles.task_runs.runners import Runner, Runners

runners = Runners()

@runners("stuck")
class Stuck(Runner):
    timeout_seconds, max_retries = 0.05, 0
    def run(self, process):
        threading.Event().wait()

async def main():
    from headway.node import Node
    lifecycle = task_runs(runners)
    async with Node(sys.argv[1], lifecycle.charts, handlers=lifecycle.handlers) as node:
        await TaskRuns(node.tenant(), runners).create_run("stuck", id="r")
        await node.tenant().until("r", "Failed")

asyncio.run(main())
print("the end")
"""


@pytest.mark.mission("TSK-F3")
def test_a_program_ends_although_a_thread_hangs(database: str) -> None:
    """Nobody waits for a thread whose process has timed out, when the program ends."""
    done = subprocess.run(
        [sys.executable, "-c", HANGS, database], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("the end\n", 0), done.stderr
