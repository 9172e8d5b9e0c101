"""The explorer as a web application: its pages, and the calls that a page makes."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import Any, Literal, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headway.cli.charts import FORMS, written
from headway.cli.explorer.charts import (
    STATIC,
    ChartNotFoundError,
    ShownCharts,
    details,
    first_context,
    page,
    summary,
)
from headway.cli.explorer.guard import Guard, problem
from headway.cli.explorer.session import (
    ExplorerSession,
    ExplorerSessions,
    LostSessionError,
    SessionStep,
    begin,
    first_facts,
    refusal_view,
    session_view,
)
from headway.cli.lifecycles import NamedChart
from headway.cli.serve import address_of, listen
from headway.clock import Clock, SystemClock, milliseconds
from headway.codec import Value, decode, encode
from headway.errors import GraphvizMissingError, HeadwayError, InputError, UnboundError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import (
    SYSTEM,
    Actor,
    Event,
    OpenWork,
    child_changed,
    work_done,
    work_failed,
    work_progress,
)

LARGEST_BODY = 256 * 1024
LONGEST_NAME = 200

Body = TypeVar("Body", bound=Value)


class BodyTooLargeError(HeadwayError):
    """The body is longer than anything the page sends."""


class NotJsonError(HeadwayError):
    """The body does not say that it is JSON."""


class NewSession(Value):
    """Begin an instance."""

    chart: str
    context: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None


class EventBody(Value):
    """Send an event as somebody; `ref` names the ask it answers."""

    event: str
    data: Any = None
    by: Actor = SYSTEM
    ref: str | None = None
    reason: str | None = None


class PassTime(Value):
    """Let time pass: for a while ("5m"), or until a timer is due."""

    by: str | None = None
    timer: str | None = None


class FinishWork(Value):
    """Play the worker: done, failed with a code, or on the way."""

    work: str
    outcome: Literal["done", "failed", "progress"]
    result: Any = None
    code: str = ""
    message: str = ""
    fraction: float = 0.0


class ChangeChild(Value):
    """Play a child: it goes from one status to another."""

    before: str | None = None
    after: str | None = None
    errors: int = 0


class SetFacts(Value):
    """Set the facts that guards read."""

    facts: dict[str, Any]


async def body_of(request: Request, kind: type[Body]) -> Body:
    """The checked body of a request; raises NotJsonError, BodyTooLargeError or InputError."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise NotJsonError("send JSON, with the header Content-Type: application/json")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_BODY:
            raise BodyTooLargeError(f"a body has at most {LARGEST_BODY // 1024} KB")
    return decode(kind, bytes(content))


def checked_name(name: str) -> str:
    """A name of sensible length; raises InputError."""
    if not name or len(name) > LONGEST_NAME:
        raise InputError(f"a name has 1 to {LONGEST_NAME} characters")
    return name


COOKIE = "headway_browser"
STATUS: dict[type[HeadwayError], tuple[int, str]] = {
    HeadwayError: (400, "input"),
    ChartNotFoundError: (404, "chart"),
    LostSessionError: (404, "session"),
    BodyTooLargeError: (413, "size"),
    NotJsonError: (415, "media-type"),
    UnboundError: (422, "unbound"),
    GraphvizMissingError: (503, "graphviz"),
}
"""The status of each error class; a class that is not named has the status of its parent."""

Handler = Callable[[Request], Awaitable[Response]]
Act = Callable[[ExplorerSession, Request], Awaitable[Refusal | None]]


async def tell_error(_request: Request, error: Exception) -> Response:
    """Any error raised on purpose, as JSON."""
    status, code = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return problem(status, code, str(error))


class Api:
    """The handlers of all routes under /api."""

    def __init__(self, charts: ShownCharts, sessions: ExplorerSessions, clock: Clock) -> None:
        self.charts, self.sessions, self.clock = charts, sessions, clock

    def routes(self) -> list[Route]:
        """The table of routes."""
        acts: dict[str, tuple[str, Act]] = {
            "events": ("POST", send),
            "time": ("POST", pass_time),
            "work": ("POST", finish_work),
            "children": ("POST", change_child),
            "facts": ("PUT", set_facts),
            "back": ("POST", go_back),
        }
        return [
            Route("/charts", self.list_charts),
            Route("/charts/{slug}", self.show_chart),
            Route("/charts/{slug}/check", self.check_chart),
            Route("/charts/{slug}/drawing", self.draw_chart),
            Route("/charts/{slug}/export/{form}", self.export_chart),
            Route("/sessions", self.create, methods=["POST"]),
            Route("/sessions/{session}", self.show, methods=["GET"]),
            Route("/sessions/{session}", self.forget, methods=["DELETE"]),
            *(
                Route(f"/sessions/{{session}}/{path}", self._act(act), methods=[verb])
                for path, (verb, act) in acts.items()
            ),
        ]

    async def list_charts(self, _request: Request) -> Response:
        """All charts."""
        return JSONResponse({"charts": [summary(shown) for shown in self.charts.by_slug.values()]})

    async def show_chart(self, request: Request) -> Response:
        """One chart, with what an instance of it can start with."""
        return answer(details(self.charts.get(request.path_params["slug"])))

    async def check_chart(self, request: Request) -> Response:
        """What the checker finds."""
        return answer(await self.charts.report(request.path_params["slug"]))

    async def draw_chart(self, request: Request) -> Response:
        """The chart as SVG; `active` names states to highlight."""
        active = frozenset(request.query_params.getlist("active"))
        drawn = await self.charts.drawing(request.path_params["slug"], active)
        return Response(drawn, media_type=FORMS["svg"].media_type)

    async def export_chart(self, request: Request) -> Response:
        """The chart as a file to keep."""
        shown, name = self.charts.get(request.path_params["slug"]), request.path_params["form"]
        if name not in FORMS:
            return problem(404, "form", f"a chart is exported as {', '.join(FORMS)}, not as {name!r}")
        form = FORMS[name]
        file = f'attachment; filename="{shown.slug}{form.suffix}"'
        content = await written(shown.chart, name)
        return Response(content, media_type=form.media_type, headers={"Content-Disposition": file})

    async def create(self, request: Request) -> Response:
        """Begin an instance, with a context and facts or with the least the chart asks for."""
        wanted = await body_of(request, NewSession)
        shown = self.charts.get(wanted.chart)
        facts = first_facts(shown.chart.model.facts) | (wanted.facts or {})
        context = first_context(shown.chart) if wanted.context is None else wanted.context
        first = begin(shown.chart, self.clock.now().replace(microsecond=0), context, facts)
        if not isinstance(first, SessionStep):
            return answer({"refusal": refusal_view(first), "session": None}, 409)
        browser = browser_of(request)
        session = ExplorerSession(shown.slug, shown.chart, first, browser=browser, facts=facts)
        self.sessions.add(session)
        return with_cookie(answer({"refusal": None, "session": session_view(session)}, 201), browser)

    async def show(self, request: Request) -> Response:
        """Where a session stands."""
        return answer({"refusal": None, "session": session_view(self._session(request))})

    async def forget(self, request: Request) -> Response:
        """End a session."""
        self.sessions.drop(self._session(request))
        return Response(status_code=204)

    def _session(self, request: Request) -> ExplorerSession:
        return self.sessions.get(request.path_params["session"], request.cookies.get(COOKIE))

    def _act(self, act: Act) -> Handler:
        async def handle(request: Request) -> Response:
            session = self._session(request)
            refusal = await act(session, request)
            told = refusal_view(refusal) if refusal is not None else None
            return answer(
                {"refusal": told, "session": session_view(session)}, 409 if refusal is not None else 200
            )

        return handle


async def send(session: ExplorerSession, request: Request) -> Refusal | None:
    """An event, as somebody."""
    sent = await body_of(request, EventBody)
    checked_name(sent.by.id)
    event = Event(checked_name(sent.event), sent.data, by=sent.by, ref=sent.ref, reason=sent.reason)
    return session.send(event)


async def pass_time(session: ExplorerSession, request: Request) -> Refusal | None:
    """A while, or until a timer is due."""
    wanted = await body_of(request, PassTime)
    if (wanted.by is None) == (wanted.timer is None):
        raise InputError("say either how long (by) or which timer")
    if wanted.timer is not None:
        timer = session.snapshot.timers.get(wanted.timer)
        if timer is None:
            raise InputError(f"the timer {wanted.timer} is no longer set")
        return session.pass_time(timer.due)
    try:
        duration = milliseconds(wanted.by or "")
    except ValueError as error:
        raise InputError(str(error)) from error
    return session.pass_time(session.after(duration))


async def finish_work(session: ExplorerSession, request: Request) -> Refusal | None:
    """What a worker would report; an attempt that starts later lets time pass first."""
    told = await body_of(request, FinishWork)
    work = _open_work(session, told.work)
    if work.due is not None and work.due > session.now:
        refusal = session.pass_time(work.due)
        if refusal is not None:
            return refusal
        work = _open_work(session, told.work)
    outcomes: dict[str, Callable[[], Event]] = {
        "done": lambda: work_done(work.id, work.attempt, told.result),
        "failed": lambda: work_failed(work.id, work.attempt, told.code, told.message),
        "progress": lambda: work_progress(work.id, work.attempt, told.fraction),
    }
    return session.send(outcomes[told.outcome]())


async def change_child(session: ExplorerSession, request: Request) -> Refusal | None:
    """What a child would report."""
    told = await body_of(request, ChangeChild)
    return session.send(child_changed("child", told.before, told.after, told.errors))


async def set_facts(session: ExplorerSession, request: Request) -> Refusal | None:
    """What guards get to know from now on."""
    session.facts = (await body_of(request, SetFacts)).facts
    return None


async def go_back(session: ExplorerSession, _request: Request) -> Refusal | None:
    """Undo the last step."""
    session.go_back()
    return None


def _open_work(session: ExplorerSession, name: str) -> OpenWork:
    found = next((work for work in session.snapshot.work.values() if work.id == name), None)
    if found is None:
        raise InputError(f"the work {name} is no longer open")
    return found


def answer(data: Any, status: int = 200) -> Response:
    """A JSON response that must not be cached."""
    return Response(encode(data), status, {"Cache-Control": "no-store"}, "application/json")


def browser_of(request: Request) -> str:
    """The browser's random name; a new one for a browser without."""
    return request.cookies.get(COOKIE) or token_urlsafe(16)


def with_cookie(response: Response, browser: str) -> Response:
    """The answer, with the browser's random name on it."""
    response.set_cookie(COOKIE, browser, httponly=True, samesite="strict", path="/")
    return response


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
