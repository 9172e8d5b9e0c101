"""Supervision on two nodes: what one holds the other can stop, and when one dies the other goes on."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

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


@pytest.mark.mission("SUP-R", "SUP-RUN", "ENG-17")
async def test_when_a_node_is_killed_another_goes_on_with_its_jobs(tmp_path: Path) -> None:
    """`kill -9` of a node: its workers are lost and replaced, and a task goes on from its last safe point."""
    database, notes, count = f"sqlite:///{tmp_path}/headway.db", tmp_path / "notes", 10
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.lifecycles.supervision.node", database), stdout=PIPE, cwd=ROOT
    )
    assert node.stdout is not None
    url, key = (await node.stdout.readline()).decode().strip().split(" ", 1)
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": key}, timeout=30) as client:
        worker = (await client.post("/api/workers")).raise_for_status().json()["id"]
        (await client.post(f"/api/workers/{worker}/start")).raise_for_status()
        asked = {"task_description": f"halt {notes} {count}"}
        job = (await client.post("/api/jobs", json=asked)).raise_for_status().json()["id"]
        process = await begun(tmp_path / "notes.go")
        os.kill(node.pid, signal.SIGKILL)
        await node.wait()
    await gone(process)
    (tmp_path / "notes.go").touch()
    async with serving(database, Ahead()) as service, asyncio.timeout(LONGEST):
        assert (await service.get(job))["status"] == "RUNNING"
        service.let_pass(60)
        service.node.rescue.wake()
        lost = await service.until(worker, "FAILED")
        assert (lost["status"], lost["error"][:4]) == ("FAILED", "lost")
        done = await service.until(job, "COMPLETED")
        assert (done["result"], done["crashes"], done["workers"] != [worker]) == (count, 1, True)
    steps = [line.split()[1] for line in await noted(notes, count)]
    assert steps == [str(number) for number in range(count)]
