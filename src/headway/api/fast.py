"""The hot routes, served by the connection itself: one task and one write for each request.

A request that is small and of the usual kind is answered here; any other goes the way of all requests,
by ASGI, and gets the same answer.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from headway.api.connections import Connection
from headway.api.front import Front
from headway.api.hot import INSTANCES, Reply, Route

LARGEST = 65_536
LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Exchange:
    """A request and its answer, as far as the connection asks about it; it stands for uvicorn's cycle."""

    __slots__ = (
        "body",
        "disconnected",
        "headers",
        "keep_alive",
        "more_body",
        "path",
        "response_complete",
        "route",
    )

    def __init__(
        self, path: bytes, route: Route, headers: list[tuple[bytes, bytes]], *, keep_alive: bool
    ) -> None:
        self.path, self.route, self.headers, self.keep_alive = path, route, headers, keep_alive
        self.body = b""
        self.more_body = True
        self.disconnected = self.response_complete = False

    @property
    def message_event(self) -> Exchange:
        """Nobody waits for a message."""
        return self

    def set(self) -> None:
        """Nobody waits."""


class FastConnection(Connection):
    """A connection that answers the hot routes itself."""

    front: Front

    def on_headers_complete(self) -> None:
        """All of a request but its body is there."""
        route = self._hot_route()
        if route is None:
            super().on_headers_complete()
            return
        self.head = None
        keep_alive = self.parser.should_keep_alive() and not self.keeper.draining
        exchange: Any = Exchange(self.url, route, self.headers, keep_alive=keep_alive)
        self.cycle = exchange

    def on_message_complete(self) -> None:
        """A request is there."""
        super().on_message_complete()
        exchange: object = self.cycle
        if isinstance(exchange, Exchange) and not exchange.response_complete:
            task = self.loop.create_task(self._answer(exchange))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    def _hot_route(self) -> Route | None:
        if not self.url.startswith(INSTANCES) or self.parser.get_method() != b"POST":
            return None
        if (
            self.expect_100_continue
            or self.parser.should_upgrade()
            or self.parser.get_http_version() != "1.1"
        ):
            return None
        if self.pipeline or not getattr(self.cycle, "response_complete", True):
            return None
        length = dict(self.headers).get(b"content-length")
        if length is None or int(length) > LARGEST or not self.front.is_direct:
            return None
        return self.front.hot.route(self.url)

    async def _answer(self, exchange: Exchange) -> None:
        reply = await self.front.hot.answer(
            exchange.path, exchange.route, exchange.headers, bytes(exchange.body)
        )
        exchange.response_complete = True
        if exchange.disconnected or self.transport.is_closing():
            return
        self.transport.write(_written(reply, self.server_state.default_headers, exchange.keep_alive))
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _written(reply: Reply, usual: list[tuple[bytes, bytes]], keep_alive: bool) -> bytes:  # noqa: FBT001 - a fact
    status, content, headers = reply
    lines = [b"%b: %b\r\n" % header for header in (*usual, *headers)]
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (LINES[status], b"".join(lines), len(content), content)
