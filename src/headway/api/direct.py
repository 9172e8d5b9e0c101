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

from headway.api.call import HttpCall, Reply
from headway.api.connections import HttpConnection
from headway.api.route import Front, Route, whole

LARGEST_DIRECT = 65_536
LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class DirectCall(HttpCall):
    """A call that the connection answers itself; it has what uvicorn needs of its cycle."""

    __slots__ = ("disconnected", "keep_alive", "more_body", "response_complete", "route")

    def __init__(self, front: Front, scope: dict[str, Any], *, keep_alive: bool) -> None:
        super().__init__(front.served, scope, self._wait)
        self.route: Route | None = front.find(self)
        self.keep_alive = keep_alive
        self.more_body = self.is_whole = True
        self.disconnected = self.response_complete = False

    @property
    def message_event(self) -> DirectCall:
        """Nobody waits for a message."""
        return self

    def set(self) -> None:
        """Nobody waits."""

    async def _wait(self) -> Message:
        """No more messages come: wait until the caller is cancelled."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError


class DirectConnection(HttpConnection):
    """A connection that calls direct routes itself: one task and one write for each request.

    A small POST is answered here; any other request goes through ASGI, to the same route. It stands in for
    uvicorn's private cycle.
    """

    front: Front

    def on_headers_complete(self) -> None:
        """All of a request but its body has come."""
        call: Any = self._call()
        if call is None:
            super().on_headers_complete()
            return
        self.head, self.cycle = None, call

    def on_message_complete(self) -> None:
        """A request has come."""
        super().on_message_complete()
        call: object = self.cycle
        if isinstance(call, DirectCall) and not call.response_complete:
            task = self.loop.create_task(self._answer(call))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    def _call(self) -> DirectCall | None:
        parser = self.parser
        if parser.get_method() != b"POST" or self.pipeline or self.expect_100_continue:
            return None
        if parser.should_upgrade() or parser.get_http_version() != "1.1":
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
        keep_alive = parser.should_keep_alive() and not self.keeper.draining
        call = DirectCall(self.front, scope, keep_alive=keep_alive)
        return call if call.route is not None and call.route.is_direct else None

    async def _answer(self, call: DirectCall) -> None:
        assert call.route is not None  # noqa: S101 - else it goes through ASGI
        response = await call.route.answer(call)
        if type(response) is not Reply:
            response = await whole(response, call)
        call.response_complete = True
        if call.disconnected or self.transport.is_closing():
            return
        self.transport.write(_written(response, self.server_state.default_headers, call.keep_alive))
        if not call.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _written(response: Response, usual: list[tuple[bytes, bytes]], keep_alive: bool) -> bytes:  # noqa: FBT001 - a fact
    lines = [b"%b: %b\r\n" % header for header in (*usual, *response.raw_headers)]
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    return b"%b%b\r\n%b" % (LINES[response.status_code], b"".join(lines), bytes(response.body))
