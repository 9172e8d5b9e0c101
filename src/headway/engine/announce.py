"""Tells other processes on the same database that there is something new, a few times a second at most."""

from __future__ import annotations

from headway.engine.engine import Engine
from headway.engine.watching import WatchingService
from headway.store.unit import Changes

TOPICS = {"work": "work", "timers": "timers", "messages": "messages", "history": "events"}
"""What may be new, and what it is called between processes."""


class Announcer(WatchingService):
    """Gathers what the engine has committed and announces the kinds of it, after the commit."""

    name = "announcer"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._topics: set[str] = set()

    async def turn(self) -> bool:
        """Announce what has gathered; what could not be told is told with the next."""
        topics, self._topics = self._topics, set()
        try:
            if topics:
                await self._store.announce(topics)
        except BaseException:
            self._topics |= topics
            raise
        return bool(self._topics)

    def look(self, changes: Changes) -> None:
        """Note what is new."""
        for kind, topic in TOPICS.items():
            if getattr(changes, kind):
                self._topics.add(topic)
                self.wake()
