"""The service as an ASGI application: all routes by a table, every error as a problem document."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, cached_property

from fastapi import APIRouter, Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headway.api import asks, charts, health, instances, keys, live, pages, workers
from headway.api.access import Access
from headway.api.answers import problem_response
from headway.api.call import CALL, Call, decoded_path
from headway.api.cursors import CursorCiphers
from headway.api.handshake import Handshakes
from headway.api.limits import Limits, Streams
from headway.api.openapi import document_of
from headway.api.operations import bulk, letters, work
from headway.api.problems import FAILURES, Problem, problem_of
from headway.api.requests import headers_of, read_body
from headway.api.route import DirectRoutes, failure, http_problem, known_query, require_routes
from headway.drawing import Drawings
from headway.errors import HeadwayError
from headway.node import Node

ROUTERS: tuple[APIRouter, ...] = (
    charts.router,
    instances.router,
    asks.router,
    asks.links,
    keys.router,
    live.router,
    workers.router,
    work.router,
    letters.router,
    bulk.router,
    health.router,
    pages.router,
)
"""All routes. A router names its own paths from the root on, as in `APIRouter(prefix="/v1/charts")`."""


class Front:
    """The application behind what holds for every request: the size and type of bodies, the path as sent."""

    def __init__(self, app: FastAPI, limits: Limits) -> None:
        self.app, self.limits = app, limits
        app.state.stopping = asyncio.Event()

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
            with suppress(Problem):  # a doubled header: the route that reads it refuses it
                headers = headers_of(scope["headers"])
                scope[CALL] = Call(self.app, "GET", scope["path"], headers, query=scope["query_string"])
            await self.app(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    @property
    def is_direct(self) -> bool:
        """Whether connections may call the `direct` routes: no middleware wants to see every call."""
        return not self.app.user_middleware

    @cached_property
    def direct(self) -> DirectRoutes:
        """The routes that a connection may call itself."""
        return DirectRoutes([route for router in ROUTERS for route in router.routes])

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(self.app, scope["method"], scope["path"], {}, query=scope["query_string"])
        try:
            call.headers = headers_of(scope["headers"])
            if b"content-length" in call.headers or b"transfer-encoding" in call.headers:
                call.body = await read_body(receive, call.headers, self.limits.body)
                receive = _given(call.body, receive)
        except Exception as error:  # noqa: BLE001 - every error is answered with a problem
            await failure(call, error)(scope, receive, send)
            return
        scope[CALL] = call
        with suppress(Exception):  # it has been answered and logged
            await self.app(scope, receive, send)


def _given(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read already, and then what comes after it."""
    pending = [body]

    async def receive_given() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_given


def application(
    node: Node, access: Access, *, limits: Limits | None = None, routers: Sequence[APIRouter] = ()
) -> Front:
    """The service of a node, for those whom `access` knows. Whoever serves it starts and stops the node.

    `routers` are those of the lifecycles that it runs. Raises InputError for a route of another class.
    """
    app = FastAPI(
        title="Headway",
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(decoded_path), Depends(known_query)],
        exception_handlers={
            HTTPException: _tell_http,
            Problem: _tell,
            HeadwayError: _tell,
            Exception: _tell,
        },
    )
    app.state.node, app.state.access = node, access
    app.state.drawings = Drawings()
    app.state.ciphers = CursorCiphers(node.engine.store)
    limits = limits or Limits()
    app.state.streams, app.state.handshakes = Streams(limits), Handshakes(limits)
    for router in (*ROUTERS, *routers):
        app.include_router(router)
    require_routes(app)
    app.openapi = cache(lambda: document_of(app))  # type: ignore[method-assign]  # FastAPI's own way
    return Front(app, limits)


async def _tell(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    FAILURES.tell(error, problem, f"{request.method} {request.scope['path']}")
    return problem_response(problem, request.scope["path"])


async def _tell_http(request: Request, error: Exception) -> Response:
    problem = http_problem(error, request.app, request.scope["path"])
    return problem_response(problem, request.scope["path"])
