"""A service that hears of every commit of its engine."""

from __future__ import annotations

from abc import abstractmethod

from headway.engine.engine import Engine
from headway.engine.service import Service
from headway.store.unit import Changes


class WatchingService(Service):
    """Hears of commits from its start to its end, and decides whether they are a reason to wake up."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine, self._store = engine, engine.store

    @abstractmethod
    def look(self, changes: Changes) -> None:
        """Look at what was committed; called on the event loop."""

    async def start(self) -> None:
        """Begin to take turns, and to hear of commits."""
        if self._loop is None:
            self._engine.watch(self.look)
        await super().start()

    async def stop(self) -> None:
        """Take no further turn, and hear no more."""
        if self._loop is not None:
            self._engine.unwatch(self.look)
        await super().stop()
