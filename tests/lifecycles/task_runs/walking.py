"""A node of task runs in a process of its own, which a test can kill.

usage: python -m tests.lifecycles.task_runs.walking DATABASE NAME
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from headway.engine.tenant import Tenant
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.lifecycles.task_runs.runners import ProcessTask, Runner, Runners
from headway.lifecycles.task_runs.runs import TaskRuns
from headway.node import Node

RUN, STRIDE = "r", 2
runners = Runners()


@runners("walker")
class Walker(Runner):
    """Walks so many steps, which it notes in a file; a process that has done two does no more."""

    max_retries = 0

    async def run(self, process: ProcessTask) -> list[Any]:
        """Go on after the last step that was kept."""
        notes, count = Path(process.config["notes"]), process.config["count"]
        for done, number in enumerate(range(process.work.checkpointed or 0, count)):
            with notes.open("a") as file:  # noqa: ASYNC230 - a line
                file.write(f"{number if done < STRIDE else 'waits'}\n")
            if done == STRIDE:
                await asyncio.Event().wait()
            await process.work.checkpoint(number + 1)
        return [count]


def node_at(database: str, name: str) -> Node:
    """A node with the walker."""
    lifecycle = task_runs(runners)
    return Node(database, lifecycle.charts, handlers=lifecycle.handlers, name=name)


async def begin_run(tenant: Tenant, notes: Path, count: int) -> None:
    """A run of one process."""
    await TaskRuns(tenant, runners).create_run("walker", id=RUN, config={"notes": str(notes), "count": count})


async def main(database: str, name: str) -> None:
    """Run until the process is killed; a line says that it runs."""
    async with node_at(database, name):
        print("up", flush=True)  # noqa: T201 - the test reads it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
