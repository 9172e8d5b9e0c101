"""Leases on PostgreSQL: on names, and of nodes, which are alive while they renew theirs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from headway.codec import decode, encode
from headway.store.postgres.connection import DATABASE_ERRORS, PATIENCE, Connection, connect, translated
from headway.store.postgres.database import PostgresDatabase, sorted_once
from headway.store.postgres.tables import LEASE, NOW
from headway.store.rows import Key, LeaseRow, NodeRow, Version

HOLD = f"""
INSERT INTO lease (tenant, name, holder, until)
SELECT tenant, key, $3, {NOW} + $4::bigint * interval '1 millisecond' FROM unnest($2::key_given[])
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= {NOW}
RETURNING tenant, name
"""
RELEASE = """
DELETE FROM lease USING unnest($1::key_given[]) AS given
WHERE lease.tenant = given.tenant AND lease.name = given.key AND lease.holder = $2
"""
ONE_LEASE = f"{LEASE.select} WHERE tenant = $1 AND name = $2"
LOCK = "SELECT pg_try_advisory_lock(hashtextextended('headway ' || $1::text, 0))"
UNLOCK = "SELECT pg_advisory_unlock_all()"
"""Said before the end of the session, which the server may notice a moment later."""
SESSION_ALIVE = "SELECT 1"
SUCCEED = f"""
WITH before AS (
    SELECT holder FROM lease WHERE tenant = '' AND name = $2 AND holder <> $3
), ended_work AS (
    UPDATE work SET leased_until = {NOW} FROM before
    WHERE work.worker = before.holder AND work.leased_until > {NOW}
), ended_leases AS (
    UPDATE lease SET until = {NOW} FROM before
    WHERE lease.holder = before.holder AND lease.until > {NOW} AND (lease.tenant, lease.name) <> ('', $2)
)
INSERT INTO lease (tenant, name, holder, until) VALUES ('', $2, $3, {NOW})
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
"""
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


class PostgresLeases:
    """The leases of a database; the names of nodes are locks on a connection of their own to its address."""

    def __init__(self, database: PostgresDatabase, address: str) -> None:
        self._database = database
        self._names = NodeNames(address, database.time)

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases; returns the names that the holder has now."""
        return await self._database.changed_keys(
            names, HOLD, self._database.time(), sorted_once(names), holder, milliseconds
        )

    async def release(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""
        await self._database.write(RELEASE, sorted_once(names), holder)

    async def get(self, name: Key) -> LeaseRow | None:
        """The lease on a name, even if it has run out, until it is released."""
        return await self._database.row(LEASE, ONE_LEASE, *name)

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this process lives, and end the leases of its previous holder."""
        with self._database.connections.call():
            return await self._names.take(name, holder)

    async def close(self) -> None:
        """Give up the names of nodes."""
        await self._names.close()


class NodeNames:
    """A connection whose session holds the locks of names; a lost one is made again with the next call."""

    def __init__(self, address: str, time: Callable[[], datetime | None]) -> None:
        self._address, self._time = address, time
        self._raw: Any = None
        self._taken: set[str] = set()

    async def take(self, name: str, holder: str) -> bool:
        """Whether this process has a name now; raises StoreUnavailableError."""
        key = f"node {name}"
        connection = await self._connection()
        try:
            if key in self._taken:
                await connection.fetch(SESSION_ALIVE)
                return True
            [(free,)] = await connection.fetch(LOCK, key)
            if free:
                await connection.fetch(SUCCEED, self._time(), key, holder, writes=True)
                self._taken.add(key)
        except BaseException:
            await self.close()
            raise
        return bool(free)

    async def close(self) -> None:
        """Give all of them up."""
        raw, self._raw = self._raw, None
        self._taken.clear()
        if raw is not None:
            with suppress(*DATABASE_ERRORS, TimeoutError):  # it is gone either way
                await raw.execute(UNLOCK, timeout=PATIENCE)
                await raw.close(timeout=PATIENCE)

    async def _connection(self) -> Connection:
        if self._raw is None or self._raw.is_closed():
            self._taken.clear()
            try:
                self._raw = await connect(self._address)
            except (*DATABASE_ERRORS, ValueError) as error:
                raise translated(error) from error
        return Connection(self._raw)


class PostgresNodes:
    """The nodes of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Register a node as alive for `milliseconds`, and delete nodes whose time is over."""
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
