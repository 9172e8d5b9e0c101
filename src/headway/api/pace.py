"""The rate limit of one credential, in this process (GCRA): so many calls a second, and some at once."""

from __future__ import annotations

NOISE = 1e-9
"""Sums of seconds are not exact; a call on the dot is not too early."""


class Pace:
    """Lets `burst` calls through at once after a rest, and then `rate` of them a second."""

    __slots__ = ("_free_at", "_room", "_step", "rate")

    def __init__(self, rate: float, burst: int) -> None:
        self.rate = rate
        self._step = 1 / rate
        self._room = self._step * (burst - 1) + NOISE
        self._free_at = float("-inf")

    def wait(self, now: float) -> float:
        """Take the room of a call: 0.0; or take nothing, and answer in how many seconds there is room."""
        free_at = self._free_at
        early = free_at - now
        if early > self._room:
            return early - self._room
        self._free_at = (free_at if early > 0 else now) + self._step
        return 0.0
