"""Limits for requests that take long: streams of events, and calls that wait."""

from __future__ import annotations

from collections import Counter

from headway.api.access import Caller
from headway.api.limits import Limits
from headway.api.problems import Problem

RETRY_AFTER = {"Retry-After": "5"}


class Streams:
    """Counts the streams that are open, and refuses one that is beyond a limit.

    A stream is a request that may take long because it waits: live events, a claim with `wait`, or a repeat
    for the answer to the first request.
    """

    def __init__(self, limits: Limits) -> None:
        self.refused: Counter[str] = Counter()
        """How many were refused, by the limit: `key`, `tenant` or `all`."""
        self._most = {
            "key": limits.most_key_streams,
            "tenant": limits.most_tenant_streams,
            "all": limits.most_streams,
        }
        self._open: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """How many are open."""
        return self._open["all", ""]

    def take(self, caller: Caller) -> Slot:
        """Count a stream of a caller until its slot is released; raises Problem 429 that names the limit."""
        places = [("key", caller.credential), ("tenant", caller.tenant), ("all", "")]
        for limit, name in places:
            if self._open[limit, name] >= self._most[limit]:
                self.refused[limit] += 1
                raise Problem("too_many_streams", self._detail(limit), headers=RETRY_AFTER, limit=limit)
        self._open.update(places)
        return Slot(self._open, places)

    def _detail(self, limit: str) -> str:
        whose = {"key": "this credential has", "tenant": "this tenant has", "all": "this process serves"}
        return f"{whose[limit]} {self._most[limit]:,} streams open, which is the limit"


class Slot:
    """The place of one open stream."""

    __slots__ = ("_open", "_places")

    def __init__(self, counts: Counter[tuple[str, str]], places: list[tuple[str, str]]) -> None:
        self._open, self._places = counts, places

    def release(self) -> None:
        """The stream has ended; to say so again changes nothing."""
        for place in self._places:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]
        self._places = []

    def __enter__(self) -> None:
        """It is open."""

    def __exit__(self, *_: object) -> None:
        """It has ended."""
        self.release()
