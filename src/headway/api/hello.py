"""How a WebSocket begins: from which page it may come, and what it says first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Receive

from headway.api.problems import Problem
from headway.codec import Value, decode

LONGEST_HELLO = 20_000


class Hello(Value):
    """What a reader wants, and who it is unless a header has said so."""

    type: Literal["hello"]
    token: str | None = None
    after: str | None = None
    chart: str | None = None
    instance: str | None = None
    owner: str | None = None
    parent: str | None = None


async def hello_of(receive: Receive) -> Hello | None:
    """The first message; None when there is nobody any more. Raises Problem 422, and InputError."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        return None
    text = message.get("text")
    if text is None or len(text) > LONGEST_HELLO:
        raise Problem("invalid", f"a hello is a text of at most {LONGEST_HELLO:,} characters")
    return decode(Hello, text)


def credential_of(headers: Headers, hello: Hello) -> str | None:
    """Who a reader says it is, as the text of the header; raises Problem 400 if it says so in two ways."""
    given = headers.get("authorization")
    if hello.token is None:
        return given
    if given is not None:
        raise Problem("doubled_header", "the hello has a token beside the header Authorization")
    return f"Bearer {hello.token}"


def must_be_own_page(headers: Headers, allowed: Collection[str]) -> None:
    """Raises Problem 403 for a page of another site; who is no browser names no origin.

    A browser lets any page open a WebSocket to any site, so it is for the service to look.
    """
    origin = headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return
    if urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise Problem("origin")
