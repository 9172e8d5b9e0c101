"""Task runs whose service is killed."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headway.lifecycles.task_runs.chart import TaskRun
from headway.lifecycles.task_runs.runs import TaskRuns
from headway.store.queries import InstanceQuery
from tests.docs.pages import ROOT
from tests.lifecycles.supervision.serving import noted
from tests.lifecycles.task_runs.walking import RUN, STRIDE, begin_run, node_at, runners

SOON = timedelta(seconds=3)


async def killed_after(database: str, notes: Path, lines: int) -> datetime:
    """Kill a service as soon as so many lines are noted; when it was up."""
    module = "tests.lifecycles.task_runs.walking"
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, database, "mill"), stdout=PIPE, cwd=ROOT
    )
    try:
        assert service.stdout is not None
        await service.stdout.readline()
        up = datetime.now(UTC)
        await noted(notes, lines)
    finally:
        service.kill()
        await service.wait()
    return up


@pytest.mark.mission("TSK-F2", "TSK-ERR", "ENG-10", "ENG-17")
async def test_a_process_without_retries_survives_four_deaths_of_its_service(
    database: str, tmp_path: Path
) -> None:
    """`max_retries` 0: it goes on from its checkpoint each time, at once, and no error is counted."""
    notes, kills = tmp_path / "notes", 4
    count = STRIDE * (kills + 1)
    async with node_at(database, "mill").opened() as tenant:
        await begin_run(tenant, notes, count)
    up = [await killed_after(database, notes, (STRIDE + 1) * (n + 1)) for n in range(kills)]
    async with node_at(database, "mill") as node, asyncio.timeout(60):
        up.append(datetime.now(UTC))
        await node.tenant().until(RUN, "Completed", "Failed")
        run = await TaskRuns(node.tenant(), runners).get(TaskRun, RUN)
        [process] = await node.engine.list(InstanceQuery(tenant="default", parent=RUN))
        told = await node.engine.history("default", process.id, limit=1_000)
    assert (run.status, run.errors) == ("Completed", 0)
    retried = [row for row in told if row.transition == "retry"]
    assert [row.reason for row in retried] == [f"host_lost: host lost {n} of 20" for n in range(1, kills + 1)]
    # The leases of the process before would have lasted for 12 s at least.
    assert all(row.at - begun < SOON for row, begun in zip(retried, up[1:], strict=True))
    steps = await noted(notes, count + kills)
    assert [step for step in steps if step != "waits"] == [str(number) for number in range(count)]
