"""A process of ours: a node with its engine, worker, timers, rescue, pruning and relays, as it really is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from headway.engine.engine import Engine
from headway.engine.facts import Given
from headway.engine.lease import SoleService
from headway.engine.service import Service
from headway.node import Node
from headway.outbox.destination import Destination
from headway.outbox.instances import InstanceDestination
from headway.outbox.relay import Relay
from headway.statechart.chart import Charted
from headway.testing.simulate.database import Link
from headway.testing.simulate.loop import Loop, context_of
from headway.testing.simulate.receivers import Recorded
from headway.testing.simulate.witness import Witness
from headway.worker.handlers import Handlers
from headway.worker.retention import Retention
from headway.worker.worker import Worker

SOLE_LEASE = 3.0
RELAY_LEASE = "6s"
REST = 2.5
"""Services look by themselves only now and then: most looks find nothing, and cost as much as others."""
CAPACITY = 4
KEPT = Retention(messages="5s")
KEPT_SHORTLY = Retention(messages="5s", instances="2s")


class Parts(NamedTuple):
    """What every process is made of."""

    handlers: Handlers
    destinations: Callable[[], list[Destination]]
    record: Callable[[Destination], Recorded]
    facts: Given
    loop: Loop
    witness: Witness
    retention: Retention


class Process(Node):
    """A node that reaches the database by a link; leases are short, so that losing them takes no time."""

    def __init__(self, name: str, link: Link, charts: Sequence[Charted], parts: Parts) -> None:
        super().__init__(link, charts, facts=parts.facts, name=name, retention=parts.retention)
        self.name, self.link, self._loop = name, link, parts.loop
        self.worker = Worker(
            self.engine,
            parts.handlers,
            name=name,
            capacity=CAPACITY,
            grace=0.5,
            patience=0.5,
            monotonic=parts.loop.time,
        )
        inner = (InstanceDestination(self.engine), *parts.destinations())
        self.relays = [Relay(self.engine, parts.record(each), lease=RELAY_LEASE) for each in inner]
        for service in self.services:
            if isinstance(service, Service):
                service.longest_rest = max(service.longest_rest, REST)
            if isinstance(service, SoleService):
                service.lasts = SOLE_LEASE
        if parts.retention.instances is not None:
            self.pruning.longest_rest = REST
        parts.witness.watch(self.engine)
        self._callers: dict[asyncio.Future[Any], None] = {}

    def spawn(self, call: Callable[[], Any]) -> asyncio.Task[Any]:
        """Begin something in this process."""
        return self._loop.create_task(call(), context=context_of(self.name))

    async def serve(self, call: Callable[[Engine], Awaitable[Any]]) -> Any:
        """Have a call served, as a client sees it; raises ConnectionError when the process ends meanwhile."""
        heard: asyncio.Future[Any] = self._loop.create_future()
        self._callers[heard] = None

        async def answer() -> None:
            try:
                answer, error = await call(self.engine), None
            except Exception as raised:  # noqa: BLE001 - it belongs to the client
                answer, error = None, raised
            self._loop.call_outside(0.0, _hear, heard, answer, error)

        _ = self.spawn(answer)
        try:
            return await heard
        finally:
            self._callers.pop(heard, None)

    def end(self) -> None:
        """Be no more, from one moment to the next."""
        self._loop.end(self.name)
        self.link.cut()
        for caller in self._callers:
            if not caller.done():
                caller.set_exception(ConnectionError("the process is gone"))


def _hear(heard: asyncio.Future[Any], answer: object, error: Exception | None) -> None:
    if heard.done():
        return
    if error is None:
        heard.set_result(answer)
    else:
        heard.set_exception(error)
