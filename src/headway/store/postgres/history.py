"""Histories on PostgreSQL: pages of their lines."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.tables import HISTORY
from headway.store.rows import HistoryRow, Key

PAGE = f"{HISTORY.select} WHERE tenant = $1 AND instance = $2 AND position > $3 ORDER BY position LIMIT $4"
JOURNALS = (
    "SELECT DISTINCT tenant, instance FROM history WHERE (tenant, instance) > ($1, $2)"
    " ORDER BY tenant, instance LIMIT $3"
)


class PostgresHistory:
    """The lines of all instances of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._database.rows(HISTORY, PAGE, *key, after, limit)

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""
        return [(tenant, name) for tenant, name in await self._database.fetch(JOURNALS, *after, limit)]

    async def pruned(self, key: Key) -> str:  # noqa: ARG002 - here an instance goes with all its lines
        """Nothing: an instance is pruned as a whole."""
        return ""
