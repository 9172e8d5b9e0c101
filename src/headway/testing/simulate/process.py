"""A process: a node with all its services, and handlers that fail, hang and are slow."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from headway.engine.engine import Engine
from headway.engine.facts import Given
from headway.engine.lease import SoleService
from headway.engine.service import Service
from headway.node import Node
from headway.outbox.destination import Destination
from headway.outbox.instances import InstanceDestination
from headway.outbox.relay import Relay
from headway.statechart.chart import Chart, Charted
from headway.statechart.explore.events import error_codes
from headway.testing.simulate.database import UnreliableStore
from headway.testing.simulate.loop import Loop, context_of
from headway.testing.simulate.receivers import Recorded
from headway.testing.simulate.witness import Witness
from headway.worker.attempt import Again, Fail
from headway.worker.handlers import Handlers
from headway.worker.retention import Retention
from headway.worker.work import Work
from headway.worker.worker import Worker

Looking = Callable[[Work, Callable[[], None]], Any]
"""A handler that lets the witness look now and then."""
SOLE_LEASE = 3.0
RELAY_LEASE = "6s"
REST = 2.5
"""Services look by themselves only now and then: most looks find nothing, and cost as much as others."""
CAPACITY = 4
KEPT = Retention(messages="5s")
KEPT_SHORTLY = Retention(messages="5s", instances="2s")


class Fortune:
    """How well invented handlers do: each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.hangs = 0.0

    def calm(self) -> None:
        """All goes well from now on."""
        self.fails = self.hangs = 0.0


def watched(
    charts: Iterable[Chart],
    own: Handlers | None,
    *,
    fortune: Fortune,
    witness: Witness,
    time: Callable[[], float],
) -> Handlers:
    """A handler for every name that the charts run, each under watch."""
    handlers = Handlers()
    given = {handler.name: handler.function for handler in own or ()}
    codes: dict[str, set[str]] = {}
    for chart in charts:
        for node in chart.order:
            if node.model.run is not None:
                codes.setdefault(node.model.run.handler, set()).update(error_codes(chart, node))
    for name in sorted({*codes, *given}):
        function = _given(given[name]) if name in given else _invented(sorted(codes[name]), fortune)
        handlers.add(name, _watched(function, witness, time))
    return handlers


def _given(function: Callable[[Work], Any]) -> Looking:
    """A team's own handler; one that is not async runs at once, for there are no threads."""

    async def given(work: Work, _look: Callable[[], None]) -> Any:
        outcome = function(work)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return given


def _watched(function: Looking, witness: Witness, time: Callable[[], float]) -> Callable[[Work], Any]:
    async def handle(work: Work) -> Any:
        run = witness.begins(work, time)
        try:
            outcome = await function(work, lambda: witness.looks(run))
            witness.looks(run)
            return outcome
        finally:
            if run in witness.runs:
                witness.ends(run)

    return handle


def _invented(codes: list[str], fortune: Fortune) -> Looking:
    """A handler that does nothing, in several steps and not always well."""

    async def invented(work: Work, look: Callable[[], None]) -> Any:
        random = fortune.random
        for step in range(random.randint(0, 3)):
            await asyncio.sleep(random.random() * 0.8)
            chance = random.random()
            if chance < 0.3:  # noqa: PLR2004 - three in ten
                work.progress(step / 4, steps=1)
            elif chance < 0.5:  # noqa: PLR2004 - two in ten
                await work.checkpoint({"step": step})
            look()
        if random.random() < fortune.hangs:
            for _ in range(8):
                await asyncio.sleep(random.random() * 2)
                look()
        if random.random() < fortune.fails:
            return _failure(random, codes)
        return None

    return invented


def _failure(random: Random, codes: list[str]) -> Any:
    chance = random.random()
    if chance < 0.2:  # noqa: PLR2004 - two in ten
        return Again(after=random.random())
    if chance < 0.3:  # noqa: PLR2004 - one in ten
        raise ValueError("what nobody has thought of")
    return Fail(random.choice(codes))


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

    def __init__(self, name: str, link: UnreliableStore, charts: Sequence[Charted], parts: Parts) -> None:
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
