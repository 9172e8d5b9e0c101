"""The service as an ASGI application: all routes by a table, every error as a problem document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from fastapi import APIRouter, Depends, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headway.api import (
    asks,
    charts,
    health,
    instances,
    keys,
    live,
    operations,
    operations_bulk,
    operations_letters,
    pages,
    workers,
)
from headway.api.access import Access
from headway.api.answers import problem_response
from headway.api.call import decoded_path
from headway.api.failures import FAILURES
from headway.api.front import Front
from headway.api.limits import Limits
from headway.api.openapi import document_of
from headway.api.problems import Problem, problem_of
from headway.api.route import allowed_methods, known_query
from headway.api.seals import Seals
from headway.api.streams import Handshakes, Streams
from headway.drawing import Drawings
from headway.errors import HeadwayError
from headway.node import Node

ROUTERS: tuple[APIRouter, ...] = (
    charts.router,
    instances.router,
    instances.hot,
    asks.router,
    asks.links,
    keys.router,
    live.router,
    workers.router,
    operations.router,
    operations_letters.router,
    operations_bulk.router,
    health.router,
    pages.router,
)
"""All routes. A router names its own paths from the root on, as in `APIRouter(prefix="/v1/charts")`."""


def application(
    node: Node, access: Access, *, limits: Limits | None = None, routers: Sequence[APIRouter] = ()
) -> Front:
    """The service of a node, for those whom `access` knows. Whoever serves it starts and stops the node.

    `routers` are those of the lifecycles that it runs.
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
    app.state.seals = Seals(node.engine.store)
    limits = limits or Limits()
    app.state.streams, app.state.handshakes = Streams(limits), Handshakes(limits)
    for router in (*ROUTERS, *routers):
        app.include_router(router)
    app.openapi = cache(lambda: document_of(app))  # type: ignore[method-assign]  # FastAPI's own way
    return Front(app, limits)


async def _tell(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    FAILURES.tell(error, problem, f"{request.method} {request.scope['path']}")
    return problem_response(problem, request.scope["path"])


NOT_ALLOWED = 405
HTTP_CODES = {
    404: "not_found",
    NOT_ALLOWED: "method",
    413: "too_large",
    415: "media_type",
    503: "unavailable",
}


async def _tell_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = {}
    if status == NOT_ALLOWED:
        headers["Allow"] = ", ".join(allowed_methods(request.app, request.scope["path"]))
    problem = Problem(HTTP_CODES.get(status, "malformed"), headers=headers)
    return problem_response(problem, request.scope["path"])
