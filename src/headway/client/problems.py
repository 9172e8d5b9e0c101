"""Problem documents as errors, and whether a failed call may have been committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.client.actions import HttpReply, HttpRequest, Reply
from headway.codec import decode
from headway.errors import (
    CARRIED_OUT,
    CallConflictError,
    ClientError,
    EventRefusedError,
    ForbiddenError,
    InputError,
    NotFoundError,
    ProblemError,
    RateLimitedError,
    ServiceUnavailableError,
    UnauthenticatedError,
    problem_text,
)

ERRORS: dict[int, type[ProblemError]] = {
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: CallConflictError,
    412: CallConflictError,
    429: RateLimitedError,
}
GATEWAYS = frozenset({502, 503, 504})
LOWEST_OF_SERVICE = 500
REFUSED_BEFORE = frozenset({"unauthenticated", "forbidden", "rate_limited", "too_many_streams"})
"""Codes of problems found before the idempotency key is looked up: an earlier try may have been committed."""
UNTOUCHED = frozenset({"unavailable", "unknown_version", "schema", "full", "drawing"})
"""Codes of failures of the service that have changed nothing, unless `maybe_committed` says so."""


def document_of(reply: HttpReply) -> Mapping[str, Any]:
    """The problem document of an answer; empty if it has none, such as the answer of a proxy."""
    try:
        document = decode(dict[str, Any], reply.body)
    except InputError:
        return {}
    return document if "code" in document else {}


def retry_after(reply: HttpReply) -> float | None:
    """How many seconds the answer asks to wait."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def may_be_committed(request: HttpRequest, reply: Reply, *, before: bool) -> bool:
    """Whether a request may have been committed, after this answer and what held `before`."""
    if request.method == "GET":
        return False
    if not isinstance(reply, HttpReply):
        return before or reply.sent
    document = document_of(reply)
    code = document.get("code")
    if code in CARRIED_OUT:
        return True
    if code in UNTOUCHED:
        return before or document.get("maybe_committed") is True
    if code is None or code in REFUSED_BEFORE:
        return before or reply.status >= LOWEST_OF_SERVICE
    return reply.status >= LOWEST_OF_SERVICE and not is_refusal(document)


def is_refusal(document: Mapping[str, Any]) -> bool:
    """Whether the problem is that a chart refused an event."""
    return "allowed" in document and "states" in document


def error_of(request: HttpRequest, reply: Reply, *, doubt: bool) -> ClientError:
    """The error that a call ends with; `doubt` is whether its change may have been made."""
    if not isinstance(reply, HttpReply):
        return ServiceUnavailableError(reply.message, request_id=request.key, maybe_committed=doubt)
    document = document_of(reply)
    known: dict[str, Any] = {
        "retry_after": retry_after(reply),
        "request_id": request.key,
        "maybe_committed": doubt,
    }
    if reply.status in GATEWAYS:
        unreachable = f"{reply.status}: the service cannot be reached through its proxy"
        text = problem_text(reply.status, document) if document else unreachable
        return ServiceUnavailableError(text, status=reply.status, document=document, **known)
    kind = EventRefusedError if is_refusal(document) else ERRORS.get(reply.status, ProblemError)
    return kind(reply.status, document, **known)
