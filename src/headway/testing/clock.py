"""A clock that moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headway.clock import milliseconds

BEGINNING = datetime(2026, 1, 1, 9, tzinfo=UTC)


class FakeClock:
    """Stands still until `advance("2d")`."""

    def __init__(self, now: datetime = BEGINNING) -> None:
        self._now = now

    def now(self) -> datetime:
        """The time it was last set to."""
        return self._now

    def advance(self, duration: str | float | timedelta) -> datetime:
        """Let time pass ("2d", "1h 30m", seconds, a timedelta); answers the new time."""
        return self.move_to(self._now + timedelta(milliseconds=milliseconds(duration)))

    def move_to(self, at: datetime) -> datetime:
        """Let time pass until then; raises ValueError for a time that is over."""
        if at < self._now:
            raise ValueError(f"time does not go back from {self._now.isoformat()} to {at.isoformat()}")
        self._now = at
        return at
