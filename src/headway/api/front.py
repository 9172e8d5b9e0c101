"""`Front`: what stands before the application: the size and type of bodies, the path as it was sent."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from headway.api.call import CALL, Call
from headway.api.hot import Hot
from headway.api.limits import Limits
from headway.api.requests import headers_of, read_body
from headway.api.route import failure


class Front:
    """Lets a request through to the application, or refuses it."""

    def __init__(self, app: FastAPI, limits: Limits) -> None:
        self.app, self.limits = app, limits
        app.state.stopping = asyncio.Event()
        self.hot = app.state.hot = Hot(app.state.node, app.state.access, limits.body)

    def stop(self) -> None:
        """Be no longer ready, and let streams end: `state.stopping` tells them."""
        self.app.state.stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one connection of another kind."""
        kind = scope["type"]
        if kind == "lifespan":
            await self.app(scope, receive, send)
            return
        # Names are decoded after the path was taken apart: a name may hold a slash.
        scope["path"] = scope["raw_path"].decode("ascii", "replace")
        if kind == "websocket":
            await self.app(scope, receive, send)
        elif scope["method"] != "POST" or self.hot.route(scope["raw_path"]) is None:
            await self._serve(scope, receive, send)
        elif self.is_direct:
            await self.hot.serves(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    @property
    def is_direct(self) -> bool:
        """Whether nobody wants to see every call: then the hot routes are served without the application."""
        return not self.app.user_middleware

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(self.app, scope["method"], scope["path"], {}, query=scope["query_string"])
        try:
            call.headers = headers_of(scope["headers"])
            if b"content-length" in call.headers or b"transfer-encoding" in call.headers:
                call.body = await read_body(receive, call.headers, self.limits.body)
                receive = given(call.body, receive)
        except Exception as error:  # noqa: BLE001 - every error leaves as a problem
            await failure(call, error)(scope, receive, send)
            return
        scope[CALL] = call
        await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer; an error that it raises has been told and logged."""
        with suppress(Exception):
            await self.app(scope, receive, send)


def given(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read already, and then what comes after it."""
    pending = [body]

    async def receive_given() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_given
