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
"""A handler that calls a function now and then, so that the witness can check its lease."""
SOLE_LEASE = 3.0
RELAY_LEASE = "6s"
REST = 2.5
"""Seconds between polls of a service without a signal: few, because polls that find nothing cost time too."""
CAPACITY = 4
KEPT = Retention(messages="5s")
KEPT_SHORTLY = Retention(messages="5s", instances="2s")


class HandlerFaults:
    """Faults of generated handlers; each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.hangs = 0.0

    def stop(self) -> None:
        """No more faults from now on."""
        self.fails = self.hangs = 0.0


def watched(
    charts: Iterable[Chart],
    own: Handlers | None,
    *,
    handler_faults: HandlerFaults,
    witness: Witness,
    time: Callable[[], float],
) -> Handlers:
    """A handler for every name that the charts run, each observed by the witness."""
    handlers = Handlers()
    given = {handler.name: handler.function for handler in own or ()}
    codes: dict[str, set[str]] = {}
    for chart in charts:
        for node in chart.order:
            if node.model.run is not None:
                codes.setdefault(node.model.run.handler, set()).update(error_codes(chart, node))
    for name in sorted({*codes, *given}):
        function = _given(given[name]) if name in given else _generated(sorted(codes[name]), handler_faults)
        handlers.add(name, _watched(function, witness, time))
    return handlers


def _given(function: Callable[[Work], Any]) -> Looking:
    """A handler of the scenario; one that is not async runs at once, because there are no threads."""

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


def _generated(codes: list[str], handler_faults: HandlerFaults) -> Looking:
    """A handler that does nothing in several steps, reports progress, and may hang or fail."""

    async def generated(work: Work, look: Callable[[], None]) -> Any:
        random = handler_faults.random
        for step in range(random.randint(0, 3)):
            await asyncio.sleep(random.random() * 0.8)
            chance = random.random()
            if chance < 0.3:  # noqa: PLR2004 - three in ten
                work.progress(step / 4, steps=1)
            elif chance < 0.5:  # noqa: PLR2004 - two in ten
                await work.checkpoint({"step": step})
            look()
        if random.random() < handler_faults.hangs:
            for _ in range(8):
                await asyncio.sleep(random.random() * 2)
                look()
        if random.random() < handler_faults.fails:
            return _failure(random, codes)
        return None

    return generated


def _failure(random: Random, codes: list[str]) -> Any:
    chance = random.random()
    if chance < 0.2:  # noqa: PLR2004 - two in ten
        return Again(after=random.random())
    if chance < 0.3:  # noqa: PLR2004 - one in ten
        raise ValueError("an unexpected error")
    return Fail(random.choice(codes))


class Parts(NamedTuple):
    """The parts that every process has."""

    handlers: Handlers
    destinations: Callable[[], list[Destination]]
    record: Callable[[Destination], Recorded]
    facts: Given
    loop: Loop
    witness: Witness
    retention: Retention


class Process(Node):
    """A node on an unreliable store; its leases are short, so that they expire within a run."""

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
        """Start a task in this process."""
        return self._loop.create_task(call(), context=context_of(self.name))

    async def serve(self, call: Callable[[Engine], Awaitable[Any]]) -> Any:
        """Run a call of a client in this process; raises ConnectionError when the process ends meanwhile."""
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
        """End at once, without shutting down."""
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
