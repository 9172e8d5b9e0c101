"""Histories on SQLite: pages of their lines, and what is left when some were pruned."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.rows import HistoryRow, Key
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.events import forgetting
from headway.store.sqlite.tables import HISTORY

PAGE = f"{HISTORY.select} WHERE tenant = ? AND instance = ? AND position > ? ORDER BY position LIMIT ?"
JOURNALS = (
    "SELECT DISTINCT tenant, instance FROM history WHERE (tenant, instance) > (?, ?)"
    " ORDER BY tenant, instance LIMIT ?"
)
FORGET_LINES = forgetting(
    "SELECT position, 0 FROM history WHERE tenant = ? AND instance = ? ORDER BY position DESC LIMIT 1"
)
# They stay, but without their instance nobody knows whose they are.
FORGET_LIVE = forgetting(
    "SELECT line, position FROM outbox WHERE kind = 'live' AND tenant = ? AND instance = ?"
    " ORDER BY position DESC LIMIT 1"
)
PRUNE_HISTORY = """
DELETE FROM history WHERE position IN (
    SELECT position FROM history WHERE tenant = ? AND instance = ? ORDER BY position LIMIT ?
)
"""
LAST_TO_GO = "SELECT hash FROM history WHERE tenant = ? AND instance = ? ORDER BY position LIMIT 1 OFFSET ?"
# What is left of a history must tell that the engine took the rest.
NOTE_PRUNED = "UPDATE instance SET pruned = ? WHERE tenant = ? AND id = ?"
PRUNED = "SELECT pruned FROM instance WHERE tenant = ? AND id = ? AND pruned IS NOT NULL"


class SqliteHistory:
    """The lines of all instances of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._database.rows(HISTORY, PAGE, (*key, after, limit))

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""
        found = await self._database.fetch(JOURNALS, (*after, limit))
        return [(tenant, name) for tenant, name in found]

    async def pruned(self, key: Key) -> str:
        """The hash of an instance's last pruned line, while other lines or its row are left; else empty."""
        return next((str(last) for (last,) in await self._database.fetch(PRUNED, key)), "")


def prune_lines(connection: Connection, key: Key, limit: int) -> tuple[int, bool]:
    """Delete the first lines of an instance; returns how many, and whether these are all.

    Belongs in a transaction.
    """
    connection.write(FORGET_LINES, [key])
    connection.write(FORGET_LIVE, [key])
    last = connection.fetch(LAST_TO_GO, (*key, limit - 1))
    gone = connection.write(PRUNE_HISTORY, [(*key, limit)])
    if last:
        connection.write(NOTE_PRUNED, [(*last[0], *key)])
    return gone, not last
