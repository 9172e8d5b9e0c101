"""A breaker: a destination that fails whatever it is given is left alone, and tried with one message."""

from __future__ import annotations

from datetime import timedelta

from headway.clock import backoff
from headway.store.rows import Key

IN_A_ROW = 10
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds."""


class Breaker:
    """Counts instances whose messages have failed since the destination has last taken one.

    When they are so many that the messages are not to blame, the destination is left alone for a pause.
    Then one message is tried: when it fails the next pause is twice as long, when it arrives all go on.
    Messages of an instance that has failed say little: those of others are tried first.
    """

    def __init__(self) -> None:
        self._failing: set[Key] = set()
        self._pauses = 0

    @property
    def is_probing(self) -> bool:
        """Whether no more than one message is to be tried."""
        return self._pauses > 0

    @property
    def pauses(self) -> int:
        """How often it was left alone since it has last taken a message."""
        return self._pauses

    def has_failed(self, key: Key) -> bool:
        """Whether a message of this instance was not taken since."""
        return key in self._failing

    def answered(self) -> bool:
        """The destination has taken a message, or said for good that it will not; True when all go on now."""
        was_probing = self.is_probing
        self._failing.clear()
        self._pauses = 0
        return was_probing

    def failed(self, key: Key) -> timedelta | None:
        """A message of an instance was not taken; answers for how long to leave the destination alone."""
        self._failing.add(key)
        if not self.is_probing and len(self._failing) < IN_A_ROW:
            return None
        self._pauses += 1
        return timedelta(seconds=backoff(self._pauses, base=FIRST_PAUSE, cap=LONGEST_PAUSE))
