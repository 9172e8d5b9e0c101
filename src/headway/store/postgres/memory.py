"""What a node remembers of the database: instances with their versions, and the time.

A unit may decide on it without reading: the statement that writes checks every version it rests on. That
saves a round trip for each send: 1,424 sends a second instead of 1,078 with one sender, 11,113 instead of
9,701 with 256 (medians of 7 rounds; `python -m bench.engine.recall`, see decision 75).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headway.store.rows import InstanceRow, Key
from headway.store.unit import Reads

RowVersion = tuple[tuple[int, int], int]
"""The place of a row and the transaction that wrote it: together they identify one version of it."""

INSTANCES_KEPT = 10_000
CHARACTERS_KEPT = 10_000_000
KEPT_FOR = 600.0
"""Seconds. Shorter than the time in which the ids of transactions wrap around."""
TIME_IS_GOOD_FOR = 1.0
"""Seconds in which two clocks do not drift apart by much."""
SET_BACK = timedelta(minutes=1)
"""An answer that is this far behind means that the database's clock was set back."""
EARLIEST = datetime.min.replace(tzinfo=UTC)

Monotonic = Callable[[], float]


class InstanceVersion(NamedTuple):
    """A version of an instance: its contents, its stamp, and since when it is remembered."""

    row: InstanceRow
    version: RowVersion
    stamp: int
    since: float


class InstanceMemory:
    """The instances that were read or written last; the contents of a version never change."""

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: OrderedDict[Key, InstanceVersion] = OrderedDict()
        self._characters = 0

    def recall(self, keys: Iterable[Key]) -> dict[Key, InstanceVersion] | None:
        """All of these instances, or None if one of them is not remembered."""
        oldest = self._monotonic() - KEPT_FOR
        recalled: dict[Key, InstanceVersion] = {}
        for key in keys:
            known = self._kept.get(key)
            if known is None or known.since < oldest:
                return None
            recalled[key] = known
        return recalled

    def keep(self, versions: Iterable[tuple[InstanceRow, RowVersion, int]]) -> None:
        """Remember versions in place of those before, and forget those that were not needed for longest.

        What has ended is not remembered: hardly anyone sends to it.
        """
        since, kept = self._monotonic(), self._kept
        for row, version, stamp in versions:
            key = (row.tenant, row.id)
            if before := kept.pop(key, None):
                self._characters -= len(before.row.snapshot)
            if not row.ended:
                self._characters += len(row.snapshot)
                kept[key] = InstanceVersion(row, version, stamp, since)
        while len(kept) > INSTANCES_KEPT or self._characters > CHARACTERS_KEPT:
            _, oldest = kept.popitem(last=False)
            self._characters -= len(oldest.row.snapshot)

    def forget(self, keys: Iterable[Key]) -> None:
        """Drop instances that have changed, or may have."""
        for key in keys:
            gone = self._kept.pop(key, None)
            self._characters -= len(gone.row.snapshot) if gone else 0

    def clear(self) -> None:
        """Drop everything: another database may have the same versions with other contents."""
        self._kept.clear()
        self._characters = 0


class ClockEstimate:
    """An estimate of the database's time: the one of an answer, and what has passed since.

    It is never ahead of the database, because an answer takes its time, and never behind a time that the
    database was seen to act on.
    """

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._at = self._last = EARLIEST
        self._since = float("-inf")

    def now(self) -> datetime | None:
        """The time, or None if the last answer is too old."""
        passed = self._monotonic() - self._since
        if passed > 2 * TIME_IS_GOOD_FOR:
            return None
        self._last = max(self._last, self._at + timedelta(seconds=passed))
        return self._last

    def observe(self, at: datetime) -> None:
        """Use the time of an answer; the quickest answer is the most precise."""
        monotonic = self._monotonic()
        passed = monotonic - self._since
        if passed > TIME_IS_GOOD_FOR or at >= self._at + timedelta(seconds=passed):
            self._at, self._since = at, monotonic
        if self._last - at > SET_BACK:
            self._at, self._since, self._last = at, monotonic, at

    def at_least(self, at: datetime) -> None:
        """Do not go behind a time that the database was seen to act on."""
        self._last = max(self._last, at)


class MemoryAnswer(NamedTuple):
    """Versions of instances, and the time: what a unit reads without asking the database."""

    now: datetime
    versions: dict[Key, InstanceVersion]


class NodeMemory:
    """What a node remembers of the database; `time` returns the time of a replacement clock, or None."""

    def __init__(self, time: Callable[[], datetime | None]) -> None:
        self.time = time
        self.instances = InstanceMemory()
        self.clock = ClockEstimate()

    def recall(self, wanted: Reads) -> MemoryAnswer | None:
        """What is wanted, if that is only instances and request ids, and all instances are known."""
        if not wanted.instances or wanted.counters or wanted.records:
            return None
        now, versions = self.time() or self.clock.now(), self.instances.recall(wanted.instances)
        return None if now is None or versions is None else MemoryAnswer(now, versions)
