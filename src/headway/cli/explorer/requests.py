"""What the page may ask for: each body's exact form."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from starlette.requests import Request

from headway.codec import Value, decode
from headway.errors import HeadwayError, InputError
from headway.statechart.snapshot import SYSTEM, Actor

LARGEST_BODY = 256 * 1024
LONGEST_NAME = 200

Body = TypeVar("Body", bound=Value)


class TooLargeError(HeadwayError):
    """The body is longer than anything the page sends."""


class NotJsonError(HeadwayError):
    """The body does not say that it is JSON."""


class NewSession(Value):
    """Begin an instance."""

    chart: str
    context: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None


class SendEvent(Value):
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
    """What guards get to know."""

    facts: dict[str, Any]


async def body_of(request: Request, kind: type[Body]) -> Body:
    """The checked body of a request; raises NotJsonError, TooLargeError or InputError."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise NotJsonError("send JSON, with the header Content-Type: application/json")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_BODY:
            raise TooLargeError(f"a body has at most {LARGEST_BODY // 1024} KB")
    return decode(kind, bytes(content))


def checked_name(name: str) -> str:
    """A name of sensible length; raises InputError."""
    if not name or len(name) > LONGEST_NAME:
        raise InputError(f"a name has 1 to {LONGEST_NAME} characters")
    return name
