"""Nodes in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from headway.store.rows import NodeRow, Version
from headway.testing.memory.tables import Call, Tables


class MemoryNodes:
    """The nodes of the tables."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Count a node as alive for so long; nodes whose time is over are deleted."""

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
