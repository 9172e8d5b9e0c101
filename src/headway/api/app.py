"""The service as an ASGI application: all routes by a table, every error as a problem document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from headway.api import asks, charts, counts, health, instances, keys, live, pages, workers
from headway.api.access import Access
from headway.api.call import problem_response
from headway.api.cursors import CursorCiphers
from headway.api.handshake import Handshakes
from headway.api.limits import Limits, Streams
from headway.api.openapi import document_of
from headway.api.operations import bulk, letters, work
from headway.api.problems import FAILURES, Problem, problem_of
from headway.api.route import Front, require_routes
from headway.drawing import Drawings
from headway.errors import HeadwayError
from headway.node import Node

ROUTERS: tuple[APIRouter, ...] = (
    charts.router,
    counts.router,
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


def application(
    node: Node, access: Access, *, limits: Limits | None = None, routers: Sequence[APIRouter] = ()
) -> Front:
    """The service of a node, for callers that `access` accepts. It neither starts nor stops the node.

    `routers` are those of the lifecycles that it runs.
    Raises InputError for a route of another class, and for a WebSocket.
    """
    app = FastAPI(
        title="Headway",
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            HTTPException: _tell,
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
    path = request.scope["path"]
    problem = problem_of(error)
    if problem.code == "method":
        problem.headers["Allow"] = ", ".join(allowed_methods(request.app, path))
    FAILURES.tell(error, problem, f"{request.scope.get('method', request.scope['type'])} {path}")
    return problem_response(problem, path)


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """The methods that a path takes."""
    methods: set[str] = set()
    for route in iter_route_contexts(app.routes):
        if route.methods and route.path and compile_path(route.path)[0].match(path):
            methods |= set(route.methods)
    return sorted(methods)
