"""`Route`: the one way of a request: caller, scope, body, function, answer, problems and repeats."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, get_args, get_type_hints

from fastapi import APIRouter, Depends, FastAPI, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, compile_path

from headway.api.answers import NO_STORE, Reply, json_response, problem_response
from headway.api.bodies import parsed, wrong
from headway.api.call import (
    Call,
    Called,
    access_of,
    are_known,
    call_of,
    caller_of,
    decoded_name,
    decoded_path,
    expected_seq_of,
    keyed_request_of,
    needed_scopes,
    node_of,
    request_id_of,
    require,
)
from headway.api.idempotency import is_stored, key_of, repeated, request_of, stored_text
from headway.api.problems import FAILURES, Problem, problem_of
from headway.api.requests import REPLAYED
from headway.codec import is_struct
from headway.engine.orders import DAY, HOUR
from headway.engine.requests import RepeatedError, noting_replays, store_answer
from headway.errors import InputError, RequestReusedError

CREATED, LOWEST_ERROR = 201, 400
Run = Callable[[], Awaitable[Response]]
GIVEN: Mapping[object, Callable[[Call], Any]] = {
    access_of: access_of,
    call_of: lambda call: call,
    caller_of: lambda call: call.caller,
    expected_seq_of: expected_seq_of,
    keyed_request_of: keyed_request_of,
    node_of: node_of,
    request_id_of: request_id_of,
}
"""The dependencies that a route can take from a call by itself."""


class Function:
    """A route's function: where its parameters come from, the types of its body and its answer."""

    def __init__(self, function: Callable[..., Awaitable[Any]], answers: object, status: int) -> None:
        self._function, self._status = function, status
        hints = get_type_hints(function, include_extras=True)
        returned = hints.pop("return", None)
        self.answers = answers if answers is not None else returned if is_struct(returned) else None
        self._parameters = inspect.signature(function).parameters
        self._hints = hints
        self._body = next((name for name, hint in hints.items() if _is_body(hint)), None)
        self.body = None if self._body is None else hints[self._body]
        self.needs_body = self._body is not None and self._default(self._body) is inspect.Parameter.empty
        self._names: list[tuple[str, TypeAdapter[Any]]] = []
        self._given: list[tuple[str, Callable[[Call], Any]]] = []
        taken = [self._takes(name) for name in hints]
        self.is_direct = all(taken)
        self.takes_caller = any(take is GIVEN[caller_of] for _, take in self._given)

    @property
    def fields(self) -> Iterator[str]:
        """The names of the body's fields."""
        for kind in (self.body, *get_args(self.body)):
            yield from getattr(kind, "__struct_fields__", ())

    def decoded(self, call: Called) -> Any:
        """The body of a call; raises Problem 400 and 422."""
        if not call.body and not self.needs_body and self._body is not None:
            return self._default(self._body)
        return parsed(self.body, call.body)

    def endpoint(self) -> Callable[..., Awaitable[Response]]:
        """The function as FastAPI calls it: with the body as a dependency, and with a whole answer."""

        async def call(**given: Any) -> Response:
            return self._answer(await self._function(**given))

        call.__name__, call.__doc__ = self._function.__name__, self._function.__doc__
        call.__module__ = self._function.__module__
        own = [self._parameter(each) for each in self._parameters.values()]
        call.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]  # as inspect reads it
        return call

    async def run(self, call: Call, names: Mapping[str, str]) -> Response:
        """Call the function with what it takes from a call, and from its path; without FastAPI."""
        given = {name: take(call) for name, take in self._given}
        for name, kind in self._names:
            text = names[name]
            given[name] = _checked(kind, name, decoded_name(text))
        if self._body is not None:
            given[self._body] = self.decoded(call)
        return self._answer(await self._function(**given))

    def _answer(self, answer: Any) -> Response:
        return answer if isinstance(answer, Response) else json_response(answer, self._status)

    def _takes(self, name: str) -> bool:
        """Whether a parameter can be taken from a call; it is noted how."""
        hint = self._hints[name]
        if name == self._body:
            return True
        marks = get_args(hint)[1:]
        if any(isinstance(mark, params.Path) for mark in marks):
            self._names.append((name, TypeAdapter(hint)))
            return True
        found = next((mark.dependency for mark in marks if isinstance(mark, params.Depends)), None)
        if found in GIVEN:
            self._given.append((name, GIVEN[found]))
        return found in GIVEN

    def _parameter(self, parameter: inspect.Parameter) -> inspect.Parameter:
        hint = self._hints[parameter.name]
        changed = parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
        if parameter.name != self._body:
            return changed
        body = Annotated[Any, Depends(self.decoded)]
        return changed.replace(annotation=body, default=inspect.Parameter.empty)

    def _default(self, name: str) -> Any:
        return self._parameters[name].default


class Route(APIRoute):
    """A route of the service.

    A POST route whose function takes `RequestId` makes one call to the engine, which stores the answer for
    the idempotency key. The answer of any other POST route is stored by the route, unless the function has
    stored it in the transaction of its effect (see `headway.engine.requests`).
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As FastAPI's `APIRoute`; the body and the answer may be structs."""
        model = options.get("response_model")
        answers = model if is_struct(model) else None
        self.function = Function(endpoint, answers, options.get("status_code") or 200)
        if self.function.answers is not None:
            options["response_model"] = None
        super().__init__(path, self.function.endpoint(), **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request that the application routes here."""
        run = super().get_route_handler()
        self.scopes = needed_scopes(self.dependencies)
        self.is_engine_call = any(each.call is request_id_of for each in self.dependant.dependencies)
        self.has_body_key = "request_id" in self.function.fields

        async def handle(request: Request) -> Response:
            return await self._answer(call_of(request), partial(run, request))

        return handle

    async def answer(self, call: Call, names: Mapping[str, str]) -> Response:
        """The answer to a call whose path has these names; only for a function that `is_direct`."""
        return await self._answer(call, partial(self.function.run, call, names))

    async def _answer(self, call: Call, run: Run) -> Response:
        """The answer to a call; `run` calls the function."""
        try:
            if self.scopes or self.function.takes_caller or _has_key(call):
                caller = await call.find_caller()
                for scope in self.scopes:
                    require(caller, scope)
                if call.method == "POST":
                    call.key = key_of(call, in_body=self.has_body_key)
            if call.key is None:
                return _uncached(await run())
            if self.is_engine_call:
                return await _replayable(call, run)
            return await self._once(call, call.key, run)
        except Exception as error:  # noqa: BLE001 - every error is answered with a problem
            return failure(call, error)

    async def _once(self, call: Call, key: str, run: Run) -> Response:
        """Answer a request once; a repeat gets the stored answer, and counts as a stream while it waits."""
        call.keyed, engine = request_of(call, key), call.node.engine
        waiting = partial(call.app.state.streams.take, call.caller)
        async with engine.requests.turn(call.keyed, waiting) as stored:
            if stored is not None:
                return repeated(stored)
            response = await _first(call, run)
            if call.keyed.answer is None and is_stored(response):
                with suppress(RequestReusedError):  # another request had the key meanwhile; this one is done
                    lasts = self._lasts(response.status_code)
                    await store_answer(engine.store, call.keyed, stored_text(response), lasts)
            if call.keyed.answer is not None and call.keyed.is_repeat:
                return repeated(call.keyed.answer)
            return response

    def _lasts(self, status: int) -> timedelta:
        """How long an answer is stored: longer if the request made something new."""
        is_new = status == CREATED or (status < LOWEST_ERROR and "{" not in self.path)
        return DAY if is_new else HOUR


class Router(APIRouter):
    """Routes of the service, or of a lifecycle."""

    def __init__(self, **options: Any) -> None:
        """As FastAPI's `APIRouter`."""
        super().__init__(route_class=Route, **options)


class DirectRoutes:
    """The POST routes that can be called without the application, by the segments of their paths."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes: dict[tuple[str, ...], tuple[Route, list[str]]] = {}
        self._masks: dict[int, dict[tuple[int, ...], None]] = {}
        for context in iter_route_contexts(routes):
            route = context.original_route
            if (
                isinstance(route, Route)
                and route.function.is_direct
                and "POST" in (route.methods or ())
                and are_known(context.dependencies, {decoded_path, known_query})
            ):
                self._add(route, str(context.path).split("/"))

    def find(self, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """The route of a path, with the names in the path as they were sent."""
        segments = path.split("/")
        for mask in self._masks.get(len(segments), ()):
            names = [segments[place] for place in mask]
            for place in mask:
                segments[place] = "{}"
            found = self._routes.get(tuple(segments))
            if found is not None:
                route, own = found
                return (route, dict(zip(own, names, strict=True))) if all(names) else None
            for place, name in zip(mask, names, strict=True):
                segments[place] = name
        return None

    def _add(self, route: Route, segments: list[str]) -> None:
        mask = tuple(place for place, each in enumerate(segments) if each.startswith("{"))
        self._masks.setdefault(len(segments), {})[mask] = None
        own = [segments[place].strip("{}").partition(":")[0] for place in mask]
        path = tuple("{}" if place in mask else each for place, each in enumerate(segments))
        self._routes.setdefault(path, (route, own))


def _is_body(hint: object) -> bool:
    return is_struct(hint) and not any(isinstance(mark, params.Depends) for mark in get_args(hint))


async def _replayable(call: Call, run: Run) -> Response:
    """Call the engine, which has the key; mark the answer if it was stored before."""
    with noting_replays() as replay:
        try:
            response = _uncached(await run())
        except Exception as error:  # noqa: BLE001 - as above
            response = failure(call, error)
    if replay.happened:
        response.raw_headers.append(REPLAYED)
    return response


async def _first(call: Call, run: Run) -> Response:
    try:
        return _uncached(await run())
    except RepeatedError:
        return Response()  # another process has carried it out: the stored answer counts
    except Exception as error:  # noqa: BLE001 - as above
        return failure(call, error)


def failure(call: Call, error: Exception) -> Response:
    """The answer to a call that has failed."""
    if isinstance(error, RequestValidationError):
        return problem_response(_invalid(error.errors()), call.path)
    if isinstance(error, HTTPException):
        return problem_response(http_problem(error, call.app, call.path), call.path)
    problem = problem_of(error)
    FAILURES.tell(error, problem, f"{call.method} {call.path}")
    return problem_response(problem, call.path)


NOT_ALLOWED = 405
HTTP_CODES = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    NOT_ALLOWED: "method",
    413: "too_large",
    415: "media_type",
    503: "unavailable",
}


def http_problem(error: Exception, app: FastAPI, path: str) -> Problem:
    """The problem of an error that Starlette or a route of a lifecycle raises by its status."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = {"Allow": ", ".join(allowed_methods(app, path))} if status == NOT_ALLOWED else {}
    return Problem(HTTP_CODES.get(status, "malformed"), headers=headers)


def _invalid(found: Sequence[Mapping[str, Any]]) -> Problem:
    """The problem that names each place in path, query or headers that FastAPI has refused."""
    places = [(".".join(map(str, each["loc"])), _message(each)) for each in found]
    errors = [{"place": place, "message": message} for place, message in places]
    return Problem("invalid", "; ".join(f"{place}: {message}" for place, message in places), errors=errors)


def _message(found: Mapping[str, Any]) -> str:
    return "it is required" if found["type"] == "missing" else str(found["msg"])


def _checked(kind: TypeAdapter[Any], name: str, text: str) -> Any:
    try:
        return kind.validate_python(text)
    except ValidationError as error:
        raise wrong(f"path.{name}", str(error.errors()[0]["msg"])) from error


def _uncached(response: Response) -> Response:
    """An answer that nobody caches, unless it says otherwise; a `Reply` says so already."""
    if not isinstance(response, Reply) and all(name != b"cache-control" for name, _ in response.raw_headers):
        response.raw_headers.append(NO_STORE)
    return response


def _has_key(call: Call) -> bool:
    return call.method == "POST" and {b"idempotency-key", b"authorization"} <= call.headers.keys()


def require_routes(app: FastAPI) -> None:
    """Raises InputError for a route that is not a `Route`, which has its own ways with errors and repeats."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and not isinstance(route, Route):
            raise InputError(f"the route {context.path} must be one of a headway.api.route.Router")
        if isinstance(route, Route):  # also those of the routers that include it
            route.scopes = needed_scopes(context.dependencies)


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """The methods that a path takes."""
    methods: set[str] = set()
    for route in iter_route_contexts(app.routes):
        if route.methods and route.path and compile_path(route.path)[0].match(path):
            methods |= set(route.methods)
    return sorted(methods)


def known_query(connection: HTTPConnection) -> None:
    """Raises Problem 422 for a parameter that the route does not know, or that comes twice."""
    route = connection.scope.get("route")
    if not connection.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known, seen = _query(route), set()
    for name, _ in connection.query_params.multi_items():
        if name not in known:
            raise wrong(
                f"query.{name}", f"there is no such parameter; there are: {', '.join(known) or 'none'}"
            )
        if name in seen and "list[" not in known[name]:
            raise wrong(f"query.{name}", "it comes twice")
        seen.add(name)


def _query(route: APIRoute) -> dict[str, str]:
    """The parameters of a route's query, and their types as text."""
    fields = get_flat_params(route.dependant)
    return {
        each.alias: str(each.field_info.annotation)
        for each in fields
        if isinstance(each.field_info, params.Query)
    }
