"""Connections that call routes themselves, without ASGI.

It stays while `http_sqlite_vs_fastapi` is below 1.0 without it. Medians of 5 rounds on a machine with other
load: 0.83 without it, 0.87 with it, in separate runs whose rounds differ by more than that.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Message

from headway.api.call import HttpCall
from headway.api.connections import HttpConnection
from headway.api.route import Front, Route, whole

LARGEST_DIRECT = 65_536
LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Exchange:
    """A request that the connection answers itself, in the place of uvicorn's cycle."""

    __slots__ = (
        "_is_read",
        "body",
        "call",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "route",
    )

    def __init__(self, front: Front, scope: dict[str, Any], *, keep_alive: bool) -> None:
        self.call = HttpCall(front.served, scope, self._receive)
        self.route: Route | None = front.find(self.call)
        self.body, self.more_body, self.keep_alive = b"", True, keep_alive
        self.disconnected = self.response_complete = self._is_read = False

    @property
    def message_event(self) -> Exchange:
        """Nobody waits for a message."""
        return self

    def set(self) -> None:
        """Nobody waits."""

    async def _receive(self) -> Message:
        """The body, once; then nothing, until whoever waits for more is cancelled."""
        if self._is_read:
            await asyncio.get_running_loop().create_future()
        self._is_read = True
        return {"type": "http.request", "body": bytes(self.body), "more_body": False}


class DirectConnection(HttpConnection):
    """A connection that calls direct routes itself: one task and one write for each request.

    A small POST is answered here; any other request goes through ASGI, to the same route. It stands in for
    uvicorn's private cycle.
    """

    front: Front

    def on_headers_complete(self) -> None:
        """All of a request but its body has come."""
        exchange: Any = self._exchange()
        if exchange is None:
            super().on_headers_complete()
            return
        self.head, self.cycle = None, exchange

    def on_message_complete(self) -> None:
        """A request has come."""
        super().on_message_complete()
        exchange: object = self.cycle
        if isinstance(exchange, Exchange) and not exchange.response_complete:
            task = self.loop.create_task(self._answer(exchange))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    def _exchange(self) -> Exchange | None:
        if self.parser.get_method() != b"POST" or self.pipeline or self.expect_100_continue:
            return None
        if self.parser.should_upgrade() or self.parser.get_http_version() != "1.1":
            return None
        if not getattr(self.cycle, "response_complete", True) or self.front.is_wrapped:
            return None
        length = dict(self.headers).get(b"content-length")
        if length is None or int(length) > min(LARGEST_DIRECT, self.front.limits.body) or b"?" in self.url:
            return None
        scope = {
            "type": "http",
            "app": self.front.app,
            "method": "POST",
            "path": self.url.decode("ascii", "replace"),
            "query_string": b"",
            "headers": self.headers,
        }
        keep_alive = self.parser.should_keep_alive() and not self.keeper.draining
        exchange = Exchange(self.front, scope, keep_alive=keep_alive)
        return exchange if exchange.route is not None and exchange.route.is_direct else None

    async def _answer(self, exchange: Exchange) -> None:
        assert exchange.route is not None  # noqa: S101 - else it is no exchange
        response = await whole(await exchange.route.answer(exchange.call), exchange.call)
        exchange.response_complete = True
        if exchange.disconnected or self.transport.is_closing():
            return
        self.transport.write(_written(response, self.server_state.default_headers, exchange.keep_alive))
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _written(response: Response, usual: list[tuple[bytes, bytes]], keep_alive: bool) -> bytes:  # noqa: FBT001 - a fact
    lines = [b"%b: %b\r\n" % header for header in (*usual, *response.raw_headers)]
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    return b"%b%b\r\n%b" % (LINES[response.status_code], b"".join(lines), bytes(response.body))
