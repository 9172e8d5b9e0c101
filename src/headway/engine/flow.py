"""Counts over the last minute, hour and day, and distributions of times, of bounded size."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from math import ceil, exp2, log2
from typing import NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_DOUBLING = 8
"""Buckets of a distribution for each doubling of a time: its percentiles are right to within 5 %."""
SHORTEST = 0.001
"""Seconds; shorter stays count as this long."""
MOST_BUCKETS = 44 * PER_DOUBLING
"""Up to five centuries."""


class Window(NamedTuple):
    """A window that ends now: its name, how long it is, and how precisely old events leave it."""

    name: str
    seconds: int
    step: int


WINDOWS = (Window("1m", 60, 5), Window("1h", 3_600, 60), Window("24h", 86_400, 1_800))


class Flow:
    """How much happened in each window, by an integer: a bucket of a distribution, or 0."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[Window, dict[int, Counter[int]]] = {window: {} for window in WINDOWS}

    def add(self, at: datetime, bucket: int = 0) -> None:
        """Something happened then."""
        seconds = (at - EPOCH) // timedelta(seconds=1)
        for window, slots in self._slots.items():
            number = seconds // window.step
            slot = slots.get(number)
            if slot is None:
                slot = slots[number] = Counter()
                self._drop(window, number)
            slot[bucket] += 1

    def counted(self, window: Window, now: datetime) -> Counter[int]:
        """What is in a window, by bucket."""
        first = (now - EPOCH) // timedelta(seconds=1) - window.seconds
        found: Counter[int] = Counter()
        for number, slot in self._slots[window].items():
            if (number + 1) * window.step > first:
                found.update(slot)
        return found

    def _drop(self, window: Window, newest: int) -> None:
        slots, kept = self._slots[window], window.seconds // window.step + 1
        if len(slots) > kept:
            for number in [number for number in slots if number < newest - kept]:
                del slots[number]


def bucket_of(seconds: float) -> int:
    """The bucket of a distribution for a time."""
    return min(ceil(log2(max(seconds, SHORTEST) / SHORTEST) * PER_DOUBLING), MOST_BUCKETS)


def percentile(counted: Counter[int], share: float) -> float | None:
    """The seconds that this share of stays did not exceed; None without stays."""
    rank, seen = ceil(counted.total() * share), 0
    for bucket in sorted(counted):
        seen += counted[bucket]
        if seen >= rank:
            return SHORTEST * exp2((bucket - 0.5) / PER_DOUBLING)
    return None
