"""How far an attempt has come: told as often as the handler likes, sent now and then, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from threading import Lock
from typing import Any, NamedTuple

from headway.codec import as_json
from headway.statechart.snapshot import Event


class Report(NamedTuple):
    """What is sent of it; `counters` are to be added."""

    fraction: float
    data: dict[str, Any]
    counters: dict[str, int]


class Progress:
    """Collects what a handler tells, from whatever thread it does, for whoever sends it on.

    `waits` is whether there is news to send, from `next_at` on; `unsent` is what may not have arrived.
    """

    def __init__(self, begun: float, *, resumed: bool) -> None:
        """`begun` is the time of fraction 0, unless an earlier attempt has done a part already."""
        self.fraction = 0.0
        self._since: tuple[float, float] | None = None if resumed else (begun, 0.0)
        self._data: dict[str, Any] = {}
        self._counters: dict[str, int] = {}
        self._new = False
        self._lock = Lock()
        self.sending = asyncio.Lock()
        self.unsent: tuple[Event, str | None] | None = None
        self.waits = False
        self.next_at = -inf

    def tell(
        self, fraction: float | None, data: Mapping[str, object], counters: Mapping[str, int], now: float
    ) -> None:
        """Add to what is known; raises ValueError and TypeError, and InputError for data that is not JSON."""
        _check(fraction, counters)
        said = as_json(data) if data else {}
        with self._lock:
            if fraction is not None:
                self.fraction = float(fraction)
                self._since = self._since or (now, self.fraction)
            self._data.update(said)
            for name, amount in counters.items():
                self._counters[name] = self._counters.get(name, 0) + amount
            self._new = True

    def take(self) -> Report | None:
        """What was told since the last time, if anything was."""
        with self._lock:
            if not self._new:
                return None
            counters, self._counters, self._new = self._counters, {}, False
            return Report(self.fraction, dict(self._data), counters)

    def eta(self, now: float) -> float | None:
        """Seconds until the end when it goes on as so far; None while that cannot be told."""
        with self._lock:
            since, fraction = self._since, self.fraction
        if since is None or fraction <= since[1]:
            return None
        return (now - since[0]) * (1 - fraction) / (fraction - since[1])


def _check(fraction: float | None, counters: Mapping[str, int]) -> None:
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"progress is a fraction from 0 to 1, not {fraction}")
    for name, amount in counters.items():
        if type(amount) is not int:
            raise TypeError(f"the counter {name} takes whole numbers to add, not {amount!r}")
