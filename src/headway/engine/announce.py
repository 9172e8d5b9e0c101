"""Tells other processes on the same database that there is something new, a few times a second at most."""

from __future__ import annotations

from headway.engine.engine import Engine
from headway.engine.service import Service
from headway.store.port import Changes

TOPICS = {"work": "work", "timers": "timers", "messages": "messages", "history": "events"}
"""What may be new, and what it is called between processes."""


class Announcer(Service):
    """Gathers what the engine has committed and announces the kinds of it, after the commit."""

    name = "announcer"

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._topics: set[str] = set()

    async def start(self) -> None:
        """Begin to listen to the engine."""
        self._engine.watch(self._look)
        await super().start()

    async def stop(self) -> None:
        """No longer listen."""
        if self._loop is not None:
            self._engine.unwatch(self._look)
        await super().stop()

    async def turn(self) -> bool:
        """Announce what has gathered."""
        topics, self._topics = self._topics, set()
        if topics:
            await self._engine.store.announce(topics)
        return bool(self._topics)

    def _look(self, changes: Changes) -> None:
        for kind, topic in TOPICS.items():
            if getattr(changes, kind):
                self._topics.add(topic)
                self.wake()
