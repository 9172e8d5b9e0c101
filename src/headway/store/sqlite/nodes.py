"""The nodes on a SQLite database: processes that share its file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.codec import decode, encode
from headway.store.rows import NodeRow, Version
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import from_time

KEEP = """
INSERT INTO node (name, versions, until) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET versions = excluded.versions, until = excluded.until
"""
DROP_DEAD = "DELETE FROM node WHERE until <= ?"
FORGET = "DELETE FROM node WHERE name = ?"
ALIVE = "SELECT name, versions, until FROM node WHERE until > ? ORDER BY name"


class SqliteNodes:
    """The nodes of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Count a node as alive for so long; nodes whose time is over are deleted."""
        now = self._database.time()
        row = (name, encode(sorted(versions)).decode(), now + milliseconds * 1_000)

        def keep(connection: Connection) -> None:
            connection.write(DROP_DEAD, [(now,)])
            connection.write(KEEP, [row])

        await self._database.write(keep)

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""
        await self._database.write(lambda held: held.write(FORGET, [(name,)]))

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""
        now = self._database.time()
        found = await self._database.fetch(ALIVE, (now,))
        return [
            NodeRow(name, decode(tuple[Version, ...], versions), from_time(until))
            for name, versions, until in found
        ]
