"""Supervision on two nodes: what one holds the other can stop, and when one dies the other goes on."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from headway.worker.rescue import Takeover
from tests.clocks import Ahead
from tests.docs.pages import ROOT
from tests.lifecycles.supervision.serving import (
    LONGEST,
    Service,
    begun,
    gone,
    noted,
    processes_of,
    serving,
    standstill,
)

SOON = timedelta(seconds=3)


@asynccontextmanager
async def two_nodes(database: str) -> AsyncIterator[tuple[Service, Service]]:
    """A node that holds the processes of all workers, and one that holds none."""
    async with serving(database) as holder, serving(database) as other:
        assert other.node.worker is not None
        await other.node.worker.drain()
        yield holder, other


@pytest.mark.mission("SUP-RUN", "ENG-17")
async def test_a_process_is_paused_and_resumed_from_another_node(database: str, tmp_path: Path) -> None:
    """Within a heartbeat the process stands still at a safe point; resumed, the same one goes on."""
    notes, count = tmp_path / "notes", 5_000
    async with two_nodes(database) as (holder, other):
        worker = await holder.worker()
        job = await holder.job(f"steps {notes} {count}")
        await noted(notes, 5)
        assert (await other.supervise(worker, "pause")).json()["status"] == "PAUSED"
        (process,) = processes_of(worker)
        assert len(await standstill(notes)) < count
        assert (await other.supervise(worker, "resume")).json()["status"] == "RUNNING"
        assert (await other.until(job, "COMPLETED"))["result"] == count
        assert {line.split()[0] for line in await noted(notes, count)} == {str(process)}


@pytest.mark.mission("SUP-RUN", "SUP-JX", "ENG-17")
@pytest.mark.parametrize("how", ["terminate", "cancel"])
async def test_a_process_is_ended_from_another_node(database: str, tmp_path: Path, how: str) -> None:
    """Terminating a worker, and canceling its job, on one node kills the process that the other holds."""
    async with two_nodes(database) as (holder, other):
        worker = await holder.worker()
        job = await holder.job(f"wait {tmp_path / 'never'}")
        process = await begun(tmp_path / "never")
        if how == "terminate":
            (await other.supervise(worker, "terminate")).raise_for_status()
        else:
            (await other.client.post(f"/api/jobs/{job}/cancel")).raise_for_status()
        await gone(process)
        expected = ("TERMINATED", "RUNNING") if how == "terminate" else ("RUNNING", "CANCELED")
        assert ((await other.get(worker))["status"], (await other.get(job))["status"]) == expected


@asynccontextmanager
async def killed_at_the_end(database: str, *name: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a node in a process of its own, which gets `kill -9` at the end of the block."""
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.lifecycles.supervision.node", database, *name), stdout=PIPE, cwd=ROOT
    )
    assert node.stdout is not None
    url, key = (await node.stdout.readline()).decode().strip().split(" ", 1)
    try:
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": key}, timeout=30) as client:
            yield client
    finally:
        os.kill(node.pid, signal.SIGKILL)
        await node.wait()


async def begin_job(client: httpx.AsyncClient, description: str) -> tuple[str, str]:
    """A worker on duty, and a job for it."""
    worker = (await client.post("/api/workers")).raise_for_status().json()["id"]
    (await client.post(f"/api/workers/{worker}/start")).raise_for_status()
    job = await client.post("/api/jobs", json={"task_description": description})
    return worker, job.raise_for_status().json()["id"]


@pytest.mark.mission("SUP-R", "SUP-RUN", "ENG-17")
async def test_when_a_node_is_killed_another_goes_on_with_its_jobs(database: str, tmp_path: Path) -> None:
    """`kill -9` of a node: another one goes on with the task of the same worker, from its last safe point."""
    notes, count = tmp_path / "notes", 10
    async with killed_at_the_end(database) as client:
        worker, job = await begin_job(client, f"halt {notes} {count}")
        process = await begun(tmp_path / "notes.go")
    await gone(process)
    (tmp_path / "notes.go").touch()
    async with serving(database, Ahead()) as service, asyncio.timeout(LONGEST):
        assert (await service.get(job))["status"] == "RUNNING"
        service.let_pass(60)
        done = await service.until(job, "COMPLETED")
        assert (done["result"], done["crashes"], done["workers"]) == (count, 0, [worker])
        assert (await service.get(worker))["status"] == "RUNNING"
    steps = [line.split()[1] for line in await noted(notes, count)]
    assert steps == [str(number) for number in range(count)]


@pytest.mark.mission("SUP-R", "SUP-RUN", "ENG-10", "ENG-17")
async def test_a_job_survives_five_deaths_of_its_service(database: str, tmp_path: Path) -> None:
    """Each time the node comes back it goes on at once from the last safe point; no crash is counted."""
    notes, kills, stride = tmp_path / "notes", 5, 3
    count = stride * (kills + 1)
    worker = job = ""
    up = []
    async with asyncio.timeout(LONGEST):
        for round_ in range(kills):
            async with killed_at_the_end(database, "mill") as client:
                up.append(datetime.now(UTC))
                if not job:
                    worker, job = await begin_job(client, f"stride {notes} {count} {stride}")
                await noted(notes, (stride + 1) * (round_ + 1))
    async with serving(database, name="mill") as service:
        up.append(datetime.now(UTC))
        done = await service.until(job, "COMPLETED")
        assert (done["result"], done["crashes"], done["workers"]) == (count, 0, [worker])
        told = await service.node.engine.history("default", worker, limit=1_000)
    retried = [row for row in told if row.transition == "retry"]
    assert [row.reason for row in retried] == [f"host_lost: host lost {n} of 20" for n in range(1, kills + 1)]
    # The leases of the process before would have lasted for 12 s at least.
    assert all(row.at - begun < SOON for row, begun in zip(retried, up[1:], strict=True))
    steps = [line.split()[1] for line in await noted(notes, count + kills)]
    assert [step for step in steps if step != "waits"] == [str(number) for number in range(count)]


@pytest.mark.mission("SUP-RUN", "ENG-10", "ENG-17")
async def test_two_living_nodes_of_one_name_take_nothing_from_each_other(
    database: str, tmp_path: Path
) -> None:
    """By mistake a second node has the name of the first: it leaves the first one's task alone."""
    let_go = tmp_path / "go"
    async with serving(database, name="mill") as first:
        worker = await first.worker()
        job = await first.job(f"wait {let_go}")
        await begun(let_go)
        async with serving(database, name="mill") as second:
            [takeover] = [each for each in second.node.services if isinstance(each, Takeover)]
            await takeover.turn()
            await second.node.rescue.turn()
            let_go.touch()
            assert (await first.until(job, "COMPLETED"))["crashes"] == 0
        told = await first.node.engine.history("default", worker, limit=1_000)
    assert "retry" not in {row.transition for row in told}
