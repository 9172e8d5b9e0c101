"""Supervision on the real server: a client, and what tests wait for and kill."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx

from headway import Actor
from headway.api.access import Access, Rate
from headway.api.app import application
from headway.api.metrics import expose
from headway.api.server import serving as served
from headway.lifecycles.supervision.lifecycle import supervision
from headway.node import Node
from headway.telemetry.metrics import Metrics
from tests.clocks import Ahead
from tests.lifecycles.news import news_of

BOSS = Actor("boss", "person", frozenset({"supervisor", "user"}))
PERFORM = "tests.lifecycles.supervision.tasks:perform"
UNHURRIED = Rate(1_000_000, 1_000_000)
LONGEST = 120
T = TypeVar("T")


@dataclass
class Service:
    """A running service, and a client who is supervisor and user."""

    node: Node
    client: httpx.AsyncClient
    access: Access
    url: str
    clock: Ahead | None = None

    def let_pass(self, seconds: float) -> None:
        """Set the clock ahead, so that what is due by then happens now; leases of work last for 15 s."""
        assert self.clock is not None
        self.clock.ahead += timedelta(seconds=seconds)
        for service in self.node.services:
            service.wake()

    async def worker(self, *, start: bool = True, **wanted: Any) -> str:
        """A new worker, on duty unless it is not to be started."""
        made = (await self.client.post("/api/workers", json=wanted)).raise_for_status().json()
        if start:
            (await self.client.post(f"/api/workers/{made['id']}/start")).raise_for_status()
        name: str = made["id"]
        return name

    async def job(self, description: str, **wanted: Any) -> str:
        """A new job."""
        body = {"task_description": description, **wanted}
        made = (await self.client.post("/api/jobs", json=body)).raise_for_status().json()
        name: str = made["id"]
        return name

    async def get(self, name: str) -> dict[str, Any]:
        """A worker or a job as it is now."""
        kind = "workers" if name.startswith("w_") else "jobs"
        shown: dict[str, Any] = (await self.client.get(f"/api/{kind}/{name}")).raise_for_status().json()
        return shown

    async def until(self, name: str, *states: str) -> dict[str, Any]:
        """A worker or job in one of these states, or ended; fails when that takes too long."""
        async with asyncio.timeout(LONGEST):
            await self.node.tenant().until(name, *states)
        return await self.get(name)

    async def heard(self, name: str, event: str, times: int = 1) -> None:
        """Wait until a worker or job has taken an event so many times on this node, whoever sent it."""
        with news_of(self.node.engine) as changed:
            async with asyncio.timeout(LONGEST):
                while await self._taken(name, event) < times:
                    await changed.wait()
                    changed.clear()

    async def _taken(self, name: str, event: str) -> int:
        rows = await self.node.engine.history("default", name, limit=1_000)
        return sum(row.event == event for row in rows)

    async def supervise(self, worker: str, action: str, **body: Any) -> httpx.Response:
        """Pause, resume or terminate."""
        return await self.client.post(f"/api/supervisor/workers/{worker}/{action}", json=body)


async def eventually(look: Callable[[], T | None]) -> T:
    """What another process brings about, of which nobody tells this one: looked for again and again."""
    async with asyncio.timeout(LONGEST):
        while (found := look()) is None:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)
    return found


async def begun(notes: Path) -> int:
    """The process that has begun a task which waits for a file."""
    beginning = notes.with_suffix(".begun")
    return await eventually(lambda: int(beginning.read_text()) if beginning.exists() else None)


async def gone(process: int) -> None:
    """Wait until a process has ended."""
    await eventually(lambda: None if Path(f"/proc/{process}").exists() else True)


async def noted(notes: Path, at_least: int) -> list[str]:
    """What a task has noted, when it has noted so much."""

    def look() -> list[str] | None:
        found = notes.read_text().splitlines() if notes.exists() else []
        return found if len(found) >= at_least else None

    return await eventually(look)


async def noted_times(tried: Path, at_least: int) -> None:
    """Wait until a task was tried so many times."""
    await eventually(lambda: True if tried.exists() and len(tried.read_text()) >= at_least else None)


async def standstill(notes: Path) -> list[str]:
    """What a task has noted when it notes nothing more: two looks, with time for many steps between them."""
    before: list[str] | None = None
    async with asyncio.timeout(LONGEST):
        while before != (before := await noted(notes, 0)):  # noqa: ASYNC110 - nobody tells of what does not happen
            await asyncio.sleep(0.3)
    return before or []


def processes_of(worker: str) -> list[int]:
    """The processes of a worker on this machine."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True)  # noqa: S607 - every system has it
    return [
        int(line.split()[0])
        for line in listed.stdout.splitlines()
        if "supervision.process" in line and line.split()[-1] == worker
    ]


@asynccontextmanager
async def serving(
    database: str, clock: Ahead | None = None, *, carried_every: float = 60, name: str = ""
) -> AsyncIterator[Service]:
    """Supervision on a free port for the length of a block."""
    lifecycle = supervision(PERFORM, carried_every=carried_every)
    async with (
        Node(database, lifecycle.charts, handlers=lifecycle.handlers, name=name, clock=clock) as node,
        Access(node.engine.store, rate=UNHURRIED) as access,
    ):
        assert node.worker is not None
        node.worker.grace = 0
        key = (await access.keyring.make("default", BOSS, ["admin"])).text
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        front = application(node, access, routers=lifecycle.routers)
        metrics = Metrics(node, meters=lifecycle.meters)
        metrics.start()
        expose(front, metrics, "")
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            served(front, listening, patience=2),
            httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client,
        ):
            yield Service(node, client, access, url, clock)
