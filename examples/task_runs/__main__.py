"""The program: runs the pipeline, shows how far it is, what went wrong, and the result.

usage: python -m examples.task_runs [database]
"""

import asyncio
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from examples.task_runs.pipeline import PAGES, lifecycle, lost, runners
from headway import Snapshot
from headway.lifecycles.task_runs import RunState, TaskProcess, TaskRun, TaskRuns
from headway.node import Node, Tenant

DATABASE = "sqlite:///:memory:"
ENDS = ("Completed", "Failed", "Stopped", "Skipped")
EXPECTED = 2 * sum(PAGES.values()) + len(PAGES)


async def main(console: Console, database: str = DATABASE) -> None:
    """Run all documents; one page is lost, so the run fails; it is found, and the run is restarted."""
    async with Node(database, lifecycle.charts, handlers=lifecycle.handlers) as node:
        tenant = node.tenant()
        runs = TaskRuns(tenant, runners)
        run = (await runs.create_run("documents")).instance
        await follow(tenant, run, console)
        await show(runs, run, console)
        console.print("The page is found.")
        lost.clear()
        await runs.apply(TaskRun, run, "restart")
        await follow(tenant, run, console)
        await show(runs, run, console)


async def follow(tenant: Tenant, run: str, console: Console) -> None:
    """A bar until the run has ended; every change of a process moves it."""
    columns = (TextColumn("{task.description:>11}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=EXPECTED)
        ended = asyncio.create_task(tenant.until(run, *ENDS))
        while not ended.done():
            _draw(progress, bar, await tenant.get(run))
            await asyncio.wait([ended], timeout=0.05)
        _draw(progress, bar, await ended)


def _draw(progress: Progress, bar: Any, run: Snapshot) -> None:
    phase = ("preparing", "reading", "marking", "summing up")[run.context["phase"]]
    progress.update(bar, completed=run.children.get("Completed", 0), description=phase)


async def show(runs: TaskRuns, run: str, console: Console) -> None:
    """Where the run stands, which processes had trouble, and what it has brought out."""
    it = await runs.get(TaskRun, run)
    counts = ", ".join(f"{count} {status}" for status, count in it.existing.items())
    console.print(f"The run is [bold]{it.status}[/]: {counts}; {it.errors} errors.", soft_wrap=True)
    for each in await troubled(runs, run):
        name, restarts = each.snapshot.context["name"], each.snapshot.counters.get("restart_count", 0)
        console.print(f"  {name}: {each.status}, restarted {restarts} ×")
    if lines := it.snapshot.context["output_artifacts"]:
        table = Table(*lines[0], title="Result", title_justify="left")
        for line in lines:
            table.add_row(*map(str, line.values()))
        console.print(table)


async def troubled(runs: TaskRuns, run: str) -> list[RunState]:
    """The processes that had errors."""
    found: list[RunState] = []
    after = None
    while page := await runs.list(TaskProcess, parent=run, after=after, limit=100):
        found += [each for each in page if each.errors]
        after = page[-1].snapshot.instance
    return found


if __name__ == "__main__":
    asyncio.run(main(Console(), *sys.argv[1:2]))
