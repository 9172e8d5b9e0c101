"""The nodes on a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.codec import decode, encode
from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.query import NOW
from headway.store.rows import NodeRow, Version

KEEP = f"""
WITH dead AS (
    DELETE FROM node WHERE name IN (
        SELECT name FROM node WHERE until <= {NOW} AND name <> $2 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO node (name, versions, until)
VALUES ($2, $3, {NOW} + $4::bigint * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE SET versions = excluded.versions, until = excluded.until
"""
FORGET = "DELETE FROM node WHERE name = $1"
ALIVE = f"SELECT name, versions, until FROM node WHERE until > {NOW} ORDER BY name"


class PostgresNodes:
    """The nodes of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Count a node as alive for so long; nodes whose time is over are deleted."""
        known = encode(sorted(versions)).decode()
        await self._database.write(KEEP, self._database.time(), name, known, milliseconds)

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""
        await self._database.write(FORGET, name)

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""
        return [
            NodeRow(name, decode(tuple[Version, ...], versions), until)
            for name, versions, until in await self._database.fetch(ALIVE, self._database.time())
        ]
