"""One request, and what route functions take from it: the node, the caller, its request id, its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import Depends, FastAPI, Query, params
from pydantic import BeforeValidator, Field
from pydantic import Strict as Strictness
from starlette.requests import HTTPConnection

from headway.api.access import Access, Caller
from headway.api.cursors import CursorCipher, CursorCiphers
from headway.api.problems import Problem
from headway.api.requests import REQUEST_ID, expected_seq
from headway.engine.requests import Request as KeyedRequest
from headway.node import Node

T = TypeVar("T")
MOST_PER_PAGE = 500
PER_PAGE = 100
NUL = "\x00"
CALL = "headway.call"
"""Where the scope of a request has its `Call`."""


class Call:
    """One request: what came, and who calls."""

    __slots__ = ("app", "body", "caller", "headers", "key", "keyed", "method", "path", "query")

    def __init__(
        self,
        app: FastAPI,
        method: str,
        path: str,
        headers: Mapping[bytes, bytes],
        *,
        query: bytes = b"",
        body: bytes = b"",
    ) -> None:
        self.app, self.method, self.path, self.headers = app, method, path, headers
        self.query, self.body = query, body
        self.caller: Caller | None = None
        self.key: str | None = None
        self.keyed: KeyedRequest | None = None

    @property
    def node(self) -> Node:
        """The node that the application serves."""
        node: Node = self.app.state.node
        return node

    @property
    def access(self) -> Access:
        """What knows who may call."""
        access: Access = self.app.state.access
        return access

    async def find_caller(self) -> Caller:
        """Who calls, found once for each request; raises Problem 401 and 429."""
        if self.caller is None:
            given = self.headers.get(b"authorization")
            self.caller = await self.access.caller(None if given is None else given.decode("latin-1"))
        return self.caller


def call_of(connection: HTTPConnection) -> Call:
    """The call that a connection of the application is."""
    call: Call = connection.scope[CALL]
    return call


Called = Annotated[Call, Depends(call_of)]


def decoded_path(connection: HTTPConnection) -> None:
    """Percent-decode the parameters of the path, each once, so that a name may hold a slash."""
    parameters = connection.path_params
    connection.scope["path_params"] = {name: decoded_name(text) for name, text in parameters.items()}


def decoded_name(text: str) -> str:
    """A name out of a path; raises Problem 404 for what no name can be."""
    if "%" not in text:
        return text
    try:
        name = unquote(text, errors="strict")
    except UnicodeDecodeError:
        name = NUL
    if NUL in name:
        raise Problem("not_found", "no name can be written like this one")
    return name


def node_of(call: Called) -> Node:
    """The node that the application serves."""
    return call.node


def access_of(call: Called) -> Access:
    """What knows who may call."""
    return call.access


async def caller_of(call: Called) -> Caller:
    """Who calls; raises Problem 401."""
    return await call.find_caller()


Here = Annotated[Node, Depends(node_of)]
Who = Annotated[Caller, Depends(caller_of)]


async def cipher_of(call: Called, caller: Who) -> CursorCipher:
    """What the caller's tenant sees of places that all tenants share."""
    ciphers: CursorCiphers = call.app.state.ciphers
    return await ciphers.of(caller.tenant)


Cipher = Annotated[CursorCipher, Depends(cipher_of)]


def require(caller: Caller, scope: str) -> None:
    """Raises Problem 403 when the caller lacks a scope."""
    if not caller.may(scope):
        raise Problem("forbidden", f"this needs a credential with the scope {scope}", scope=scope)


_SCOPES: dict[object, str] = {}


def needs(scope: str) -> Any:
    """A dependency: the caller has this scope, or gets Problem 403."""

    async def check(caller: Who) -> None:
        require(caller, scope)

    _SCOPES[check] = scope
    return Depends(check)


def needed_scopes(dependencies: Iterable[params.Depends]) -> tuple[str, ...]:
    """All scopes that these dependencies ask for."""
    return tuple(_SCOPES[each.dependency] for each in dependencies if each.dependency in _SCOPES)


def are_known(dependencies: Iterable[params.Depends], others: Iterable[object]) -> bool:
    """Whether a route does by itself all that these dependencies do."""
    return all(each.dependency in _SCOPES or each.dependency in others for each in dependencies)


def request_id_of(call: Called) -> str | None:
    """The engine's request id of the call, if it has an idempotency key: for a route that is one engine call.

    The engine stores the answer with the effect.
    """
    return None if call.key is None else REQUEST_ID + call.key


RequestId = Annotated[str | None, Depends(request_id_of)]


def keyed_request_of(call: Called) -> KeyedRequest | None:
    """The request, if it has an idempotency key: for a route that is more than one engine call.

    `headway.api.route` stores its answer, unless the function does so in the transaction of its effect.
    """
    return call.keyed


Keyed = Annotated[KeyedRequest | None, Depends(keyed_request_of)]


def expected_seq_of(call: Called) -> int | None:
    """The version that the caller expects; raises Problem 422 for what is no version."""
    return expected_seq(call.headers)


ExpectedSeq = Annotated[int | None, Depends(expected_seq_of)]

YES_OR_NO = {"true": True, "false": False}
Yes = Annotated[
    bool, BeforeValidator(lambda text: YES_OR_NO.get(text, text), json_schema_input_type=bool), Strictness()
]
"""`true` or `false` in a query, and no other word for it."""

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
PerPage = Annotated[int, Field(ge=1, le=MOST_PER_PAGE)]


def whole_number(text: object) -> object:
    """A number in a query, as JSON writes a whole one: `1.0`, `+1` and `1_0` are none."""
    return int(text) if isinstance(text, str) and NUMBER.fullmatch(text) else text


Cursor = Annotated[str | None, Query(description="The `next` of the page before.", max_length=1_000)]
Limit = Annotated[
    PerPage,
    BeforeValidator(whole_number, json_schema_input_type=PerPage),
    Strictness(),
    Query(description="How many items a page holds at most."),
]
