"""How an attempt at work ends: values that a handler returns, and what becomes of an exception."""

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
"""A handler that always says "again" must not keep its worker and the database busy with nothing else."""

WORD = re.compile(r"[A-Za-z_][\w-]{0,99}", re.ASCII)
PLAIN = frozenset({type(None), bool, int, str})
BAD_RESULT = "bad_result"
REFUSED = "refused"


class Done(Value, kw_only=False):
    """The work is done; a handler may as well return the result itself."""

    result: Any = None


class Again:
    """The work has not failed, but is to be tried again later: the same attempt, by any worker.

    Nothing is tried again sooner than after 100 ms.
    """

    __slots__ = ("after",)

    def __init__(self, after: str | float | timedelta = "1s") -> None:
        """Raises ValueError when `after` is no duration ("30s", seconds, a timedelta)."""
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
    """What the chart hears of an exception: its `code` and `details`, else its class; never its traceback."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    failed = Fail(code if _is_word(code) else _class_name(error), _text(error))
    if isinstance(details, Mapping):
        failed.details = {str(name): value for name, value in details.items()}
    return failed


class Identified(Protocol):
    """An attempt at work: the work's id, and which attempt it is."""

    @property
    def id(self) -> str:
        """The work."""

    @property
    def attempt(self) -> int:
        """Which attempt."""


def event_of(outcome: object, row: Identified, by: Actor) -> Event:
    """The event that tells the engine of an outcome; raises InputError for a result that is not JSON."""
    if isinstance(outcome, Event):
        sender = by if outcome.by == SYSTEM else outcome.by
        return replace(outcome, by=sender, ref=row.id, attempt=row.attempt)
    if isinstance(outcome, Fail):
        data = {**_details(outcome), "code": outcome.code, "message": outcome.message}
        return Event("work.failed", data, by, row.id, row.attempt)
    result = outcome.result if isinstance(outcome, Done) else outcome
    kept = result if type(result) in PLAIN else as_json(plain(result))
    return Event("work.done", kept, by, row.id, row.attempt)


def _details(failed: Fail) -> dict[str, Any]:
    """The details as JSON; the code must arrive even when they are none."""
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
