"""`Route`: the one way of a request: body, caller, scope, parameters, function, answer, problems, repeats."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import timedelta
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin, get_type_hints
from urllib.parse import unquote

from fastapi import APIRouter, FastAPI, params
from fastapi.routing import APIRoute, APIWebSocketRoute, RouteContext, iter_route_contexts
from pydantic import TypeAdapter, ValidationError
from starlette.requests import HTTPConnection
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from headway.api.bodies import checked, decoded_again, is_body, needs_checks, wrong, wrong_places
from headway.api.call import NO_STORE, HttpCall, Reply, Served, json_response, problem_response
from headway.api.idempotency import REPLAYED, is_stored, repeated, request_id_of, request_of, stored_text
from headway.api.limits import Limits
from headway.api.parameters import Needs
from headway.api.problems import FAILURES, Problem, lacks_scope, problem_of
from headway.codec import decode, is_struct
from headway.engine.orders import DAY, HOUR
from headway.engine.requests import RepeatedError, Replay, Request, store_answer
from headway.errors import InputError, RequestReusedError

CREATED, LOWEST_ERROR = 201, 400
NUL = "\x00"
MISSING = inspect.Parameter.empty
Segments = Callable[[Sequence[str]], object]
"""Takes segments out of a path."""
STREAMS = (StreamingResponse, FileResponse)


class Input(NamedTuple):
    """A parameter in the path, the query or a header: its validator, and its default."""

    place: str
    alias: str
    validate: Callable[[Any], Any]
    default: Any
    is_list: bool


SOURCES: Mapping[str, Callable[[HttpCall], Any]] = {
    "path": attrgetter("names"),
    "query": attrgetter("query_values"),
    "header": attrgetter("header_values"),
}
MARKS: tuple[tuple[type[params.Param], str], ...] = (
    (params.Path, "path"),
    (params.Query, "query"),
    (params.Header, "header"),
)


class Parameters:
    """Where the parameters of a function come from; found once, when its route is made."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        """`path` is the path of the route; a parameter that it does not name is one of the query."""
        self.function, self._path = function, path
        hints = get_type_hints(_signed(function), include_extras=True)
        self.returns = hints.pop("return", None)
        self._given = inspect.signature(function).parameters
        self.inputs: dict[str, Input] = {}
        self.taken: dict[str, Callable[[HttpCall], Any]] = {}
        self.nested: dict[str, Parameters] = {}
        self.body: str | None = None
        self.kinds: dict[str, Any] = {}
        for name, hint in hints.items():
            if name in self._given:
                self._add(name, hint)

    @property
    def attributes(self) -> Iterator[str]:
        """The attributes of the call that the function and its dependencies take."""
        for take in self.taken.values():
            if isinstance(take, attrgetter):
                yield take.__reduce__()[1][0]  # the name it was made with
        for each in self.nested.values():
            yield from each.attributes

    @property
    def documented(self) -> Iterator[inspect.Parameter]:
        """The inputs of the function and of its dependencies, as FastAPI describes them."""
        for name in self.inputs:
            yield self._given[name].replace(annotation=self.kinds[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in self.nested.values():
            yield from each.documented

    @property
    def query(self) -> Iterator[tuple[str, bool]]:
        """The parameters of the query: name, and whether it may come several times."""
        yield from ((each.alias, each.is_list) for each in self.inputs.values() if each.place == "query")
        for nested in self.nested.values():
            yield from nested.query

    @property
    def body_default(self) -> Any:
        """What the function gets without a body; MISSING if it needs one."""
        return None if self.body is None else self._given[self.body].default

    async def values(self, call: HttpCall) -> dict[str, Any]:
        """The arguments of the function, without its body; raises Problem 404 and 422."""
        values = {name: take(call) for name, take in self.taken.items()}
        errors = []
        for name, (place, alias, validate, default, is_list) in self.inputs.items():
            source = SOURCES[place](call)
            text = source.getlist(alias) or None if is_list else source.get(alias)
            if text is None:
                values[name] = default
                if default is MISSING:
                    errors.append((f"{place}.{alias}", "it is required"))
                continue
            try:
                values[name] = validate(decoded_name(text) if place == "path" and "%" in text else text)
            except ValidationError as error:
                errors += [(f"{place}.{alias}", str(each["msg"])) for each in error.errors()]
        if errors:
            raise wrong_places(errors)
        for name, each in self.nested.items():
            values[name] = await each.run(call)
        return values

    async def run(self, call: HttpCall) -> Any:
        """The result of a dependency."""
        result = self.function(**await self.values(call))
        return await result if inspect.isawaitable(result) else result

    def _add(self, name: str, hint: Any) -> None:
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        depends = next((mark.dependency for mark in marks if isinstance(mark, params.Depends)), None)
        kind = get_args(hint)[0] if marks else hint
        self.kinds[name] = hint
        if isinstance(depends, attrgetter):
            self.taken[name] = depends
        elif depends is not None:
            self.nested[name] = Parameters(depends, self._path)
        elif kind is HttpCall:
            self.taken[name] = _itself
        elif isinstance(kind, type) and issubclass(kind, HTTPConnection):
            self.taken[name] = attrgetter("request")
        elif is_body(hint):
            self.body = name
        else:
            self._add_input(name, hint, marks)

    def _add_input(self, name: str, hint: Any, marks: tuple[Any, ...]) -> None:
        usual = "path" if f"{{{name}}}" in self._path else "query"
        mark = next((mark for mark in marks if isinstance(mark, params.Param)), None)
        place = next((place for kind, place in MARKS if isinstance(mark, kind)), usual)
        alias = getattr(mark, "alias", None) or (name.replace("_", "-") if place == "header" else name)
        is_list = place == "query" and "list[" in str(hint)
        self.inputs[name] = Input(
            place,
            alias.lower() if place == "header" else alias,
            TypeAdapter(hint).validator.validate_python,
            self._given[name].default,
            is_list,
        )


def _signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that has the hints: that of a class is its constructor, that of an object its method."""
    if isinstance(function, type):
        return cast("Callable[..., Any]", function.__init__)  # type: ignore[misc]  # the class calls it
    return function if inspect.isroutine(function) else type(function).__call__


def _itself(call: HttpCall) -> HttpCall:
    return call


def decoded_name(text: str) -> str:
    """A name out of a path, percent-decoded once, so that it may hold a slash; raises Problem 404."""
    try:
        name = unquote(text, errors="strict")
    except UnicodeDecodeError:
        name = NUL
    if NUL in name:
        raise Problem("not_found", "no name can be written like this one")
    return name


def require_known_query(call: HttpCall, known: Mapping[str, bool]) -> None:
    """Raises Problem 422 for a parameter of the query that is unknown, or that comes twice.

    `known` says of each parameter whether it may come several times.
    """
    seen = set()
    for name, _ in call.query_values.multi_items():
        if name not in known:
            there_are = ", ".join(known) or "none"
            raise wrong(f"query.{name}", f"there is no such parameter; there are: {there_are}")
        if name in seen and not known[name]:
            raise wrong(f"query.{name}", "it comes twice")
        seen.add(name)


class Route(APIRoute):
    """A route of the service: a function whose body and answer may be structs.

    A POST route whose function takes `RequestId` makes one call to the engine, which stores the answer for
    the idempotency key. The answer of any other POST route is stored by the route, unless the function has
    stored it in the transaction of its effect (see `headway.engine.requests`). A route that is declared to
    stream its answer accepts no idempotency key: a stream is not stored.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As FastAPI's `APIRoute`, which matches no path and calls no function here: it describes them."""
        self.parameters = parameters = Parameters(endpoint, path)
        self.body: Any = None if parameters.body is None else parameters.kinds[parameters.body]
        self.needs_body = parameters.body_default is MISSING
        model = options.get("response_model")
        self.answers = next((kind for kind in (model, parameters.returns) if is_struct(kind)), None)
        if self.answers is not None:
            options["response_model"] = None
        self._status = options.get("status_code") or 200
        self._has_checks = self.body is not None and needs_checks(self.body)
        self._is_stream = any(
            _is_stream(kind) for kind in (options.get("response_class"), parameters.returns)
        )
        self._has_body_key = any(
            "request_id" in getattr(kind, "__struct_fields__", ())
            for kind in (self.body, *get_args(self.body))
        )
        self._is_engine_call = "request_id" in parameters.attributes
        self._takes_request = "request" in parameters.attributes
        self._query = dict(parameters.query)
        self.places: list[tuple[str, int]] = []
        self.scopes: tuple[Needs, ...] = ()
        self.before: list[Parameters] = []
        self.needs_caller = False
        super().__init__(path, _described(parameters), **options)

    def bound(self, context: RouteContext) -> Route:
        """The route as an application has it: with the dependencies of the routers that include it."""
        route = copy(self)
        route.path = str(context.path)
        segments = enumerate(route.path.split("/"))
        route.places = [(each.strip("{}"), place) for place, each in segments if each.startswith("{")]
        needed = [each.dependency for each in context.dependencies]
        route.scopes = tuple(each for each in needed if isinstance(each, Needs))
        route.before = [
            Parameters(each, self.path) for each in needed if each and not isinstance(each, Needs)
        ]
        taken = {name for each in (self.parameters, *route.before) for name in each.attributes}
        route.needs_caller = bool(route.scopes) or not taken.isdisjoint({"caller", "keyed"})
        return route

    @property
    def is_direct(self) -> bool:
        """Whether the function takes no more than a `Call` holds, and may be called without ASGI."""
        return not (self._is_stream or self.before or self.parameters.nested or self._takes_request)

    async def answer(self, call: HttpCall) -> Response:
        """The answer to a call; every error is answered with a problem."""
        try:
            await call.read()
            await self._find_caller(call)
            if call.query:
                require_known_query(call, self._query)
            if call.keyed is not None:
                return await self._once(call, call.keyed)
            return await (self._run(call) if call.request_id is None else self._send(call))
        except Exception as error:  # noqa: BLE001 - every error is answered with a problem
            return failure(call, error)

    async def _find_caller(self, call: HttpCall) -> None:
        """Find the caller, check the scopes, take the key. Raises Problem 401, 403, 422 and 429."""
        headers, is_post = call.headers, call.method == "POST"
        given = headers.get(b"authorization")
        if not self.needs_caller and (not is_post or given is None or b"idempotency-key" not in headers):
            return
        caller = call.caller = await call.access.caller(None if given is None else given.decode("latin-1"))
        for needed in self.scopes:
            if needed.accepted.isdisjoint(caller.scopes):
                raise lacks_scope(needed.scope)
        if not is_post or not (self._has_body_key or b"idempotency-key" in headers):
            return
        if self._is_stream:
            raise wrong("header.Idempotency-Key", "this route streams its answer, which is not stored")
        key = call.key(in_body=self._has_body_key)
        if key is not None:
            call.request_id = request_id_of(caller, key)
            call.keyed = None if self._is_engine_call else request_of(call, caller, call.request_id)

    async def _run(self, call: HttpCall) -> Response:
        """Call the function with what it takes from the call; raises Problem 400, 404 and 422."""
        for each in self.before:
            await each.run(call)
        parameters, kind = self.parameters, self.body
        values = await parameters.values(call)
        if parameters.body is not None and (call.body or self.needs_body):
            try:
                value = decode(kind, call.body)
            except InputError as error:
                value = decoded_again(kind, call.body, error)
            values[parameters.body] = checked(value) if self._has_checks else value
        answer = await parameters.function(**values)
        if not isinstance(answer, Response):
            return json_response(answer, self._status)
        if type(answer) is not Reply and all(name != b"cache-control" for name, _ in answer.raw_headers):
            answer.raw_headers.append(NO_STORE)
        return answer

    async def _send(self, call: HttpCall) -> Response:
        """Call the engine, which has the request id; mark the answer if it was stored before."""
        with Replay() as replay:
            try:
                response = await self._run(call)
            except Exception as error:  # noqa: BLE001 - as above
                response = failure(call, error)
        if replay.happened:
            response.raw_headers.append(REPLAYED)
        return response

    async def _once(self, call: HttpCall, keyed: Request) -> Response:
        """Answer a request once; a repeat gets the stored answer, and counts as a stream while it waits."""
        engine = call.node.engine
        waiting = partial(call.app.state.streams.take, call.caller)
        async with engine.requests.turn(keyed, waiting) as stored:
            if stored is not None:
                return repeated(stored)
            response = await whole(await self._first(call), call)
            if keyed.answer is None and is_stored(response):
                with suppress(RequestReusedError):  # another request had the key meanwhile; this one is done
                    lasts = self._lasts(response.status_code)
                    await store_answer(engine.store, keyed, stored_text(response), lasts)
            if keyed.answer is not None and keyed.is_repeat:
                return repeated(keyed.answer)
            return response

    async def _first(self, call: HttpCall) -> Response:
        try:
            return await self._run(call)
        except RepeatedError:
            return Response()  # another process has carried it out: the stored answer counts
        except Exception as error:  # noqa: BLE001 - as above
            return failure(call, error)

    def _lasts(self, status: int) -> timedelta:
        """How long an answer is stored: longer if the request made something new."""
        is_new = status == CREATED or (status < LOWEST_ERROR and "{" not in self.path)
        return DAY if is_new else HOUR


class Router(APIRouter):
    """Routes of the service, or of a lifecycle."""

    def __init__(self, **options: Any) -> None:
        """As FastAPI's `APIRouter`."""
        super().__init__(route_class=Route, **options)


class Front:
    """The service as an ASGI application: finds the route of a request in a table, and sends its answer.

    FastAPI's application behind it has what is no `Route`: WebSockets, the OpenAPI document, and the answers
    to requests that no route is for.
    """

    def __init__(self, app: FastAPI, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.served = Served(app, app.state.node, app.state.access, limits.body)
        self._serve_http: Callable[[Scope, Receive, Send], Any] = self._serve
        app.state.stopping = asyncio.Event()

    def stop(self) -> None:
        """Be no longer ready, and let streams end: `state.stopping` tells them."""
        self.app.state.stopping.set()

    @property
    def is_wrapped(self) -> bool:
        """Whether a middleware sees every request."""
        return self._serve_http != self._serve

    def wrap(self, middleware: Callable[..., Any], **options: Any) -> None:
        """Let an ASGI middleware see every request."""
        self._serve_http = middleware(self._serve_http, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one connection of another kind."""
        if scope["type"] != "lifespan":
            # Names are decoded after the path was taken apart: a name may hold a slash.
            scope["path"] = scope["raw_path"].decode("ascii", "replace")
        serve = self._serve_http if scope["type"] == "http" else self.app
        await serve(scope, receive, send)

    @cached_property
    def routes(self) -> Mapping[tuple[str, int], Sequence[tuple[Segments, Mapping[object, Route]]]]:
        """The routes by method and length of the path, and by the segments that are no parameters."""
        table: dict[tuple[str, int], dict[tuple[int, ...], dict[object, Route]]] = {}
        for context in iter_route_contexts(self.app.routes):
            if not isinstance(context.original_route, Route):
                continue
            route = context.original_route.bound(context)
            path = route.path.split("/")
            parameters = {place for _, place in route.places}
            fixed = tuple(place for place in range(len(path)) if place not in parameters)
            for method in context.methods or ():
                by_places = table.setdefault((method, len(path)), {})
                by_places.setdefault(fixed, {}).setdefault(itemgetter(*fixed)(path), route)
        return {
            key: [(itemgetter(*fixed), routes) for fixed, routes in by_places.items()]
            for key, by_places in table.items()
        }

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self.app
        call = HttpCall(self.served, scope, receive)
        route = self.find(call)
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        await (await route.answer(call))(scope, receive, send)

    def find(self, call: HttpCall) -> Route | None:
        """The route of a call, which gets the names in its path."""
        segments = call.path.split("/")
        for fixed, routes in self.routes.get((call.method, len(segments)), ()):
            route = routes.get(fixed(segments))
            if route is not None:
                call.names = {name: segments[place] for name, place in route.places}
                return route if all(call.names.values()) else None
        return None


def failure(call: HttpCall, error: Exception) -> Response:
    """The answer to a call that has failed."""
    problem = problem_of(error)
    FAILURES.tell(error, problem, f"{call.method} {call.path}")
    return problem_response(problem, call.path)


async def whole(response: Response, call: HttpCall) -> Response:
    """An answer that can be stored: one that is sent in parts is collected."""
    if hasattr(response, "body"):
        return response
    parts: list[bytes] = []

    async def collect(message: Message) -> None:
        parts.append(message.get("body", b""))

    await response(call.scope, call.request.receive, collect)
    headers = [header for header in response.raw_headers if header[0] != b"content-length"]
    return Reply(response.status_code, b"".join(parts), headers)


def _is_stream(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, STREAMS)


def _described(parameters: Parameters) -> Callable[..., Any]:
    """A function as FastAPI describes it: with the inputs of its path, its query and its headers."""

    async def described() -> None:
        """Never called."""

    function = parameters.function
    described.__name__, described.__doc__ = function.__name__, function.__doc__
    described.__module__ = function.__module__
    described.__signature__ = inspect.Signature([*parameters.documented])  # type: ignore[attr-defined]
    return described


def require_routes(app: FastAPI) -> None:
    """Raises InputError for a route that is not a `Route`, which handles errors and repeats differently.

    A WebSocket of a router is none: nothing would check who opens it.
    """
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIWebSocketRoute):
            raise InputError(f"the route {context.path} must not be a WebSocket: nothing checks its scopes")
        if isinstance(route, APIRoute) and not isinstance(route, Route):
            raise InputError(f"the route {context.path} must be one of a headway.http.Router")
