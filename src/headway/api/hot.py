"""The routes that are called most: nothing between the connection and the engine that they do not need.

They are routes of the application like all others, with their place in the OpenAPI document; the front
calls them before the application is asked, and `HotRoute` when it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from headway.api.access import Access
from headway.api.call import decoded_name, require
from headway.api.caller import Caller
from headway.api.failures import FAILURES
from headway.api.problems import PROBLEM_JSON, Problem, problem_of
from headway.api.requests import (
    REPLAYED,
    REQUEST_ID,
    expected_seq,
    headers_of,
    parsed,
    read_body,
    request_key,
    require_json,
    wrong,
)
from headway.codec import Value, encode
from headway.engine.orders import Answer, Receipt, parent_named
from headway.engine.requests import noting_replays
from headway.errors import InputError
from headway.node import Node
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event

INSTANCES = b"/v1/instances"
EVENTS = b"/events"
CREATED = 201
UNADDRESSABLE = frozenset({".", ".."})
Headers = dict[bytes, bytes]
Reply = tuple[int, bytes, list[tuple[bytes, bytes]]]
Route = tuple[Callable[[bytes, Caller, Headers, bytes], Awaitable[Reply]], bytes]


class SentEvent(Value):
    """The body of an event."""

    event: str
    data: Any = None
    reason: str | None = None


class NewInstance(Value):
    """The body of a creation."""

    chart: str
    id: str | None = None
    context: dict[str, Any] | None = None


class Standing(Value, omit_defaults=False):
    """The answer of both: where the instance stands now."""

    id: str
    chart: str
    version: int
    seq: int
    status: str
    states: tuple[str, ...]
    ended: bool


class Hot:
    """The handlers of the routes that are called most."""

    def __init__(self, node: Node, access: Access, limit: int) -> None:
        self._node, self._engine, self._access, self._limit = node, node.engine, access, limit

    def route(self, path: bytes) -> Route | None:
        """What serves a POST to a path, if it is one of these routes."""
        if path == INSTANCES:
            return self._create, b""
        name = path[len(INSTANCES) + 1 : -len(EVENTS)]
        if not name or b"/" in name or path != b"%b/%b%b" % (INSTANCES, name, EVENTS):
            return None
        return self._send, name

    async def serves(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Serve a POST, if it is for one of these routes."""
        route = self.route(scope["raw_path"])
        if route is None:
            return False
        try:
            headers = headers_of(scope["headers"])
            caller = await self._caller(headers)
            body = await read_body(receive, headers, self._limit)
            answer = await self._answer(route, caller, headers, body)
        except Exception as error:  # noqa: BLE001 - every error leaves as a problem
            answer = told(error, scope["path"])
        await reply(send, answer)
        return True

    async def answer(
        self, path: bytes, route: Route, raw: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> Reply:
        """The answer to a request that is there whole."""
        try:
            headers = headers_of(raw)
            caller = await self._caller(headers)
            require_json(headers, body)
            return await self._answer(route, caller, headers, body)
        except Exception as error:  # noqa: BLE001 - every error leaves as a problem
            return told(error, path.decode("ascii", "replace"))

    async def _answer(self, route: Route, caller: Caller, headers: Headers, body: bytes) -> Reply:
        if b"idempotency-key" not in headers:
            return await route[0](route[1], caller, headers, body)
        with noting_replays() as replay:
            try:
                answer = await route[0](route[1], caller, headers, body)
            except Problem as problem:
                if replay.happened:
                    name, value = REPLAYED
                    problem.headers[name.decode()] = value.decode()
                raise
        if replay.happened:
            answer[2].append(REPLAYED)
        return answer

    async def _caller(self, headers: Headers) -> Caller:
        authorization = headers.get(b"authorization")
        caller = await self._access.caller(None if authorization is None else authorization.decode("latin-1"))
        require(caller, "send")
        return caller

    async def _send(self, name: bytes, caller: Caller, headers: Headers, body: bytes) -> Reply:
        instance = decoded_name(name.decode("ascii"))
        sent = parsed(SentEvent, body)
        if sent.reason is not None and "\x00" in sent.reason:
            raise wrong("body.reason", "it holds no NUL")
        event = Event(sent.event, sent.data, by=caller.actor, reason=sent.reason)
        answer = await self._engine.send(
            caller.tenant,
            instance,
            event,
            request_id=_request_id(headers),
            expected_seq=expected_seq(headers),
        )
        return standing(answer, 200)

    async def _create(self, _name: bytes, caller: Caller, headers: Headers, body: bytes) -> Reply:
        new = parsed(NewInstance, body)
        _check_name(new.id)
        tenant = self._node.tenant(caller.tenant)
        try:
            answer = await tenant.create(
                new.chart, new.id, new.context, by=caller.actor, request_id=_request_id(headers)
            )
        except InputError as error:
            raise Problem("context", str(error)) from error
        return standing(answer, CREATED)


def _check_name(name: str | None) -> None:
    """Raises Problem 422 for a name that no path can hold, or that only a parent gives."""
    if name is not None and (not name or name in UNADDRESSABLE or "\x00" in name or parent_named(name)):
        raise wrong("body.id", 'it is not empty, not "." or "..", holds no NUL, and is no name for a child')


def _request_id(headers: Headers) -> str | None:
    key = request_key(headers)
    return None if key is None else REQUEST_ID + key


def standing(answer: Answer, status: int) -> Reply:
    """The reply to an event that went through; raises Problem for a refusal."""
    if isinstance(answer, Refusal):
        raise problem_of(answer)
    content = encode(shown(answer))
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"etag", b'"%d"' % answer.seq),
    ]
    if status == CREATED:
        headers.append((b"location", b"/v1/instances/" + quote(answer.instance, safe="").encode()))
    return status, content, headers


def shown(receipt: Receipt) -> Standing:
    """Where an instance stands, as a caller sees it."""
    return Standing(
        receipt.instance,
        receipt.chart,
        receipt.version,
        receipt.seq,
        receipt.status,
        receipt.states,
        receipt.ended,
    )


async def reply(send: Send, answer: Reply) -> None:
    """Send a reply."""
    status, content, headers = answer
    headers.append((b"content-length", b"%d" % len(content)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def told(error: Exception, path: str) -> Reply:
    """The reply that tells of an error."""
    problem = problem_of(error)
    FAILURES.tell(error, problem, f"POST {path}")
    headers = [(b"content-type", PROBLEM_JSON.encode()), (b"cache-control", b"no-store")]
    headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
    return problem.status, problem.document(path), headers
