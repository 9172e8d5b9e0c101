"""`HttpCall`: one request as it came, and `Reply`: the answer as it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from fastapi import FastAPI
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from headway.api.access import Access, Caller
from headway.api.bodies import wrong
from headway.api.problems import PROBLEM_JSON, Problem
from headway.codec import decode, encode, require_depth
from headway.engine.requests import Request as KeyedRequest
from headway.errors import InputError
from headway.node import Node

JSON = b"application/json"
UTF8 = frozenset({b"utf-8", b"utf8"})
NO_STORE = (b"cache-control", b"no-store")
JSON_HEADERS = ((b"content-type", JSON), NO_STORE)
PROBLEM_HEADERS = ((b"content-type", PROBLEM_JSON.encode()), NO_STORE)
MOST_DRAINED = 16
"""A body that is too large is read up to this many times the limit, so that its sender gets the answer."""
CLOSE = {"Connection": "close"}
KEY = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
TAG = re.compile(rb'"(0|[1-9][0-9]{0,17})"')
ONCE = {
    name.lower().encode(): name
    for name in (
        "Authorization",
        "Content-Type",
        "Host",
        "Idempotency-Key",
        "If-Match",
        "Last-Event-ID",
        "Origin",
    )
}
"""Headers that decide who calls and what is done: a request must not have two of them."""


class Served(NamedTuple):
    """What an application serves, and the largest body that it accepts."""

    app: FastAPI
    node: Node
    access: Access
    most_bytes: int


class HttpCall:
    """One request: what came, and who calls.

    `names` are the parameters of its path, as they were sent; `is_whole` says that `body` is there already.
    `request_id` is the engine's request id of a request with an idempotency key; `keyed` is that request if
    it is more than one call to the engine.
    """

    __slots__ = (
        *("access", "app", "body", "caller", "headers", "is_whole", "keyed", "method", "most_bytes", "names"),
        *("node", "path", "query", "receive", "request_id", "scope", "__dict__"),
    )

    def __init__(self, served: Served, scope: Scope, receive: Receive) -> None:
        self.app, self.node, self.access, self.most_bytes = served
        self.scope, self.receive = scope, receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.body, self.is_whole = b"", False
        self.names: dict[str, str] = {}
        self.caller: Caller | None = None
        self.request_id: str | None = None
        self.keyed: KeyedRequest | None = None

    async def read(self) -> None:
        """Read the body, and check what holds for every request.

        Raises Problem 400 for a doubled header and for a body that is nested too deep, 413 for a body that is
        too large, 415 for one that is not JSON.
        """
        headers, raw = self.headers, self.scope["headers"]
        if len(headers) != len(raw):
            require_single(name for name, _ in raw)
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return
        if int(headers.get(b"content-length", b"0")) > self.most_bytes * MOST_DRAINED:
            raise self._too_large()
        if not self.is_whole:
            message = await self.receive()
            self.body = message.get("body", b"")
            if message.get("more_body", False):
                await self._read_rest()
        if len(self.body) > self.most_bytes:
            raise self._too_large()
        kind = headers.get(b"content-type", b"")
        if kind != JSON and self.body and not is_json(kind):
            raise Problem("media_type")
        try:
            require_depth(self.body)
        except InputError as error:
            raise Problem("malformed", str(error)) from error

    def key(self, *, in_body: bool) -> str | None:
        """The idempotency key, from the header or from `request_id` in the body.

        Raises Problem 422 for one that is not valid, and for two that differ.
        """
        given = self.headers.get(b"idempotency-key")
        if given is not None and KEY.fullmatch(given) is None:
            raise wrong("header.Idempotency-Key", "it must have 1 to 255 visible ASCII characters")
        named = None if given is None else given.decode("ascii")
        own = _body_key(self.body) if in_body else None
        if named is not None and own not in {None, named}:
            raise wrong("body.request_id", "it differs from the header Idempotency-Key")
        return named if own is None else own

    @property
    def expected_seq(self) -> int | None:
        """The version in `If-Match`; raises Problem 422 if it is not a version."""
        tag = self.headers.get(b"if-match")
        if tag is None or tag.strip() == b"*":
            return None
        match = TAG.fullmatch(tag.strip())
        if match is None:
            raise wrong("header.If-Match", 'it must be one ETag of the instance, as in "3", or *')
        return int(match[1])

    @cached_property
    def query_values(self) -> QueryParams:
        """The parameters of the query."""
        return QueryParams(self.query.decode("latin-1"))

    @cached_property
    def header_values(self) -> Mapping[str, str]:
        """The headers as text, by their names in lower case."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers.items()}

    @cached_property
    def request(self) -> Request:
        """The request as Starlette presents it."""
        pending = [self.body]

        async def receive() -> Message:
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            return await self.receive()

        return Request({**self.scope, "path_params": dict(self.names)}, receive)

    async def _read_rest(self) -> None:
        parts, size, more = [self.body], len(self.body), True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Problem("malformed", "the connection was closed before the end of the body")
            part = message.get("body", b"")
            size, more = size + len(part), message.get("more_body", False)
            if size <= self.most_bytes:
                parts.append(part)
            elif size > self.most_bytes * MOST_DRAINED:
                break
        if size > self.most_bytes:
            raise self._too_large()
        self.body = b"".join(parts)

    def _too_large(self) -> Problem:
        return Problem("too_large", f"a body has at most {self.most_bytes:,} bytes", headers=CLOSE)


class Reply(Response):
    """A whole answer, with its headers as they are sent."""

    def __init__(self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(body))]


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Data as JSON."""
    return Reply(status, encode(data), [*JSON_HEADERS, *_raw(headers or {})])


def problem_response(problem: Problem, path: str) -> Reply:
    """A problem as its document."""
    return Reply(problem.status, problem.document(path), [*PROBLEM_HEADERS, *_raw(problem.headers)])


def is_json(content_type: bytes) -> bool:
    """Whether a content type is that of JSON in UTF-8."""
    kind, *parameters = (part.strip().lower() for part in content_type.split(b";"))
    named = dict(part.partition(b"=")[::2] for part in parameters)
    return kind == JSON and named.get(b"charset", b"utf-8").strip(b'"') in UTF8


def require_single(names: Iterable[bytes]) -> None:
    """Raises Problem 400 if a header of `ONCE` is among the names twice."""
    seen = set()
    for name in names:
        if name in ONCE and name in seen:
            raise Problem("doubled_header", f"the header {ONCE[name]} must be sent once")
        seen.add(name)


def _body_key(body: bytes) -> str | None:
    """The `request_id` of a body; None for one that is not valid, which is for the route to refuse."""
    try:
        given = decode(dict[str, object], body).get("request_id") if body else None
    except InputError:
        return None
    return given if isinstance(given, str) and KEY.fullmatch(given.encode()) else None


def _raw(headers: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
