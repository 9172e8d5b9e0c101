"""A service for tests of remote workers: a chart with work, the real server, and workers with keys."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from headway import Actor, Final, Retry, Run, State, Statechart
from headway.api.access import Access
from headway.api.app import application
from headway.api.server import serving
from headway.api.workers import remote_of
from headway.node import Node

WORKER = Actor("payments", "service")
Told = dict[str, Any]


def keep(view: Any) -> dict[str, Any]:
    """The result of work, into the context."""
    return {"result": view.payload}


class Payment(Statechart, cancel="stop"):
    """Money on its way."""

    paying = State(
        initial=True,
        run=Run(
            "pay",
            timeout="1h",
            retry=Retry(1, on="LOST", base="0s"),
            lost_code="LOST",
            timeout_code="SLOW",
        ),
        progress=(0, 100),
    )
    checking = State(run=Run("check", queue="slow"))
    paid, failed, stopped = Final(), Final(), Final()

    done = paying.on_done.to(paid, do=keep)
    doubtful = paying.to(checking)
    checked = checking.on_done.to(paid)
    broken = paying.on_error.to(failed, do=keep)
    stop = (paying | checking).to(stopped)


@dataclass
class Place:
    """A running service."""

    url: str
    app: Any
    node: Node
    access: Access

    @asynccontextmanager
    async def worker(
        self, name: str = "one", *, tenant: str = "acme", actor: Actor = WORKER
    ) -> AsyncIterator["Worker"]:
        """A worker with a key of its own."""
        key = (await self.access.keyring.make(tenant, actor, ("work",))).text
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=40) as client:
            yield Worker(client, name)

    async def waiting(self, count: int) -> None:
        """Wait until so many claims stand in line."""
        claims = remote_of(self.app).waiting
        while sum(map(len, claims._lines.values())) != count:  # noqa: ASYNC110 - nobody tells when they do
            await asyncio.sleep(0.001)

    async def pay(self, name: str, amount: int = 5, *, tenant: str = "acme") -> None:
        """Begin a payment."""
        (await self.node.engine.create(tenant, name, "Payment", context={"amount": amount})).unwrap()


@dataclass
class Worker:
    """One that speaks the protocol."""

    client: httpx.AsyncClient
    name: str

    async def claim(self, **asked: Any) -> list[Told]:
        """What there is."""
        answer = await self.post("claim", handlers=["pay"], **asked)
        assert answer.status_code == 200, answer.text
        items: list[Told] = answer.json()["items"]
        return items

    async def say(self, work: Told, what: str, **more: Any) -> httpx.Response:
        """Something about work that was claimed."""
        return await self.post(f"{quote(work['id'], safe='')}/{what}", attempt=work["attempt"], **more)

    async def post(self, path: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        """A call."""
        return await self.client.post(
            f"/v1/work/{path}", json={"worker": self.name, **body}, headers=headers or {}
        )


@asynccontextmanager
async def placed(database: str) -> AsyncIterator[Place]:
    """A service on a free port for the length of a block."""
    async with asyncio.timeout(120), Node(database, [Payment]) as node, Access(node.engine.store) as access:
        front = application(node, access)
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with serving(front, listening, patience=5):
            yield Place(url, front.app, node, access)
