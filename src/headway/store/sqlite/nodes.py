"""The nodes on a SQLite database: processes that share its file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256

from headway.codec import decode, encode
from headway.store.port import Version
from headway.store.rows import NodeRow
from headway.store.sqlite.connection import MEMORY, Connection
from headway.store.sqlite.keys import Call
from headway.store.sqlite.tables import from_time, to_time

KEEP = """
INSERT INTO node (name, versions, until) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET versions = excluded.versions, until = excluded.until
"""
DROP_DEAD = "DELETE FROM node WHERE until <= ?"
FORGET = "DELETE FROM node WHERE name = ?"
ALIVE = "SELECT name, versions, until FROM node WHERE until > ? ORDER BY name"


class SqliteNodes:
    """Keeps the nodes of a store, by its ways to read and to write."""

    def __init__(self, read: Call, write: Call, now: Callable[[], datetime]) -> None:
        self._read, self._write, self._now = read, write, now

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Count a node as alive for so long; nodes whose time is over are deleted."""
        now = to_time(self._now())
        row = (name, encode(sorted(versions)).decode(), now + milliseconds * 1_000)

        def keep(connection: Connection) -> None:
            connection.write(DROP_DEAD, [(now,)])
            connection.write(KEEP, [row])

        await self._write(keep)

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""
        await self._write(lambda held: held.write(FORGET, [(name,)]))

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""
        now = to_time(self._now())
        found = await self._read(lambda held: held.fetch(ALIVE, (now,)))
        return [
            NodeRow(name, decode(tuple[Version, ...], versions), from_time(until))
            for name, versions, until in found
        ]


Write = Callable[[Callable[[Connection], None]], Awaitable[None]]
"""Runs a job in a transaction."""

BEFORE = "SELECT holder FROM lease WHERE tenant = '' AND name = :name AND holder <> :holder"
END_WORK = "UPDATE work SET leased_until = :now WHERE worker = :before AND leased_until > :now"
END_LEASES = "UPDATE lease SET until = :now WHERE holder = :before AND until > :now"
KEEP_NAME = """
INSERT INTO lease (tenant, name, holder, until) VALUES ('', :name, :holder, :now)
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
"""


class Names:
    """Names of this process, each with a lock on a file beside the database until the process ends."""

    def __init__(self, path: str, write: Write, time: Callable[[], int]) -> None:
        self._path, self._write, self._time = path, write, time
        self._held: dict[str, int] = {}
        self._taken: set[str] = set()

    async def take(self, name: str, holder: str) -> bool:
        """Whether this process has a name now; what stands in memory no other process has."""
        if name not in self._taken:
            if self._path != MEMORY and not self._lock(name):
                return False
            await self._write(lambda held: _succeed(held, name, holder, self._time()))
            self._taken.add(name)
        return True

    def _lock(self, name: str) -> bool:
        if name in self._held:
            return True
        with suppress(OSError):  # another process holds it, or there is no way to know
            # The file stays: whoever deletes it could leave two processes with a lock on two files.
            file = os.open(f"{self._path}-node-{_digest(name)}", os.O_RDWR | os.O_CREAT, 0o644)
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


def _succeed(connection: Connection, name: str, holder: str, now: int) -> None:
    """End the leases of who had a name before, and note who has it; belongs in a transaction."""
    terms = {"name": f"node {name}", "holder": holder, "now": now}
    for (before,) in connection.fetch(BEFORE, terms):
        for end in (END_WORK, END_LEASES):
            connection.fetch(end, {"before": before, "now": now})
    connection.fetch(KEEP_NAME, terms)


def _digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:16]
