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
"""The code a WebSocket is closed with is this and the status of the problem."""
STREAM = "text/event-stream; charset=utf-8"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
SOON = 1_000
"""After so many milliseconds a reader that has lost its stream comes back."""

After = Annotated[
    str | None,
    Query(description="The id of an event: what came after it comes first; `0-0` is the beginning."),
]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="As `after`, by those who come back; it goes before."),
]
Name = Annotated[str | None, Query(max_length=400)]

router = Router(tags=["live"])


def hub_of(app: Any) -> Hub:
    """The application's hub; it is made when somebody needs it. It ends with `state.stopping`."""
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
            "description": "A stream of events, each with its id, as long as the reader stays.",
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
    """All that happens in the tenant, or to an instance, or to those of a chart, an owner or a parent.

    Without `after` it begins now. Who comes back with the id of the last event misses and doubles none.
    """
    hub = hub_of(request.app)
    authorization = request.headers.get("authorization")
    since = last_event_id or after
    wanted = {"chart": chart, "instance": instance, "owner": owner, "parent": parent}
    reader = await hub.enter(authorization, since, **wanted)
    return Stream(hub, reader, request.url.path)


class Stream(Response):
    """A stream of server-sent events for one reader."""

    media_type = STREAM

    def __init__(self, hub: Hub, reader: FeedReader, path: str) -> None:
        self.status_code, self.background = 200, None
        self.init_headers({**STREAM_HEADERS, "Content-Type": STREAM})
        self._hub, self._reader, self._path = hub, reader, path

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Give the reader all it wants, until one of both is gone."""
        try:
            await self._give(receive, send)
        except (OSError, RuntimeError):
            return  # nobody listens any more
        finally:
            self._hub.leave(self._reader)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._hub.limits.farewell):
                await send(_chunk(self._last_words(), more=False))

    async def _give(self, receive: Receive, send: Send) -> None:
        reader = self._reader

        async def give(frame: Frame) -> None:
            await send(frame.chunk)

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(_chunk(f"retry: {SOON}\nid: {reader.place}\n: welcome\n\n".encode()))
        await _attend(reader, give, _gone(receive))

    def _last_words(self) -> bytes:
        problem = self._reader.problem
        if problem is None:
            return b""
        place = self._reader.place.encode()
        return b"id: %s\nevent: problem\ndata: %s\n\n" % (place, problem.document(self._path))


def _chunk(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _gone(receive: Receive) -> Problem | None:
    """Comes back when the reader of a stream is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    return None


async def _attend(reader: FeedReader, give: Give, hear: Coroutine[Any, Any, Problem | None]) -> None:
    """Give a reader what it wants until it is ended, or until `hear` comes back, perhaps with a problem."""
    listening = asyncio.create_task(hear)
    listening.add_done_callback(lambda done: reader.end(None if done.cancelled() else done.result()))
    try:
        await reader.run(give)
    finally:
        listening.cancel()


class Socket:
    """The WebSocket `/v1/live`: one hello, then events."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; whatever goes wrong, it gets a problem document and a clean close."""
        hub = hub_of(scope["app"])
        await receive()
        await send({"type": "websocket.accept"})
        problem = await self._converse(hub, scope, receive, send)
        if problem is not None:
            await _close(send, problem, scope["path"], hub.limits.farewell)

    async def _converse(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Hear the hello and give events; why the connection is to be closed, None when it is gone."""
        headers = Headers(scope=scope)
        try:
            require_single(name for name, _ in scope["headers"])
            must_be_own_page(headers, getattr(scope["app"].state, "origins", ()))
            handshakes: Handshakes = scope["app"].state.handshakes
            async with handshakes.waiting((scope.get("client") or ("",))[0], hub.limits.hello):
                hello = await hello_of(receive)
            if hello is None:
                return None
            wanted = {name: getattr(hello, name) for name in ("chart", "instance", "owner", "parent")}
            reader = await hub.enter(credential_of(headers, hello), hello.after, **wanted)
            scope.get(ESTABLISHED, bool)()
        except Exception as error:  # noqa: BLE001 - each becomes a problem
            return problem_of(error)
        try:
            return await self._give(hub, reader, receive, send)
        except (OSError, RuntimeError):
            return None  # nobody listens any more
        finally:
            hub.leave(reader)

    async def _give(self, hub: Hub, reader: FeedReader, receive: Receive, send: Send) -> Problem | None:
        async def give(frame: Frame) -> None:
            await send(frame.message)

        welcome = {"type": "welcome", "id": reader.place, "heartbeat": hub.limits.heartbeat}
        await send(_text(encode({**welcome, "tenant": reader.feed.wanted.tenant})))
        await _attend(reader, give, _says_nothing(receive))
        return reader.problem


async def _says_nothing(receive: Receive) -> Problem | None:
    """Comes back when a WebSocket is gone, or has said more than its hello."""
    if (await receive())["type"] == "websocket.receive":
        return Problem("invalid", "after its hello a reader says nothing")
    return None


async def _close(send: Send, problem: Problem, path: str, patience: float) -> None:
    """Say why, then close; one that takes neither in time is left to the server."""
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
