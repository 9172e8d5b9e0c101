"""Task runs on the real server, with a worker in the same process and a client."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from headway import Actor
from headway.api.access import Access
from headway.api.app import application
from headway.api.route import Front
from headway.api.server import serving
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.lifecycles.task_runs.runners import Runners
from headway.lifecycles.task_runs.runs import TaskRuns
from headway.node import Node
from headway.statechart.authoring.statechart import Statechart
from tests.api.serving import UNHURRIED, client_of
from tests.lifecycles.news import news_of

ANN = Actor("ann", "person", frozenset({"user"}))
LONGEST = 120
CHARTS: dict[str, type[Statechart]] = {
    "task-runs": TaskRun,
    "task-processes": TaskProcess,
    "workflow-runs": WorkflowRun,
}


@dataclass
class Office:
    """A running service with its client; what is awaited is looked at after each commit of its node."""

    node: Node
    client: httpx.AsyncClient
    access: Access
    url: str
    runners: Runners
    front: Front

    @property
    def desk(self) -> TaskRuns:
        """The tasks of the default tenant, without HTTP."""
        return TaskRuns(self.node.tenant(), self.runners)

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        """The answer to a call that must go well."""
        answer = await self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return dict(answer.json())

    async def get(self, path: str) -> dict[str, Any]:
        """What is read."""
        answer = await self.client.get(path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def apply(self, path: str, action: str, **body: Any) -> httpx.Response:
        """The answer to an action."""
        return await self.client.post(f"{path}/apply-action", json={"action": action, **body})

    async def processes(self, run: str) -> dict[str, dict[str, Any]]:
        """The processes of a run by their names."""
        page = await self.get(f"/task-runs/{run}/processes?limit=500")
        return {each["name"]: each for each in page["items"]}

    async def until(self, path: str, *statuses: str) -> dict[str, Any]:
        """Wait until something has one of the statuses."""
        return await self.when(path, lambda it: it["status"] in statuses)

    async def when(self, path: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until something holds of what is read."""
        with news_of(self.node.engine) as changed:
            async with asyncio.timeout(LONGEST):
                while not holds(it := await self.get(path)):
                    await changed.wait()
                    changed.clear()
        return it


@asynccontextmanager
async def office_at(database: str, runners: Runners) -> AsyncIterator[Office]:
    """A service on a free port for the length of a block."""
    lifecycle = task_runs(runners)
    async with (
        Node(database, lifecycle.charts, handlers=lifecycle.handlers) as node,
        Access(node.engine.store, rate=UNHURRIED) as access,
    ):
        assert node.worker is not None
        node.worker.grace = 0.1
        key = await access.keyring.make("default", ANN, ["read", "send"])
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = application(node, access, routers=lifecycle.routers)
        async with serving(app, listening, patience=2), client_of(url, key.text) as client:
            yield Office(node, client, access, url, runners, app)
