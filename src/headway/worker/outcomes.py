"""The outcomes of an attempt: values that a handler returns, and the failure that an exception becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeGuard

from headway.clock import milliseconds
from headway.codec import Value, as_json, replace
from headway.errors import InputError, shown
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.statechart.types import plain

LONGEST_MESSAGE = 500
SOONEST_AGAIN = timedelta(milliseconds=100)
"""A handler that always returns `Again` must not keep its worker and the database busy."""

WORD = re.compile(r"[A-Za-z_][\w-]{0,99}", re.ASCII)
PLAIN = frozenset({type(None), bool, int, str})
BAD_RESULT = "bad_result"
REFUSED = "refused"


class Done(Value, kw_only=False):
    """The work is done; a handler may return the result itself instead."""

    result: Any = None


class Again:
    """The work has not failed, but has to be tried again later: the same attempt, by any worker.

    It is tried again after 100 ms at the earliest.
    """

    __slots__ = ("after",)

    def __init__(self, after: str | float | timedelta = "1s") -> None:
        """Raises ValueError if `after` is no duration ("30s", seconds, a timedelta)."""
        self.after = max(timedelta(milliseconds=milliseconds(after)), SOONEST_AGAIN)


class Fail:
    """The attempt has failed with an error code; the chart says whether there is another one."""

    __slots__ = ("code", "details", "message")

    def __init__(self, code: str, message: str = "", **details: object) -> None:
        """Raises ValueError for a code that is not a word."""
        if not _is_word(code):
            raise ValueError(f"an error code is a word, not {shown(code)}")
        self.code = code
        self.message = message[:LONGEST_MESSAGE]
        self.details = details


def failure(error: BaseException) -> Fail:
    """An exception as a failure: its `code` and `details`, else its class name; never its traceback."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    failed = Fail(code if _is_word(code) else _class_name(error), _text(error))
    if isinstance(details, Mapping):
        failed.details = {str(name): value for name, value in details.items()}
    return failed


class AttemptId(Protocol):
    """What identifies an attempt within its tenant."""

    @property
    def id(self) -> str:
        """The id of the work item."""

    @property
    def attempt(self) -> int:
        """The number of the attempt."""


def event_of(outcome: object, attempt: AttemptId, by: Actor) -> Event:
    """The event that ends an attempt with an outcome; raises InputError for a result that is not JSON."""
    if isinstance(outcome, Event):
        sender = by if outcome.by == SYSTEM else outcome.by
        return replace(outcome, by=sender, ref=attempt.id, attempt=attempt.attempt)
    if isinstance(outcome, Fail):
        data = {**_details(outcome), "code": outcome.code, "message": outcome.message}
        return Event("work.failed", data, by, attempt.id, attempt.attempt)
    result = outcome.result if isinstance(outcome, Done) else outcome
    kept = result if type(result) in PLAIN else as_json(plain(result))
    return Event("work.done", kept, by, attempt.id, attempt.attempt)


def _details(failed: Fail) -> dict[str, Any]:
    """The details as JSON, or as text if they are not JSON: the code must arrive in any case."""
    if not failed.details:
        return {}
    try:
        kept: dict[str, Any] = as_json(failed.details)
    except InputError:
        return {name: shown(value) for name, value in failed.details.items()}
    return kept


def _is_word(code: object) -> TypeGuard[str]:
    return isinstance(code, str) and WORD.fullmatch(code) is not None


def _class_name(error: BaseException) -> str:
    name = type(error).__name__
    return name if _is_word(name) else "Exception"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception may be of any class
        return shown(error)
