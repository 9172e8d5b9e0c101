"""`Node`: the engine and all that runs beside it, in one process."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, Self

from headway.clock import Clock
from headway.engine.asks import Asks
from headway.engine.bulk import Cancelling, Summary
from headway.engine.engine import LONGEST_NAME, LONGEST_NEW_NAME, Engine
from headway.engine.facts import Given
from headway.engine.nodes import Announcer, Presence
from headway.engine.orders import DAY, HOUR, Answer, Receipt
from headway.engine.service import LOG, Component, Service
from headway.engine.tail import Tail, cursor_of, cursor_text
from headway.engine.tally import Tallies
from headway.engine.tenant import Tenant
from headway.engine.upgrade.rehearsal import rehearse
from headway.engine.upgrade.upgrade import undo, upgrade
from headway.errors import EngineError, InputError
from headway.outbox.destination import Destination
from headway.outbox.endpoint import Endpoint
from headway.outbox.instances import InstanceDestination
from headway.outbox.letters import Letters
from headway.outbox.relay import Relay
from headway.statechart.chart import Charted
from headway.statechart.identity import require_id
from headway.store import migrate
from headway.store.address import database_at, sqlite_path, store_at
from headway.store.port import ANYTHING, Store
from headway.store.queries import InstanceQuery
from headway.store.rows import Cursor, EventRow, HistoryRow, InstanceRow
from headway.store.sqlite.connection import MEMORY
from headway.store.unit import Changes
from headway.worker.handlers import Handlers
from headway.worker.rescue import Rescue, Takeover
from headway.worker.retention import Pruning, Retention
from headway.worker.timers import Timers
from headway.worker.worker import Worker

__all__ = [
    "DAY",
    "HOUR",
    "LONGEST_NAME",
    "LONGEST_NEW_NAME",
    "Answer",
    "Cancelling",
    "Changes",
    "Cursor",
    "Engine",
    "EventRow",
    "HistoryRow",
    "InstanceQuery",
    "InstanceRow",
    "Node",
    "Receipt",
    "Service",
    "Summary",
    "Tenant",
    "cursor_of",
    "cursor_text",
    "rehearse",
    "undo",
    "upgrade",
]

DEFAULT_TENANT = "default"
WOKEN_BY: dict[str, tuple[type[Component], ...]] = {
    "work": (Worker,),
    "timers": (Timers,),
    "messages": (Relay, Tail),
    "events": (Tail,),
    "leases": (Rescue,),
}


class Companion(Protocol):
    """What a node is to keep beside its database, such as a mirror of it."""

    def on(self, engine: Engine) -> Service:
        """The service that does so."""


class Node:
    """Keeps lives going: sends events, runs work, fires timers, delivers messages, clears up.

    Several nodes can share a PostgreSQL database; what must be done once is done by one of them, and
    another takes over when that one is gone.
    """

    def __init__(
        self,
        database: str | Store,
        charts: Iterable[Charted] = (),
        *,
        handlers: Handlers | None = None,
        destinations: Sequence[Destination | Endpoint] = (),
        mirror: Companion | None = None,
        facts: Given | None = None,
        secrets: Sequence[str] = (),
        retention: Retention | None = None,
        queues: Sequence[str] = ("default",),
        capacity: int = 100,
        name: str = "",
        charts_may_change: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`database` is `sqlite:///file.db`, made when it is missing, or `postgresql://user@host/name`.

        `destinations` are webhook endpoints, subscribers, Kafka and Redis; `mirror` is a RedisMirror.
        `secrets` sign the links by which people answer without a login. A `name` that a node keeps lets it
        take up its own leases and work at once when it starts again; no two nodes may have the same. A
        `clock` takes the place of the database's time, and of the time by which work takes too long, for
        tests. The rest is explained at Engine, Worker and Retention.
        """
        if handlers is not None and not isinstance(handlers, Handlers):
            raise InputError("handlers is a Handlers(), in which functions are registered")
        self._address = database if isinstance(database, str) else None
        store = store_at(database, clock=clock) if isinstance(database, str) else database
        self.engine = Engine(store, charts, facts=facts, node=name, charts_may_change=charts_may_change)
        self.asks = Asks(self.engine, secrets)
        self.letters = Letters(store)
        self.presence = Presence(self.engine)
        self.tail = Tail(self.engine)
        self.tallies = Tallies(self.engine, self.tail)
        self.timers = Timers(self.engine)
        self.rescue = Rescue(self.engine)
        self.pruning = Pruning(self.engine, retention)
        served = (InstanceDestination(self.engine), *map(served_by, destinations))
        names = [each.name for each in served]
        if doubles := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"several destinations are called {', '.join(doubles)}")
        self.relays = [Relay(self.engine, each) for each in served]
        self.worker = None
        self._takeover = None
        if handlers is not None:
            self.worker = Worker(
                self.engine,
                handlers,
                queues=queues,
                capacity=capacity,
                name=name or None,
                monotonic=_monotonic(clock),
            )
            self.engine.handles_here = _handles(self.worker)
            if name:
                self._takeover = Takeover(self.engine, name, self.worker.id, self.rescue.wake)
        self.mirror = None if mirror is None else mirror.on(self.engine)
        self._announcer = Announcer(self.engine)
        self._runs = False

    @property
    def services(self) -> list[Component]:
        """All that runs in the background."""
        own = [self.presence, self.tail, self.tallies, self.timers, self.rescue, self.pruning]
        maybe: tuple[Component | None, ...] = (self._takeover, self.mirror, self.worker)
        chosen = [service for service in maybe if service is not None]
        return [*own, *self.relays, *chosen, self._announcer]

    def tenant(self, name: str = DEFAULT_TENANT) -> Tenant:
        """The engine as one tenant sees it; raises InputError for a name that could be taken for another."""
        require_id("the name of a tenant", name)
        return Tenant(self.engine, self.asks, name)

    async def open(self) -> None:
        """Open the database; one that is a file is made when it is missing. Nothing runs yet."""
        await self._make_file()
        await self.engine.open()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Tenant]:
        """The default tenant for the length of a block, while nothing runs: for a program that only asks."""
        await self.open()
        try:
            yield self.tenant()
        finally:
            await self.engine.close()

    async def start(self) -> None:
        """Open the database and begin to run; raises EngineError when it runs already."""
        if self._runs:
            raise EngineError("the node runs already: stop it before you start it again")
        self._runs = True
        try:
            await self.open()
        except BaseException:
            self._runs = False
            raise
        self._warn_of_missing_handlers()
        try:
            await self.engine.store.listen(self._heard)
            for service in self.services:
                await service.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Take no new work, finish what is under way, hand back what does not finish, and close."""
        self.engine.require_loop()
        self._runs = False
        failures = []
        for service in reversed(self.services):
            try:
                await service.stop()
            except Exception as error:  # noqa: BLE001 - the others must be stopped all the same
                LOG.warning("%s could not be stopped in good order: %s", service.name, error)
                failures.append(error)
        await self.engine.close()
        if failures:
            raise failures[0]

    async def run(self) -> None:
        """Run until the process is told to end (SIGINT or SIGTERM), then stop in good order."""
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told.set)
        async with self:
            await told.wait()

    async def __aenter__(self) -> Self:
        """Run for the length of a block."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at the end of the block."""
        await self.stop()

    def _heard(self, topic: str) -> None:
        """Another process has something new."""
        for service in self.services:
            if topic == ANYTHING or isinstance(service, WOKEN_BY.get(topic, ())):
                service.wake()
        if topic in {"events", "messages"} and self.mirror is not None:
            self.mirror.wake()

    def _warn_of_missing_handlers(self) -> None:
        """Work that nobody does waits in silence: say so while somebody looks at the log."""
        if self.worker is None:
            return
        users: dict[tuple[str, str], list[str]] = {}
        for chart in self.engine.charts:
            for state in chart.model.states:
                if state.run is not None and state.run.queue in self.worker.queues:
                    users.setdefault((state.run.handler, state.run.queue), []).append(
                        f"{chart.name} v{chart.version} in {state.id}"
                    )
        for (handler, queue), places in users.items():
            if handler not in self.worker.handlers.names:
                LOG.warning(
                    "no handler here is called %s, which queue %s brings (%s): that work waits until a"
                    " process has one",
                    handler,
                    queue,
                    ", ".join(places),
                )

    async def _make_file(self) -> None:
        if self._address is not None and _is_missing_file(self._address):
            async with database_at(self._address, create=True) as database:
                await migrate.up(database)


def served_by(destination: Destination | Endpoint) -> Destination:
    """What delivers to a destination: an endpoint gets an HTTP client; raises InputError without one."""
    if not isinstance(destination, Endpoint):
        return destination
    try:
        from headway.outbox.webhook import Webhook  # noqa: PLC0415 - who sends no webhooks needs no client
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from error
    return Webhook(destination)


def _handles(worker: Worker) -> Callable[[str, str], bool]:
    return lambda queue, handler: queue in worker.queues and handler in worker.handlers.names


def _monotonic(clock: Clock | None) -> Callable[[], float]:
    return time.monotonic if clock is None else lambda: clock.now().timestamp()


def _is_missing_file(address: str) -> bool:
    path = sqlite_path(address)
    return path is not None and path != MEMORY and not Path(path).exists()
