"""A service for tests of live events: charts, the real server, and readers of both kinds."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from headway import Actor, Final, State, Statechart
from headway.actions import live, spawn
from headway.api.access import Access
from headway.api.app import application
from headway.api.limits import Limits, LiveLimits
from headway.api.live import hub_of
from headway.api.route import Front
from headway.api.server import serving
from headway.node import Node
from tests.clocks import Ahead

READER = Actor("reader", "service")
Told = dict[str, Any]


class Visit(Statechart, owner="{user}"):
    """Somebody's stay, which is counted in turns."""

    staying = State(initial=True)
    gone = Final()
    turn = staying.stay()
    begin = staying.stay(do=spawn("Chore"))
    call = staying.stay(live=(live("called", "user"), "heard"))
    leave = staying.to(gone)


class Chore(Statechart):
    """Nobody's."""

    open_ = State(initial=True)
    done = Final()
    finish = open_.to(done)


@dataclass
class Place:
    """A running service, and ways to read from it."""

    url: str
    front: Front
    node: Node
    access: Access
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    @property
    def app(self) -> Any:
        """The application behind the front."""
        return self.front.app

    @property
    def hub(self) -> Any:
        """All readers."""
        return hub_of(self.app)

    async def key(self, tenant: str = "acme", *scopes: str) -> str:
        """A key of a tenant, the same each time; a new one for scopes."""
        if scopes or tenant not in self.keys:
            made = (await self.access.keyring.make(tenant, READER, scopes or ("read",))).text
            if scopes:
                return made
            self.keys[tenant] = made
        return self.keys[tenant]

    @asynccontextmanager
    async def socket(
        self, *, tenant: str = "acme", token: str | None = None, **hello: Any
    ) -> AsyncIterator[ClientConnection]:
        """A WebSocket that was welcomed."""
        credential = token or await self.key(tenant)
        async with self.raw_socket() as connection:
            await connection.send(json.dumps({"type": "hello", "token": credential, **hello}))
            assert json.loads(await connection.recv())["type"] == "welcome"
            yield connection

    @asynccontextmanager
    async def raw_socket(self, **options: Any) -> AsyncIterator[ClientConnection]:
        """A WebSocket that has said nothing."""
        address = self.url.replace("http", "ws") + "/v1/live"
        # What a client does not take from its queue would keep it from hearing that the connection ends.
        settings = {"compression": None, "max_queue": None, **options}
        async with websockets.connect(address, **settings) as connection:
            yield connection

    @asynccontextmanager
    async def stream(
        self, *, tenant: str = "acme", last: str | None = None, **query: str
    ) -> AsyncIterator[AsyncIterator[Told]]:
        """A stream of server-sent events."""
        headers = {"Authorization": f"Bearer {await self.key(tenant)}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        async with (
            httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30) as client,
            client.stream("GET", "/v1/events", params=query) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            yield parsed(answer.aiter_lines())

    async def nobody_left(self) -> None:
        """Wait until the service has let all its readers go."""
        while self.hub.readers:  # noqa: ASYNC110 - nobody tells when it has
            await asyncio.sleep(0.001)

    async def visit(self, name: str, turns: int = 0, *, tenant: str = "acme", user: str = "ann") -> None:
        """Create an instance and let it turn."""
        await self.node.engine.create(tenant, name, "Visit", context={"user": user})
        await self.turn(name, turns, tenant=tenant)

    async def turn(self, name: str, turns: int = 1, *, tenant: str = "acme", data: Any = None) -> None:
        """Let an instance turn."""
        for _ in range(turns):
            (await self.node.engine.send(tenant, name, Visit.turn(data))).unwrap()

    async def call(self, name: str, times: int = 1, *, tenant: str = "acme", data: Any = None) -> None:
        """Let an instance say something, twice each time."""
        for _ in range(times):
            (await self.node.engine.send(tenant, name, Visit.call(data))).unwrap()


@asynccontextmanager
async def reading(place: Place, kind: str, **wanted: Any) -> AsyncIterator[Any]:
    """A reader of either kind."""
    source: Any = place.socket(**wanted) if kind == "socket" else place.stream(**wanted)
    async with source as opened:
        if kind == "stream":
            assert (await anext(opened))["type"] == "welcome"
        yield opened


KINDS = pytest.mark.parametrize("kind", ["socket", "stream"])


@asynccontextmanager
async def placed(
    database: str,
    *,
    limits: LiveLimits | None = None,
    clock: Ahead | None = None,
    connections: Limits | None = None,
) -> AsyncIterator[Place]:
    """A service on a free port for the length of a block."""
    async with (
        asyncio.timeout(120),
        Node(database, [Visit, Chore], clock=clock) as node,
        Access(node.engine.store, monotonic=clock.seconds if clock else time.monotonic) as access,
    ):
        front = application(node, access, limits=connections)
        front.app.state.live_limits = limits
        listening = socket.create_server(("127.0.0.1", 0), backlog=2_000)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with serving(front, listening, patience=5):
            yield Place(url, front, node, access)


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[Told]:
    """Server-sent events as they are dispatched, and ids that come without one."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            told = json.loads(fields["data"])
            yield {**told, "last": fields["id"], "kind": fields.get("event", "message")}
        elif "id" in fields:
            yield {"type": fields[""], "last": fields["id"]}
        fields = {}


async def heard(connection: ClientConnection) -> Told:
    """The next message of a WebSocket."""
    told: Told = json.loads(await connection.recv())
    return told


async def events(source: ClientConnection | AsyncIterator[Told], count: int) -> list[Told]:
    """The next events, whatever signs of life there are between them."""
    found: list[Told] = []
    while len(found) < count:
        told = await (heard(source) if isinstance(source, ClientConnection) else anext(source))
        if told["type"] in {"transition", "message"}:
            found.append(told)
    return found


def seqs(found: list[Told]) -> list[tuple[str, int | str]]:
    """What events are about: the number of a step, or the name of a message."""
    return [(each["instance"], each["seq" if each["type"] == "transition" else "name"]) for each in found]


def line(name: str, *numbers: int | str) -> list[tuple[str, int | str]]:
    """Events of one instance."""
    return [(name, number) for number in numbers]
