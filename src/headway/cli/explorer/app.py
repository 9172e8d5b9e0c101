"""The explorer as a web application."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headway.cli.explorer.api import Api, browser_of, tell_error, with_cookie
from headway.cli.explorer.charts import ShownCharts
from headway.cli.explorer.guard import Guard, problem
from headway.cli.explorer.page import STATIC, page
from headway.cli.explorer.session import ExplorerSessions
from headway.cli.lifecycles import NamedChart
from headway.cli.serve import address_of, listen
from headway.clock import Clock, SystemClock
from headway.errors import HeadwayError

SMALL = 20


def explorer(found: Iterable[NamedChart], hosts: Iterable[str] = (), clock: Clock | None = None) -> Starlette:
    """The application that shows these charts, to callers of loopback and of these host names."""
    charts = ShownCharts(found)
    api = Api(charts, ExplorerSessions(), clock or SystemClock())

    async def first(_request: Request) -> Response:
        return RedirectResponse(f"/charts/{_welcoming(charts)}", 303)

    async def show(request: Request) -> Response:
        shown = charts.get(request.path_params["slug"])
        response = HTMLResponse(page(shown, charts.by_slug.values()))
        response.headers["Cache-Control"] = "no-cache"
        return with_cookie(response, browser_of(request))

    return Starlette(
        routes=[
            Route("/", first),
            Route("/charts/{slug}", show),
            Mount("/api", routes=api.routes()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, hosts=tuple(hosts))],
        exception_handlers={HeadwayError: tell_error, HTTPException: _tell_http, Exception: _tell_fault},
    )


def _welcoming(charts: ShownCharts) -> str:
    """The chart to begin with: one whose drawing is seen whole, and that asks a person if there is one."""
    small = [slug for slug, shown in charts.by_slug.items() if len(shown.chart.nodes) <= SMALL]
    asking = [slug for slug in small if any(state.ask for state in charts.get(slug).chart.model.states)]
    return next(iter([*asking, *small, *charts.by_slug]))


async def _tell_http(_request: Request, error: Exception) -> Response:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
    return problem(status, "http", detail)


async def _tell_fault(_request: Request, error: Exception) -> Response:
    return problem(500, "fault", f"{type(error).__name__}: {error}")


def run(
    found: Iterable[NamedChart], host: str, ports: Iterable[int], announce: Callable[[str], None]
) -> None:
    """Serve on the first free port of these, announce the address, and return when interrupted."""
    listening = listen(host, ports)
    app = explorer(found, hosts=host_names(host))
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=1)
    announce(address_of(listening, host))
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        listening.close()


def host_names(host: str) -> tuple[str, ...]:
    """The names callers may use: for loopback only its own, else this machine's and any bare address."""
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return (host,) if local else (host, socket.gethostname().lower(), "*")
