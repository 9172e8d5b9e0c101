"""Log lines about requests that the service could not answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.api.problems import Problem
from headway.engine.service import LOG
from headway.errors import StoreError

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
        elif isinstance(error, StoreError):
            self._tell_of_store(error, problem, request)

    def _tell_of_store(self, error: StoreError, problem: Problem, request: str) -> None:
        kind, now = type(error).__name__, self._monotonic()
        if now - self._last.get(kind, -PAUSE) < PAUSE:
            self._silent[kind] = self._silent.get(kind, 0) + 1
            return
        self._last[kind] = now
        others = self._silent.pop(kind, 0)
        LOG.error("%s was answered %d: %s (and %d others before)", request, problem.status, error, others)


FAILURES = FailureLog()
