"""The service in one process: it runs until it is stopped, and loses no request when it stops."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from headway.api.access import Access, Rate, Verifier
from headway.api.app import application
from headway.api.keyring import Keyring, NewKey
from headway.api.limits import Limits
from headway.api.metrics import expose
from headway.api.server import serving
from headway.cli.node import PartialNode
from headway.cli.output import CommandError
from headway.clock import milliseconds
from headway.codec import from_data
from headway.engine.service import Service
from headway.errors import InputError
from headway.settings import COUNTS, Settings
from headway.telemetry.logs import configure, log_transitions
from headway.telemetry.metrics import Metrics

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NEW_OBJECTS = 10_000
"""Allocations between two runs of the garbage collector: a batch makes thousands of objects."""


Announce = Callable[[str | None], None]
"""Called when the service runs, with a key to show, if there is one."""
MakeKey = Callable[[Keyring], Awaitable[NewKey | None]]


class ServiceProcess:
    """A node, and its HTTP interface if it has a socket to serve on."""

    def __init__(self, node: PartialNode, settings: Settings, listening: socket.socket | None) -> None:
        self.node, self._settings, self._listening = node, settings, listening
        self._metrics = Metrics(node, node.counts, node.meters)
        self._told = asyncio.Event()

    async def run(
        self, announce: Announce, *, key: MakeKey | None = None, beside: Service | None = None
    ) -> None:
        """Run until SIGINT or SIGTERM; a second one ends the process at once. `beside` runs as long.

        The `key` to show is the first one, unless somebody makes another.
        """
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._tell)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._watching())
            await stack.enter_async_context(self.node)
            made = None
            if self._listening is not None:
                access = await stack.enter_async_context(access_of(self.node, self._settings))
                await stack.enter_async_context(self._served(access, self._listening))
                made = await (key or self._first_key)(access.keyring)
            if beside is not None:
                await stack.enter_async_context(beside)
            calm_collector()
            announce(None if made is None else made.text)
            await self._told.wait()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Count, and write log lines, from before the node starts until after it has stopped."""
        configure(form=self._settings.log, level=self._settings.log_level)
        self._metrics.start()
        end_log = log_transitions(self.node.engine) if self._settings.log_transitions else None
        try:
            yield
        finally:
            self._metrics.stop()
            if end_log is not None:
                end_log()
            if self.node.traced is not None:
                self.node.traced.close()

    async def _first_key(self, keyring: Keyring) -> NewKey | None:
        return await keyring.first(self._settings.tenant)

    def _tell(self) -> None:
        self._told.set()
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    @asynccontextmanager
    async def _served(self, access: Access, listening: socket.socket) -> AsyncIterator[None]:
        limits = from_data(Limits, {name: getattr(self._settings, name) or None for name in COUNTS})
        front = application(self.node, access, limits=limits, routers=self.node.routers)
        expose(front, self._metrics, self._settings.metrics_token)
        if self.node.traced is not None:
            from headway.telemetry.tracing import TracedCalls  # noqa: PLC0415 - only who traces has the package

            front.wrap(TracedCalls, tracing=self.node.traced)
        async with serving(front, listening, patience=_seconds(self._settings.grace)):
            try:
                yield
            finally:
                front.stop()
                await asyncio.sleep(_seconds(self._settings.drain))


def calm_collector() -> None:
    """Run the garbage collector less often, and exclude the objects that exist now: they stay."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def access_of(node: PartialNode, settings: Settings) -> Access:
    """Who may call, as the settings say."""
    tokens = _tokens(settings) if settings.issuers else None
    return Access(node.engine.store, tokens=tokens, rate=Rate(settings.rate, 2 * settings.rate))


def _tokens(settings: Settings) -> Verifier:
    from headway.api.tokens import Issuer, Tokens  # noqa: PLC0415 - a service that takes keys alone starts sooner

    try:
        return Tokens(from_data(Issuer, table) for table in settings.issuers)
    except InputError as error:
        raise CommandError(f"the setting issuers: {error}") from error


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on the fastest event loop there is."""
    with fast_runner() as runner:
        runner.run(main)


def fast_runner() -> asyncio.Runner:
    """A runner on the fastest event loop there is."""
    return asyncio.Runner(loop_factory=uvicorn.Config("", loop="auto", log_config=None).get_loop_factory())


def _seconds(duration: str) -> float:
    return milliseconds(duration) / 1_000
