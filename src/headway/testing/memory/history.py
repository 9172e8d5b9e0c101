"""Histories in memory."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.rows import HistoryRow, Key
from headway.testing.memory.tables import Call


class MemoryHistory:
    """The lines of all instances of the tables."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._call(
            lambda tables, _: [row for row in tables.history.get(key, ()) if row.position > after][:limit]
        )

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""
        return await self._call(
            lambda tables, _: sorted(key for key in tables.history if key > after)[:limit]
        )

    async def pruned(self, key: Key) -> str:  # noqa: ARG002 - here an instance goes with all its lines
        """Nothing: an instance is pruned as a whole."""
        return ""
