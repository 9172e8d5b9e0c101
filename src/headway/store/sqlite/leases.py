"""Leases on SQLite: on names, and of nodes, which are alive while they renew theirs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import sha256

from headway.codec import decode, encode
from headway.store.rows import Key, LeaseRow, NodeRow, Version
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import LEASE, from_time

HOLD = """
INSERT INTO lease (tenant, name, holder, until) VALUES (:tenant, :name, :holder, :until)
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= :now
RETURNING tenant, name
"""
RELEASE = "DELETE FROM lease WHERE tenant = ? AND name = ? AND holder = ?"
IS_HELD = "SELECT 1 FROM lease WHERE tenant = ? AND name = ? AND holder = ? AND until > ?"
BEFORE = "SELECT holder FROM lease WHERE tenant = '' AND name = :name AND holder <> :holder"
END_WORK = "UPDATE work SET leased_until = :now WHERE worker = :before AND leased_until > :now"
END_LEASES = "UPDATE lease SET until = :now WHERE holder = :before AND until > :now"
KEEP_NAME = """
INSERT INTO lease (tenant, name, holder, until) VALUES ('', :name, :holder, :now)
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
"""
KEEP = """
INSERT INTO node (name, versions, until) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET versions = excluded.versions, until = excluded.until
"""
DROP_DEAD = "DELETE FROM node WHERE until <= ?"
FORGET = "DELETE FROM node WHERE name = ?"
ALIVE = "SELECT name, versions, until FROM node WHERE until > ? ORDER BY name"


class SqliteLeases:
    """The leases of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._names = NodeNames(database)

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases; returns the names that the holder has now."""
        return await self._database.write(
            lambda held: _hold(held, names, holder, now=self._database.time(), milliseconds=milliseconds)
        )

    async def release(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""
        await self._database.write(lambda held: held.write(RELEASE, [(*name, holder) for name in names]))

    async def get(self, name: Key) -> LeaseRow | None:
        """The lease on a name, even if it has run out, until it is released."""
        return await self._database.row(LEASE, name)

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this process lives, and end the leases of its previous holder."""
        return await self._names.take(name, holder)

    def close(self) -> None:
        """Give up the names of nodes."""
        self._names.close()


class NodeNames:
    """Names of this process, each with a lock on a file beside the database until the process ends."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._held: dict[str, int] = {}
        self._taken: set[str] = set()

    async def take(self, name: str, holder: str) -> bool:
        """Whether this process has a name now; what stands in memory no other process has."""
        if name not in self._taken:
            if not self._database.in_memory and not self._lock(name):
                return False
            await self._database.write(lambda held: _succeed(held, name, holder, self._database.time()))
            self._taken.add(name)
        return True

    def _lock(self, name: str) -> bool:
        if name in self._held:
            return True
        with suppress(OSError):  # another process holds it, or there is no way to know
            # The file is never deleted: after a deletion two processes could hold locks on two files.
            file = os.open(f"{self._database.path}-node-{_digest(name)}", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                raise
            self._held[name] = file
        return name in self._held

    def close(self) -> None:
        """Give all of them up."""
        self._taken.clear()
        while self._held:
            os.close(self._held.popitem()[1])


def _hold(
    connection: Connection, names: Sequence[Key], holder: str, *, now: int, milliseconds: int
) -> list[Key]:
    """Take or extend leases; belongs in a transaction."""
    terms = {"holder": holder, "now": now, "until": now + milliseconds * 1_000}
    return [key for key in names if connection.fetch(HOLD, {"tenant": key[0], "name": key[1], **terms})]


def is_held(connection: Connection, name: Key, holder: str, now: int) -> bool:
    """Whether someone has a name now."""
    return bool(connection.fetch(IS_HELD, (*name, holder, now)))


def _succeed(connection: Connection, name: str, holder: str, now: int) -> None:
    """End the leases of who had a name before, and note who has it; belongs in a transaction."""
    terms = {"name": f"node {name}", "holder": holder, "now": now}
    for (before,) in connection.fetch(BEFORE, terms):
        for end in (END_WORK, END_LEASES):
            connection.fetch(end, {"before": before, "now": now})
    connection.fetch(KEEP_NAME, terms)


def _digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:16]


class SqliteNodes:
    """The nodes of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Register a node as alive for `milliseconds`, and delete nodes whose time is over."""
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
