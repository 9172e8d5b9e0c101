"""A service that knows when its next turn is due."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import inf

from headway.engine.service import Service


class Punctual(Service):
    """Rests until the next thing is due by the monotonic clock: one timer, however many things there are."""

    longest_rest = 60.0

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self.monotonic = monotonic
        self._planned = inf

    @abstractmethod
    def next_due(self) -> float:
        """When the next turn is due, by the monotonic clock."""

    def expect(self, at: float) -> None:
        """Something more is due at this time."""
        if at < self._planned:
            self._planned = at
            self.wake()

    async def rest(self) -> float:
        """The seconds until the next thing is due."""
        self._planned = self.next_due()
        return max(0.0, min(self._planned - self.monotonic(), self.longest_rest))
