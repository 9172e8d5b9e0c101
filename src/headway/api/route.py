"""`Route`: the way of every request: its caller, the scope, the function, problems, and repeats."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, get_args

from fastapi import APIRouter, FastAPI, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import compile_path

from headway.api.answers import NO_STORE, problem_response, validation_problem
from headway.api.call import Call, call_of, needed_scope, request_id_of, require
from headway.api.failures import FAILURES
from headway.api.idempotency import is_stored, key_of, repeated, request_of, stored_text
from headway.api.problems import problem_of
from headway.api.requests import REPLAYED, wrong
from headway.engine.orders import DAY, HOUR
from headway.engine.requests import RepeatedError, noting_replays, store_answer
from headway.errors import RequestReusedError

CREATED, LOWEST_ERROR = 201, 400
Run = Callable[[], Awaitable[Response]]


class Route(APIRoute):
    """A route of the service.

    A POST route whose function takes `RequestId` makes one call to the engine, which stores the answer for
    the idempotency key. The answer of any other POST route is stored by the route, unless the function has
    stored it in the transaction of its effect (see `headway.engine.requests`).
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        run = super().get_route_handler()
        self.scope = needed_scope(self.dependencies)
        self.is_engine_call = any(each.call is request_id_of for each in self.dependant.dependencies)
        self.has_body_key = "request_id" in fields_of(body_type(self))

        async def handle(request: Request) -> Response:
            return await self.answer(call_of(request), partial(run, request))

        return handle

    async def answer(self, call: Call, run: Run) -> Response:
        """The answer to a call; `run` calls the route's function."""
        try:
            if self.scope is not None:
                require(await call.find_caller(), self.scope)
                if call.method == "POST":
                    call.key = key_of(call, in_body=self.has_body_key)
            if call.key is None:
                return _uncached(await run())
            if self.is_engine_call:
                return await self._replayable(call, run)
            return await self._once(call, call.key, run)
        except Exception as error:  # noqa: BLE001 - every error is answered with a problem
            return self._failed(call, error)

    async def _replayable(self, call: Call, run: Run) -> Response:
        """Call the engine, which has the key; say so if it answers with a stored answer."""
        with noting_replays() as replay:
            try:
                response = _uncached(await run())
            except Exception as error:  # noqa: BLE001 - as above
                response = self._failed(call, error)
        if replay.happened:
            response.raw_headers.append(REPLAYED)
        return response

    async def _once(self, call: Call, key: str, run: Run) -> Response:
        """Answer a request once; a repeat gets the stored answer, and counts as a stream while it waits."""
        call.keyed, engine = request_of(call, key), call.node.engine
        waiting = partial(call.app.state.streams.take, call.caller)
        async with engine.requests.turn(call.keyed, waiting) as stored:
            if stored is not None:
                return repeated(stored)
            response = await self._first(call, run)
            if call.keyed.answer is None and is_stored(response):
                with suppress(RequestReusedError):  # another request had the key meanwhile; this one is done
                    lasts = self._lasts(response.status_code)
                    await store_answer(engine.store, call.keyed, stored_text(response), lasts)
            if call.keyed.answer is not None and call.keyed.is_repeat:
                return repeated(call.keyed.answer)
            return response

    async def _first(self, call: Call, run: Run) -> Response:
        try:
            return _uncached(await run())
        except RepeatedError:
            return Response()  # in another process it was carried out before: the stored answer counts
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(call, error)

    def _lasts(self, status: int) -> timedelta:
        """How long an answer is stored: longer if the request made something new."""
        is_new = status == CREATED or (status < LOWEST_ERROR and "{" not in self.path)
        return DAY if is_new else HOUR

    def _failed(self, call: Call, error: Exception) -> Response:
        return failure(call, error, body_type(self))


class Router(APIRouter):
    """Routes of the service, or of a lifecycle."""

    def __init__(self, **options: Any) -> None:
        """As FastAPI's `APIRouter`."""
        super().__init__(route_class=Route, **options)


def failure(call: Call, error: Exception, body: object = None) -> Response:
    """The answer to a call that has failed; `body` is the type of body that its route takes."""
    if isinstance(error, RequestValidationError):
        return problem_response(validation_problem(error.errors(), body), call.path)
    problem = problem_of(error)
    FAILURES.tell(error, problem, f"{call.method} {call.path}")
    return problem_response(problem, call.path)


def body_type(route: APIRoute) -> object:
    """The type of the body that a route takes; None without one."""
    field = route.body_field
    return None if field is None else field.field_info.annotation


def fields_of(kind: object) -> Iterator[str]:
    """The names of the fields of a body."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from kind.model_fields
    for part in get_args(kind):
        yield from fields_of(part)


def _uncached(response: Response) -> Response:
    """An answer that nobody caches, unless it says otherwise."""
    if all(name != b"cache-control" for name, _ in response.raw_headers):
        response.raw_headers.append(NO_STORE)
    return response


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
