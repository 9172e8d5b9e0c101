"""Clocks that a test can move, for services that run in real time."""

from datetime import datetime, timedelta

from headway.clock import SystemClock


class Ahead(SystemClock):
    """The clock of this machine, which a test may set ahead."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """The time, and what it was set ahead by."""
        return super().now() + self.ahead

    def seconds(self) -> float:
        """The same as a monotonic clock shows it."""
        return self.now().timestamp()
