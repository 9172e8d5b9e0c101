"""What route functions take from a call: the node, the caller, its request id, parameters of lists."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import BeforeValidator, Field
from pydantic import Strict as Strictness

from headway.api.access import Access, Caller
from headway.api.bodies import LARGEST_WHOLE
from headway.api.call import HttpCall
from headway.api.cursors import CursorCipher, CursorCiphers
from headway.api.keyring import ADMIN, OWN
from headway.api.problems import Problem
from headway.engine.requests import Request as KeyedRequest
from headway.node import Node

MOST_PER_PAGE = 500
PER_PAGE = 100

Here = Annotated[Node, Depends(attrgetter("node"))]
Door = Annotated[Access, Depends(attrgetter("access"))]
Who = Annotated[Caller, Depends(attrgetter("caller"))]
RequestId = Annotated[str | None, Depends(attrgetter("request_id"))]
"""The engine's request id, for a route that is one engine call: the engine stores the answer."""
Keyed = Annotated[KeyedRequest | None, Depends(attrgetter("keyed"))]
"""The request with an idempotency key, for a route that is more than one engine call.

`headway.api.route` stores its answer, unless the function does so in the transaction of its effect.
"""
ExpectedSeq = Annotated[int | None, Depends(attrgetter("expected_seq"))]


async def cipher_of(call: HttpCall, caller: Who) -> CursorCipher:
    """What encrypts the cursors of the caller's tenant."""
    ciphers: CursorCiphers = call.app.state.ciphers
    return await ciphers.of(caller.tenant)


Cipher = Annotated[CursorCipher, Depends(cipher_of)]


class Needs:
    """A dependency: the caller must have this scope, or gets Problem 403.

    With `own`, a caller of that scope may call too: the route shows and changes only what is theirs.
    """

    def __init__(self, scope: str, *, own: bool = False) -> None:
        self.scope = scope
        self.accepted = frozenset({scope, ADMIN, OWN} if own else {scope, ADMIN})

    def __call__(self) -> None:
        """Never called: a `Route` checks it. Anything else that has it as a dependency is closed."""
        raise Problem("forbidden", "only a route of headway.http.Router can check a scope")


def needs(scope: str, *, own: bool = False) -> Any:
    """A dependency: the caller has this scope, or gets Problem 403; with `own`, see `Needs`."""
    return Depends(Needs(scope, own=own))


YES_OR_NO = {"true": True, "false": False}
Yes = Annotated[
    bool, BeforeValidator(lambda text: YES_OR_NO.get(text, text), json_schema_input_type=bool), Strictness()
]
"""`true` or `false` in a query; no other word is accepted."""

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
PerPage = Annotated[int, Field(ge=1, le=MOST_PER_PAGE)]


def whole_number(text: object) -> object:
    """A number in a query, as JSON writes a whole one: `1.0`, `+1` and `1_0` are not accepted."""
    return int(text) if isinstance(text, str) and NUMBER.fullmatch(text) else text


VersionNumber = Annotated[int, Strictness(), Field(ge=1, le=LARGEST_WHOLE)]
OneVersion = Annotated[
    VersionNumber | None,
    BeforeValidator(whole_number, json_schema_input_type=VersionNumber),
    Query(description="Of this version only."),
]

Cursor = Annotated[str | None, Query(description="The `next` of the page before.", max_length=1_000)]
Limit = Annotated[
    PerPage,
    BeforeValidator(whole_number, json_schema_input_type=PerPage),
    Strictness(),
    Query(description="How many items a page holds at most."),
]
