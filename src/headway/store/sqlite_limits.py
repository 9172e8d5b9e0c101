"""The limits of work: how many at once, how many in a time, and who holds what it needs."""

from __future__ import annotations

from typing import NamedTuple

from headway.store.sqlite_connection import Connection

RUNNING = """
SELECT count(*) FROM work INDEXED BY work_at_once WHERE tenant = ? AND concurrency = ? AND worker IS NOT NULL
"""
PACE = "SELECT free_at FROM pace WHERE tenant = ? AND rate = ?"
KEEP_PACE = (
    "INSERT INTO pace (tenant, rate, free_at) VALUES (?, ?, ?)"
    " ON CONFLICT (tenant, rate) DO UPDATE SET free_at = excluded.free_at"
)
# Each claim that adds a row takes away what has no meaning any more, so that the table does not grow.
FORGET_PACE = """
DELETE FROM pace WHERE (tenant, rate) IN (SELECT tenant, rate FROM pace WHERE free_at <= ? LIMIT ?)
"""
HELD_BY_ANOTHER = "SELECT 1 FROM lease WHERE tenant = ? AND name = ? AND holder <> ? AND until > ?"
MOST = 2**62


class Limits(NamedTuple):
    """The limits of a piece of work."""

    tenant: str = ""
    concurrency: str | None = None
    at_once: int = 1
    rate: str | None = None
    rate_most: int = 1
    rate_per: int = 1_000
    affinity: str | None = None


class Room:
    """How much of limited work a worker may have now; belongs in a transaction.

    A rate lets `rate_most` items go at once after a rest, and then one each `rate_per / rate_most`: in any
    time t at most `rate_most + t * rate_most / rate_per`.
    """

    def __init__(self, connection: Connection, worker: str, now: int) -> None:
        self._connection, self._worker, self.now = connection, worker, now
        self._running: dict[tuple[str, str], int] = {}
        self._free_at: dict[tuple[str, str], int] = {}
        self._paced: set[tuple[str, str]] = set()
        self._elsewhere: dict[tuple[str, str], bool] = {}

    def free(self, limits: Limits) -> int:
        """How many items with these limits there is room for."""
        room = MOST
        if limits.affinity is not None and self._is_elsewhere(limits.tenant, limits.affinity):
            return 0
        if limits.concurrency is not None:
            room = limits.at_once - self._running_with(limits, limits.concurrency)
        if limits.rate is not None:
            room = min(room, self._free_of(limits, limits.rate))
        return room

    def take(self, limits: Limits) -> bool:
        """Use the room for one item; False when there is none."""
        if self.free(limits) < 1:
            return False
        if limits.concurrency is not None:
            self._running[limits.tenant, limits.concurrency] += 1
        if limits.rate is not None:
            key = (limits.tenant, limits.rate)
            self._free_at[key] = max(self.now, self._free_at[key]) + _interval(limits)
            self._paced.add(key)
        return True

    def write(self) -> None:
        """Keep what was taken of rates."""
        if self._paced:
            self._connection.write(FORGET_PACE, [(self.now, 2 * len(self._paced))])
            self._connection.write(KEEP_PACE, [(*key, self._free_at[key]) for key in self._paced])

    def _is_elsewhere(self, tenant: str, name: str) -> bool:
        """Whether another worker holds what the work needs."""
        key = (tenant, name)
        if key not in self._elsewhere:
            self._elsewhere[key] = bool(
                self._connection.fetch(HELD_BY_ANOTHER, (*key, self._worker, self.now))
            )
        return self._elsewhere[key]

    def _running_with(self, limits: Limits, concurrency: str) -> int:
        key = (limits.tenant, concurrency)
        if key not in self._running:
            [(self._running[key],)] = self._connection.fetch(RUNNING, key)
        return self._running[key]

    def _free_of(self, limits: Limits, rate: str) -> int:
        """What a rate has left, by the generic cell rate algorithm."""
        key = (limits.tenant, rate)
        if key not in self._free_at:
            found = self._connection.fetch(PACE, key)
            self._free_at[key] = found[0][0] if found else self.now
        if limits.rate_most < 1:
            return 0
        interval = _interval(limits)
        used = max(0, self._free_at[key] - self.now)
        return max(0, limits.rate_most - -(-used // interval))


def _interval(limits: Limits) -> int:
    """Microseconds from one item to the next, rounded up so that there are never too many."""
    return max(1, -(-limits.rate_per * 1_000 // limits.rate_most))
