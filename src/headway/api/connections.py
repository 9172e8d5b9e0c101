"""The connections of a server: slow and idle ones are closed, so that they do not keep others out."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headway.api.limits import Limits, raise_file_limit
from headway.api.problems import PROBLEM_JSON, Problem

ESTABLISHED = "headway.established"
"""What a WebSocket's scope has a function under, to be called when it is known who has opened it."""
SWEEP_SECONDS = 1.0
LARGEST_HEAD = 65_536


class ServerConnections:
    """All connections of a server: closes those that take too long, and the longest idle when it is full."""

    def __init__(self, limits: Limits, monotonic: Callable[[], float]) -> None:
        self.limits = limits
        self.draining = False
        raise_file_limit()
        self.most = limits.most_connections
        self.now = monotonic
        self.all_gone = asyncio.Event()
        self.all_gone.set()
        self._open: set[AnyConnection] = set()
        self._waiting: dict[AnyConnection, float] = {}
        self._idle: dict[AnyConnection, float] = {}

    def opened(self, connection: AnyConnection) -> None:
        """Take one more; the one that has been silent for longest makes room for it."""
        self._open.add(connection)
        self.all_gone.clear()
        self.waits(connection)
        if len(self._open) > self.most:
            self._close(
                next(iter(self._waiting)) if len(self._waiting) > 1 else next(iter(self._idle), connection)
            )

    def closed(self, connection: AnyConnection) -> None:
        """One less."""
        self._open.discard(connection)
        if not self._open:
            self.all_gone.set()
        self.is_served(connection)

    def waits(self, connection: AnyConnection) -> None:
        """The service waits from now on: for a request, for the rest of it, or for its answer to be taken."""
        self.is_served(connection)
        self._waiting[connection] = self.now()

    def rests(self, connection: AnyConnection) -> None:
        """A request is answered, and there is no other."""
        self.is_served(connection)
        self._idle[connection] = self.now()

    def is_served(self, connection: AnyConnection) -> None:
        """A request is there and is not answered yet."""
        self._waiting.pop(connection, None)
        self._idle.pop(connection, None)

    def sweep(self) -> None:
        """Close those that have had their time; they stand in the order in which they began to wait."""
        too_long = self.now() - self.limits.request_seconds
        for connection, since in [*self._waiting.items()]:
            if since > too_long:
                break
            self._close(connection)

    async def keep_sweeping(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def _close(self, connection: AnyConnection) -> None:
        self.closed(connection)
        connection.transport.abort()


class HttpConnection(HttpToolsProtocol):
    """One connection, which reports to the keeper of all what it waits for."""

    keeper: ServerConnections
    head: int | None = 0
    """How much of a request has come, before the end of its headers."""
    is_whole = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It is open."""
        super().connection_made(transport)
        self.keeper.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.keeper.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come; headers without end are refused."""
        super().data_received(data)
        if self.head is not None:
            self.head += len(data)
            if self.head > LARGEST_HEAD:
                self._refuse(Problem("head_too_large"))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.head, self.is_whole = 0, False
        self.keeper.waits(self)

    def on_headers_complete(self) -> None:
        """All of a request but its body is there."""
        self.head = None
        super().on_headers_complete()
        if self.keeper.draining and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """A request is there; it may have been refused before it was."""
        self.is_whole = True
        is_over = getattr(self.cycle, "response_complete", False)  # a WebSocket has no cycle
        (self.keeper.rests if is_over else self.keeper.is_served)(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered; the answer, or the rest of the request, may still be on its way."""
        has_next = bool(self.pipeline)  # it begins now, and is no longer in the line then
        super().on_response_complete()
        if not self.transport.is_closing() and not has_next:
            is_over = self.is_whole and not self.transport.get_write_buffer_size()
            (self.keeper.rests if is_over else self.keeper.waits)(self)

    def shutdown(self) -> None:
        """Close when it is idle; a request that has come and was not read yet is answered first."""
        is_idle = getattr(self.cycle, "response_complete", True) and not self.transport.is_closing()
        if is_idle and _has_unread(self.transport):
            return
        super().shutdown()

    def handle_websocket_upgrade(self) -> None:
        """It continues as a WebSocketConnection, which is counted instead."""
        self.keeper.closed(self)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """What has come is not HTTP."""
        self._refuse(Problem("not_http", msg))

    def _refuse(self, problem: Problem) -> None:
        body = problem.document("")
        head = b"HTTP/1.1 %d %b\r\n" % (problem.status, HTTPStatus(problem.status).phrase.encode())
        kind = b"content-type: %b\r\ncontent-length: %d\r\n" % (PROBLEM_JSON.encode(), len(body))
        self.transport.write(b"%b%bconnection: close\r\n\r\n%b" % (head, kind, body))
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket: the service waits for it until it is known who has opened it, and again at its end."""

    keeper: ServerConnections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It takes the place of the connection that asked for it."""
        super().connection_made(transport)
        self.keeper.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.keeper.closed(self)
        super().connection_lost(exc)

    async def run_asgi(self) -> None:
        """Serve it; one whose peer does not close it in time is closed with those that are silent."""
        scope: dict[str, object] = cast("dict[str, object]", self.scope)
        scope[ESTABLISHED] = partial(self.keeper.is_served, self)
        await super().run_asgi()
        if not self.disconnected:
            self.keeper.waits(self)


AnyConnection = HttpConnection | WebSocketConnection


def _has_unread(transport: asyncio.Transport) -> bool:
    ready = select.poll()
    ready.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(ready.poll(0))
