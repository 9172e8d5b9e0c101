"""Live events: `GET /v1/events` as server-sent events, and the WebSocket `/v1/live`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import Message, Receive, Scope, Send

from headway.api.call import require_single
from headway.api.connections import ESTABLISHED
from headway.api.follow import FeedReader, Give
from headway.api.frames import Frame
from headway.api.handshake import Handshakes, credential_of, hello_of, must_be_own_page
from headway.api.hub import Hub
from headway.api.parameters import needs
from headway.api.problems import Problem, problem_of
from headway.api.route import Router
from headway.codec import encode

CLOSED_WITH = 4_000
"""The close code of a WebSocket is this plus the status of the problem."""
STREAM = "text/event-stream; charset=utf-8"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
SOON = 1_000
"""Milliseconds after which a reader that has lost its stream reconnects."""

After = Annotated[
    str | None,
    Query(description="The id of an event: the stream starts behind it; `0-0` is the beginning of the log."),
]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="Like `after`, sent by a client that reconnects; it takes precedence.",
    ),
]
Name = Annotated[str | None, Query(max_length=400)]

router = Router(tags=["live"])


def hub_of(app: Any) -> Hub:
    """The application's hub, made on first use; it ends with `state.stopping`."""
    state = app.state
    if getattr(state, "live", None) is None:
        limits = getattr(state, "live_limits", None)
        state.live = Hub(
            state.node.engine,
            state.node.tail,
            state.access,
            streams=state.streams,
            ciphers=state.ciphers,
            stopping=state.stopping,
            limits=limits,
        )
    hub: Hub = state.live
    return hub


@router.get(
    "/v1/events",
    operation_id="follow_events",
    dependencies=[needs("read", own=True)],
    response_class=Response,
    responses={
        200: {
            "description": "An endless stream of events, each with its id.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def events(
    request: Request,
    *,
    after: After = None,
    chart: Name = None,
    instance: Name = None,
    owner: Name = None,
    parent: Name = None,
    last_event_id: LastEventId = None,
) -> Response:
    """The events of the tenant, or of an instance, a chart, an owner or the children of a parent.

    Without `after` the stream starts now. A client that reconnects with the id of its last event gets each
    later event once.
    """
    hub = hub_of(request.app)
    authorization = request.headers.get("authorization")
    since = last_event_id or after
    properties = {"chart": chart, "instance": instance, "owner": owner, "parent": parent}
    reader = await hub.enter(authorization, since, **properties)
    return Stream(hub, reader, request.url.path)


class Stream(Response):
    """A stream of server-sent events for one reader."""

    media_type = STREAM

    def __init__(self, hub: Hub, reader: FeedReader, path: str) -> None:
        self.status_code, self.background = 200, None
        self.init_headers({**STREAM_HEADERS, "Content-Type": STREAM})
        self._hub, self._reader, self._path = hub, reader, path

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Write events until the client or the service ends the stream."""
        try:
            await self._give(receive, send)
        except (OSError, RuntimeError):
            return  # the client is gone
        finally:
            self._hub.leave(self._reader)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._hub.limits.farewell):
                await send(_chunk(self._farewell(), more=False))

    async def _give(self, receive: Receive, send: Send) -> None:
        reader = self._reader

        async def give(frame: Frame) -> None:
            await send(frame.chunk)

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(_chunk(f"retry: {SOON}\nid: {reader.place}\n: welcome\n\n".encode()))
        await _attend(reader, give, _gone(receive))

    def _farewell(self) -> bytes:
        problem = self._reader.problem
        if problem is None:
            return b""
        place = self._reader.place.encode()
        return b"id: %s\nevent: problem\ndata: %s\n\n" % (place, problem.document(self._path))


def _chunk(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _gone(receive: Receive) -> Problem | None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
    return None


async def _attend(reader: FeedReader, give: Give, hear: Coroutine[Any, Any, Problem | None]) -> None:
    """Write to a reader until it is ended, or until `hear` returns, with a problem or without."""
    listening = asyncio.create_task(hear)
    listening.add_done_callback(lambda done: reader.end(None if done.cancelled() else done.result()))
    try:
        await reader.run(give)
    finally:
        listening.cancel()


class Socket:
    """The WebSocket `/v1/live`: a hello from the client, then events."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; after any error it gets a problem document and a clean close."""
        hub = hub_of(scope["app"])
        await receive()
        await send({"type": "websocket.accept"})
        problem = await self._converse(hub, scope, receive, send)
        if problem is not None:
            await _close(send, problem, scope["path"], hub.limits.farewell)

    async def _converse(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Read the hello and write events; returns the reason to close, or None if the client is gone."""
        headers = Headers(scope=scope)
        try:
            require_single(name for name, _ in scope["headers"])
            must_be_own_page(headers, getattr(scope["app"].state, "origins", ()))
            handshakes: Handshakes = scope["app"].state.handshakes
            async with handshakes.waiting((scope.get("client") or ("",))[0], hub.limits.hello):
                hello = await hello_of(receive)
            if hello is None:
                return None
            properties = {name: getattr(hello, name) for name in ("chart", "instance", "owner", "parent")}
            reader = await hub.enter(credential_of(headers, hello), hello.after, **properties)
            scope.get(ESTABLISHED, bool)()
        except Exception as error:  # noqa: BLE001 - each becomes a problem
            return problem_of(error)
        try:
            return await self._give(hub, reader, receive, send)
        except (OSError, RuntimeError):
            return None  # the client is gone
        finally:
            hub.leave(reader)

    async def _give(self, hub: Hub, reader: FeedReader, receive: Receive, send: Send) -> Problem | None:
        async def give(frame: Frame) -> None:
            await send(frame.message)

        welcome = {"type": "welcome", "id": reader.place, "heartbeat": hub.limits.heartbeat}
        await send(_text(encode({**welcome, "tenant": reader.feed.subscription.tenant})))
        await _attend(reader, give, _silence(receive))
        return reader.problem


async def _silence(receive: Receive) -> Problem | None:
    """Return when the client has disconnected, or sends anything after its hello."""
    if (await receive())["type"] == "websocket.receive":
        return Problem("invalid", "a client must not send anything after its hello")
    return None


async def _close(send: Send, problem: Problem, path: str, patience: float) -> None:
    """Send the reason, then close; a client that accepts neither in time is left to the server."""
    document = problem.document(path)
    reason = {"code": problem.code, **({"after": problem.extra["after"]} if "after" in problem.extra else {})}
    with suppress(OSError, RuntimeError, TimeoutError):
        async with asyncio.timeout(patience):
            await send(_text(b'{"type":"problem","problem":%s}' % document))
            code = CLOSED_WITH + problem.status
            await send({"type": "websocket.close", "code": code, "reason": encode(reason).decode()})


def _text(body: bytes) -> Message:
    return {"type": "websocket.send", "text": body.decode()}


router.routes.append(WebSocketRoute("/v1/live", Socket(), name="live"))
