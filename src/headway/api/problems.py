"""Errors as problem documents (RFC 9457), by one table; and the log of those that are the service's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException

from headway import errors
from headway.api.problem_kinds import KINDS
from headway.codec import encode
from headway.engine.service import LOG
from headway.statechart.refusal import Allowed, Objection, Refusal

PROBLEM_JSON = "application/problem+json"
RETRY_SOON = {"Retry-After": "1"}


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """An error answer: a code of `KINDS`, what happened, and further fields that help."""

    def __init__(
        self, code: str, detail: str = "", *, headers: Mapping[str, str] | None = None, **extra: Any
    ) -> None:
        """`extra` are further members of the document."""
        kind = KINDS[code]
        self.code, self.status, self.title = code, kind.status, kind.title
        self.detail = detail or kind.meaning
        self.headers = dict(headers or {})
        self.extra = extra
        super().__init__(self.detail)

    def document(self, path: str) -> bytes:
        """The problem as JSON; `path` is the request's."""
        known = {
            "type": f"/problems/{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": path,
            "code": self.code,
        }
        return encode({**known, **self.extra})


CODES: dict[type[errors.HeadwayError], str] = {
    errors.HeadwayError: "internal",
    errors.InputError: "invalid",
    errors.EngineError: "not_possible",
    errors.UnknownChartError: "unknown_chart",
    errors.UnknownVersionError: "unknown_version",
    errors.UnknownInstanceError: "unknown_instance",
    errors.UnknownAskError: "unknown_ask",
    errors.UnknownKeyError: "unknown_key",
    errors.InstanceExistsError: "exists",
    errors.RequestReusedError: "key_reused",
    errors.VersionConflictError: "version",
    errors.LinkError: "link",
    errors.TooLargeError: "too_large",
    errors.StoreError: "unavailable",
    errors.StoreFullError: "full",
    errors.SchemaError: "schema",
    errors.DrawingError: "drawing",
}
"""The problem code of each error class; a class that is not named has the code of its parent."""

SILENT = frozenset({"internal", "key_reused"})
"""Codes whose answers leave out the error's text, which the caller may not be allowed to see."""


HTTP_CODES = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method",
    413: "too_large",
    415: "media_type",
    503: "unavailable",
}
"""The codes of errors that Starlette, or a route of a lifecycle, raises by their status."""


def problem_of(error: BaseException | Refusal) -> Problem:
    """The problem for an error, or for an event that the chart refused."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.RefusedError):
        return _refused(error.refusal)
    if isinstance(error, Refusal):
        return _refused(error)
    if isinstance(error, HTTPException):
        return Problem(HTTP_CODES.get(error.status_code, "malformed"))
    code = next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), "internal")
    return Problem(code, "" if code in SILENT else str(error), headers=_headers(code), **_extra(error))


def _refused(refusal: Refusal) -> Problem:
    return Problem(
        refusal.code,
        refusal.message,
        event=refusal.event,
        states=list(refusal.states),
        allowed=[_told(each) for each in refusal.allowed],
        objections=[_told(each) for each in refusal.objections],
    )


def _told(value: Allowed | Objection) -> dict[str, Any]:
    """All fields, including empty ones."""
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _headers(code: str) -> Mapping[str, str]:
    return RETRY_SOON if code in {"unavailable", "unknown_version"} else {}


def _extra(error: BaseException) -> dict[str, Any]:
    if isinstance(error, errors.VersionConflictError):
        return {"seq": error.seq}
    if isinstance(error, errors.UnknownVersionError):
        return {"chart": error.chart, "version": error.version}
    if isinstance(error, errors.InputError):
        return {"errors": [{"place": "request", "message": str(error)}]}
    if isinstance(error, errors.StoreUnavailableError):
        return {"maybe_committed": error.maybe_committed}
    return {}


def lacks_scope(scope: str) -> Problem:
    """The problem of a caller without a scope."""
    return Problem("forbidden", f"this needs a credential with the scope {scope}", scope=scope)


PAUSE = 10.0
"""Seconds between two lines about a store that fails: thousands of requests may fail at once."""


class FailureLog:
    """Writes one line for each failure of the service, and few for a store that fails all the time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: dict[str, float] = {}
        self._silent: dict[str, int] = {}

    def tell(self, error: BaseException, problem: Problem, request: str) -> None:
        """Log what a request has failed with, unless it is the caller's own mistake."""
        if problem.code == "internal":
            LOG.error("%s failed", request, exc_info=error)
        elif isinstance(error, errors.StoreError):
            self._tell_of_store(error, problem, request)

    def _tell_of_store(self, error: errors.StoreError, problem: Problem, request: str) -> None:
        kind, now = type(error).__name__, self._monotonic()
        if now - self._last.get(kind, -PAUSE) < PAUSE:
            self._silent[kind] = self._silent.get(kind, 0) + 1
            return
        self._last[kind] = now
        others = self._silent.pop(kind, 0)
        LOG.error("%s was answered %d: %s (and %d others before)", request, problem.status, error, others)


FAILURES = FailureLog()
