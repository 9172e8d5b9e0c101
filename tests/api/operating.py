"""A service for tests of operations: work that fails, timers, a quota, and a destination that refuses."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from headway import Actor, Final, No, Retry, Run, State, Statechart, View, any_live
from headway.actions import add
from headway.api.access import Access
from headway.api.app import application
from headway.api.server import serving
from headway.api.workers import remote_of
from headway.errors import PermanentError
from headway.node import Node
from headway.outbox.destination import Subscriber
from headway.outbox.message import Message
from headway.statechart.model import Fact
from tests.api.serving import ROOT, UNHURRIED, Service, client_of

OPERATOR = Actor("olga", "person", frozenset({"clerk"}))
WORKER = Actor("payments", "service")


def has_room(view: View) -> bool | No:
    """Three may be under way at once."""
    return view.facts["under_way"] < 3 or No("three are under way")


class Order(Statechart, cancel="withdraw", facts=(Fact(name="under_way", kind="counter", key="under_way"),)):
    """An order that is paid for."""

    placed = State(initial=True)
    held = State()
    paying = State(run=Run("pay", retry=Retry(3, on="FLAKY", base="1h")))
    paid, failed, withdrawn = Final(), Final(), Final()

    pay = placed.to(paying)
    hold = placed.to(held, by="clerk", when=has_room, do=add("under_way"))
    forget = placed.after("2d").to(failed)
    nudge = placed.stay(counts="nudges", emit="order.nudged")
    settle = paying.on_done.to(paid)
    fail = paying.on_error.to(failed)
    withdraw = (placed | paying).to(withdrawn)


class Note(Statechart):
    """Something that cannot be cancelled."""

    open_, gone = State(initial=True), Final()
    drop = any_live.to(gone)


CHARTS = (Order, Note)


@dataclass
class Shop:
    """Takes messages, unless it is told to refuse them."""

    refuses: bool = False
    taken: list[str] = field(default_factory=list)

    async def take(self, message: Message) -> None:
        """Take a message."""
        if self.refuses:
            raise PermanentError("the shop is closed")
        self.taken.append(message.instance)


@dataclass
class Floor:
    """A running service, and what its messages go to."""

    service: Service
    shop: Shop

    @property
    def node(self) -> Node:
        """What runs it."""
        return self.service.node

    @asynccontextmanager
    async def operator(self, tenant: str = "default") -> AsyncIterator["Desk"]:
        """Someone who operates."""
        async with self.service.as_("operate", tenant=tenant, actor=OPERATOR) as client:
            yield Desk(client)

    async def orders(self, *names: str, tenant: str = "default", chart: str = "Order") -> None:
        """Begin orders."""
        for name in names:
            (await self.node.engine.create(tenant, name, chart)).unwrap()

    async def failing(self, name: str, tenant: str = "default") -> str:
        """The id of work that has failed once and waits for an hour."""
        await self.orders(name, tenant=tenant)
        (await self.node.engine.send(tenant, name, Order.pay())).unwrap()
        async with self.service.as_("work", tenant=tenant, actor=WORKER) as client:
            claimed = await client.post("/v1/work/claim", json={"worker": "w", "handlers": ["pay"]})
            [item] = claimed.json()["items"]
            body = {"worker": "w", "attempt": 1, "code": "FLAKY"}
            failed = await client.post(f"/v1/work/{quote(item['id'], safe='')}/fail", json=body)
            assert failed.status_code == 200, failed.text
        work: str = item["id"]
        return work

    @asynccontextmanager
    async def waiting_claim(self) -> AsyncIterator[asyncio.Task[httpx.Response]]:
        """A claim of a remote worker that waits: it does not poll, so it must be woken."""
        async with self.operator() as desk, self.service.as_("work", actor=WORKER) as client:
            asked = {"worker": "w", "handlers": ["pay"], "wait": 20}
            claiming = asyncio.create_task(client.post("/v1/work/claim", json=asked))
            while not any(each["waiting"] for each in (await desk.get("workers"))["items"]):
                pass
            polling = remote_of(self.service.app.app).waiting._polling
            assert polling
            polling.cancel()
            async with asyncio.timeout(18):
                yield claiming

    async def dead_letters(self, *names: str, tenant: str = "default") -> None:
        """Orders whose messages nobody has taken."""
        self.shop.refuses = True
        await self.orders(*names, tenant=tenant)
        for name in names:
            (await self.node.engine.send(tenant, name, Order.nudge())).unwrap()
        while len(await self.node.letters.list(tenant, limit=1_000)) < len(names):  # noqa: ASYNC110 - a relay tells nobody
            await asyncio.sleep(0.005)
        self.shop.refuses = False


@dataclass
class Desk:
    """Calls the routes of operators."""

    client: httpx.AsyncClient

    async def get(self, path: str, **params: Any) -> Any:
        """What a route tells."""
        answer = await self.client.get(f"/v1/operations/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, key: str | None = None, **body: Any) -> httpx.Response:
        """A call."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.client.post(f"/v1/operations/{path}", json=body, headers=headers)

    async def done(self, path: str, key: str | None = None, **body: Any) -> Any:
        """What a call that goes through tells."""
        answer = await self.post(path, key, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def operated(database: str) -> AsyncIterator[Floor]:
    """A service on a free port for the length of a block."""
    shop = Shop()
    async with (
        asyncio.timeout(120),
        Node(database, CHARTS, destinations=[Subscriber("shop", shop.take)]) as node,
        Access(node.engine.store, rate=UNHURRIED) as access,
    ):
        admin = await access.keyring.make("default", ROOT, ["admin"])
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        front = application(node, access)
        async with serving(front, listening, patience=2), client_of(url, admin.text) as client:
            yield Floor(Service(url, node, access, client, front), shop)
