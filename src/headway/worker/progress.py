"""How far an attempt is: collected from its handler at any rate, and never lost; heartbeat.py sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from threading import Lock
from typing import Any

from headway.codec import Value, as_json
from headway.statechart.snapshot import Event


class ProgressReport(Value):
    """How far an attempt is (0 to 1), data for the text that the chart `says`, and counters to add to."""

    fraction: float
    data: Mapping[str, Any] = {}
    counters: Mapping[str, int] = {}


class Progress:
    """Collects what a handler reports, from any thread, until it is sent.

    `waits` is whether there is something to send, from `next_at` on; `unsent` is what may not have arrived.
    """

    def __init__(self, begun: float, *, resumed: bool) -> None:
        """`begun` is the time of fraction 0, unless an earlier attempt has already done a part."""
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

    def add(
        self, fraction: float | None, data: Mapping[str, object], counters: Mapping[str, int], now: float
    ) -> None:
        """Collect a report; raises ValueError and TypeError, and InputError for data that is not JSON."""
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

    def take(self) -> ProgressReport | None:
        """What was collected since the last time; None if nothing was."""
        with self._lock:
            if not self._new:
                return None
            counters, self._counters, self._new = self._counters, {}, False
            return ProgressReport(fraction=self.fraction, data=dict(self._data), counters=counters)

    def eta(self, now: float) -> float | None:
        """Seconds until the end at the rate so far; None while the rate is unknown."""
        with self._lock:
            since, fraction = self._since, self.fraction
        return None if since is None else remaining(now - since[0], fraction, since[1])


def remaining(elapsed: float, fraction: float, start: float = 0.0) -> float | None:
    """Seconds until fraction 1 if it took `elapsed` seconds from `start` to `fraction`; None if unknown."""
    return elapsed * (1 - fraction) / (fraction - start) if fraction > start else None


def _check(fraction: float | None, counters: Mapping[str, int]) -> None:
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"progress is a fraction from 0 to 1, not {fraction}")
    for name, amount in counters.items():
        if type(amount) is not int:
            raise TypeError(f"the counter {name} takes whole numbers to add, not {amount!r}")
