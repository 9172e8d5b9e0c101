"""A service for tests: the sample charts on the real server, and clients with keys."""

import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from headway import Actor
from headway.api.access import Access, Rate, Verifier
from headway.api.app import application
from headway.api.limits import Limits
from headway.api.route import Front
from headway.api.server import serving as served
from headway.node import Node
from headway.statechart.chart import Charted
from tests.api.charts import CHARTS

UNHURRIED = Rate(1_000_000, 1_000_000)
ROOT = Actor("root", "person", frozenset({"employee", "manager"}))


@dataclass
class Service:
    """A running service: where it is, what runs it, and a client with an admin key of `default`."""

    url: str
    node: Node
    access: Access
    client: httpx.AsyncClient
    app: Front

    async def key(self, *scopes: str, tenant: str = "default", actor: Actor = ROOT) -> str:
        """The text of a new key."""
        return (await self.access.keyring.make(tenant, actor, scopes)).text

    @asynccontextmanager
    async def as_(
        self, *scopes: str, tenant: str = "default", actor: Actor = ROOT
    ) -> AsyncIterator[httpx.AsyncClient]:
        """A client with a new key."""
        key = await self.key(*scopes, tenant=tenant, actor=actor)
        async with client_of(self.url, key) as client:
            yield client


def client_of(url: str, key: str) -> httpx.AsyncClient:
    """A client with a key."""
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@asynccontextmanager
async def serving(
    database: str,
    charts: Iterable[Charted] = CHARTS,
    *,
    limits: Limits | None = None,
    rate: Rate = UNHURRIED,
    patience: float = 2,
    monotonic: Callable[[], float] = time.monotonic,
    tokens: Verifier | None = None,
    routers: Sequence[Any] = (),
    actor: Actor = ROOT,
) -> AsyncIterator[Service]:
    """A service on a free port for the length of a block."""
    async with (
        Node(database, charts, secrets=["a secret for links"]) as node,
        Access(node.engine.store, rate=rate, tokens=tokens, monotonic=monotonic) as access,
    ):
        admin = await access.keyring.make("default", actor, ["admin"])
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = application(node, access, limits=limits, routers=routers)
        async with (
            served(app, listening, patience=patience),
            client_of(url, admin.text) as client,
        ):
            yield Service(url, node, access, client, app)
