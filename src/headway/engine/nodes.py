"""The nodes of one database: which are alive, which chart versions they know, what they announce."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from headway.codec import Value
from headway.engine.engine import Engine
from headway.engine.service import LOG, Service, WatchingService
from headway.errors import StoreError
from headway.store.port import Store
from headway.store.rows import Version
from headway.store.unit import Changes

ALIVE = 20_000
"""Milliseconds for which a node counts as alive after a heartbeat."""
TOPICS = {"work": "work", "timers": "timers", "messages": "messages", "history": "events"}
"""The topic that is announced when a commit has rows of a kind."""
LOOKS_EVERY = 12
"""The number of heartbeats between two looks for living versions that the node does not know."""


class UnknownVersion(Value):
    """A version of living instances that this node does not know, and the living nodes that know it."""

    chart: str
    version: int
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The version, and the nodes that know it."""
        known = f"known by {', '.join(self.nodes)}" if self.nodes else "no living node knows it"
        return f"{self.chart} v{self.version} ({known})"


class Announcer(WatchingService):
    """Announces to other processes which kinds of rows this engine has committed."""

    name = "announcer"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._topics: set[str] = set()

    async def turn(self) -> bool:
        """Announce the gathered topics; if that fails, the next turn announces them."""
        topics, self._topics = self._topics, set()
        try:
            if topics:
                await self._store.announce(topics)
        except BaseException:
            self._topics |= topics
            raise
        return bool(self._topics)

    def look(self, changes: Changes) -> None:
        """Note the topics of a commit's changes, and wake the announcer."""
        for kind, topic in TOPICS.items():
            if getattr(changes, kind):
                self._topics.add(topic)
                self.wake()


class Presence(Service):
    """Registers this node and its chart versions, and looks for versions it does not know."""

    name = "presence"
    longest_rest = 5.0

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._beats = 0
        self.unknown: tuple[UnknownVersion, ...] = ()
        """Versions of living instances that this node does not know, as of the last look."""

    async def start(self) -> None:
        """Register before anything else runs."""
        if self._loop is None:
            with suppress(StoreError):  # the next turn reports it, and tries again
                await self.turn()
        await super().start()

    async def turn(self) -> bool:
        """Send a heartbeat; sometimes look for unknown versions."""
        engine = self._engine
        await engine.store.nodes.keep(engine.node, engine.charts.versions, ALIVE)
        if self._beats % LOOKS_EVERY == 0:
            await self._look()
        self._beats += 1
        return False

    async def _look(self) -> None:
        engine = self._engine
        before, self.unknown = self.unknown, await unknown_versions(engine.store, engine.charts.versions)
        if self.unknown and self.unknown != before:
            LOG.warning(
                "instances of versions that this node does not know are left to other nodes: %s",
                "; ".join(map(str, self.unknown)),
            )

    async def stop(self) -> None:
        """Stop, and remove the registration."""
        await super().stop()
        with suppress(StoreError):  # without the database the node counts as alive a little longer
            await self._engine.store.nodes.forget(self._engine.node)


async def unknown_versions(store: Store, known: Collection[Version]) -> tuple[UnknownVersion, ...]:
    """The versions of living instances that are not among the `known`."""
    stored: list[Version] = [(row.chart, row.version) for row in await store.charts.all()]
    unknown = [version for version in stored if version not in known]
    if not unknown:
        return ()
    alive = await store.charts.living_versions()
    living = [version for version in unknown if version in alive]
    nodes = await store.nodes.alive() if living else ()
    return tuple(
        UnknownVersion(*version, tuple(node.name for node in nodes if version in node.versions))
        for version in living
    )


async def nodes_without(store: Store, version: Version) -> tuple[str, ...]:
    """The living nodes that do not know a version, and so leave its instances alone."""
    return tuple(node.name for node in await store.nodes.alive() if version not in node.versions)
