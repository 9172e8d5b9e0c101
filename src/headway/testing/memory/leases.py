"""Leases in memory: on names, and of nodes, which are alive while they renew theirs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from headway.codec import replace
from headway.store.rows import Key, LeaseRow, NodeRow, Version
from headway.testing.memory.tables import JobRunner, Tables


class MemoryLeases:
    """The leases of the tables; a node has its name as long as its store `is_open`."""

    def __init__(self, call: JobRunner, is_open: Callable[[], bool]) -> None:
        self._call, self.is_open = call, is_open

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases; returns the names that the holder has now."""

        def hold(tables: Tables, now: datetime) -> list[Key]:
            free = [name for name in names if not tables.held_by_another(name, holder, now)]
            until = now + timedelta(milliseconds=milliseconds)
            tables.leases.update((name, LeaseRow(*name, holder, until)) for name in free)
            return free

        return await self._call(hold, writes=True)

    async def release(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""

        def release(tables: Tables, _: datetime) -> None:
            for name in names:
                if (lease := tables.leases.get(name)) is not None and lease.holder == holder:
                    del tables.leases[name]

        await self._call(release, writes=True)

    async def get(self, name: Key) -> LeaseRow | None:
        """The lease on a name, even if it has run out, until it is released."""
        return await self._call(lambda tables, _: tables.leases.get(name))

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this store is open, and end the leases of its previous holder."""

        def take(tables: Tables, now: datetime) -> bool:
            leases, before = tables.node_names.get(name, (self, holder))
            if leases is not self and isinstance(leases, MemoryLeases) and leases.is_open():
                return False
            tables.node_names[name] = (self, holder)
            if before != holder:
                _end_leases(tables, before, now)
            return True

        return await self._call(take, writes=True)


def _end_leases(tables: Tables, holder: str, now: datetime) -> None:
    for key, work in tables.work.items():
        if work.worker == holder and work.leased_until is not None and work.leased_until > now:
            tables.work[key] = replace(work, leased_until=now)
    for name, lease in tables.leases.items():
        if lease.holder == holder and lease.until > now:
            tables.leases[name] = replace(lease, until=now)


class MemoryNodes:
    """The nodes of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Register a node as alive for `milliseconds`, and delete nodes whose time is over."""

        def keep(tables: Tables, now: datetime) -> None:
            tables.nodes = {node.name: node for node in tables.nodes.values() if node.until > now}
            until = now + timedelta(milliseconds=milliseconds)
            tables.nodes[name] = NodeRow(name, tuple(sorted(versions)), until)

        await self._call(keep, writes=True)

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""
        await self._call(lambda tables, _: tables.nodes.pop(name, None), writes=True)

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""
        return await self._call(
            lambda tables, now: sorted(
                (node for node in tables.nodes.values() if node.until > now), key=lambda node: node.name
            )
        )
