"""Connections that call routes themselves, without ASGI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from headway.api.app import Front
from headway.api.call import Call
from headway.api.connections import Connection
from headway.api.requests import headers_of, require_json
from headway.api.route import Route, failure

LARGEST_DIRECT = 65_536
LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Exchange:
    """A request that the connection answers itself, in the place of uvicorn's cycle."""

    __slots__ = (
        *("body", "call", "disconnected", "keep_alive", "more_body", "names", "raw_headers"),
        *("response_complete", "route"),
    )

    def __init__(
        self,
        call: Call,
        route: Route,
        names: Mapping[str, str],
        *,
        raw_headers: Sequence[tuple[bytes, bytes]],
        keep_alive: bool,
    ) -> None:
        self.call, self.route, self.names, self.raw_headers = call, route, names, raw_headers
        self.body, self.more_body, self.keep_alive = b"", True, keep_alive
        self.disconnected = self.response_complete = False

    @property
    def message_event(self) -> Exchange:
        """Nobody waits for a message."""
        return self

    def set(self) -> None:
        """Nobody waits."""

    async def answer(self) -> Response:
        """The answer of the route."""
        self.call.body = bytes(self.body)
        try:
            self.call.headers = headers_of(self.raw_headers)
            require_json(self.call.headers, self.call.body)
        except Exception as error:  # noqa: BLE001 - every error is answered with a problem
            return failure(self.call, error)
        return await self.route.answer(self.call, self.names)


class DirectConnection(Connection):
    """A connection that calls direct routes itself: one task and one write for each request.

    A small request of the usual kind is answered here; any other goes through ASGI, to the same route. It
    stands in for uvicorn's private cycle. `make bench SUITE=service` measures what that is worth: the figure
    `http_sqlite_vs_fastapi`, which must not fall below 1.0.
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
        if not getattr(self.cycle, "response_complete", True) or not self.front.is_direct:
            return None
        length = dict(self.headers).get(b"content-length")
        if length is None or int(length) > min(LARGEST_DIRECT, self.front.limits.body) or b"?" in self.url:
            return None
        path = self.url.decode("ascii", "replace")
        if (found := self.front.direct.find(path)) is None:
            return None
        return Exchange(
            Call(self.front.app, "POST", path, {}),
            *found,
            raw_headers=self.headers,
            keep_alive=self.parser.should_keep_alive() and not self.keeper.draining,
        )

    async def _answer(self, exchange: Exchange) -> None:
        response = await exchange.answer()
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
