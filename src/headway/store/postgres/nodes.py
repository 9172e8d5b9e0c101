"""The nodes on a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from headway.codec import decode, encode
from headway.store.port import Version
from headway.store.postgres.connection import DATABASE_ERRORS, PATIENCE, Connection, connect, translated
from headway.store.postgres.keys import Fetch
from headway.store.postgres.query import NOW
from headway.store.rows import NodeRow

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
    """Keeps the nodes of a store, by its way to run statements; `now` replaces its time in tests."""

    def __init__(self, fetch: Fetch, now: Callable[[], datetime | None]) -> None:
        self._fetch, self._now = fetch, now

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Count a node as alive for so long; nodes whose time is over are deleted."""
        known = encode(sorted(versions)).decode()
        await self._fetch(KEEP, self._now(), name, known, milliseconds, writes=True)

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""
        await self._fetch(FORGET, name, writes=True)

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""
        return [
            NodeRow(name, decode(tuple[Version, ...], versions), until)
            for name, versions, until in await self._fetch(ALIVE, self._now())
        ]


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


class Names:
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
