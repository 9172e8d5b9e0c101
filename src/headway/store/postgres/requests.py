"""Requests on PostgreSQL: stored answers, and locks that serialise units which share a key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.tables import NOW
from headway.store.rows import Key

PRUNE = f"""
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency WHERE expires_at <= {NOW} ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)) RETURNING 1
"""
Waiter = asyncio.Future[None]


class PostgresRequests:
    """The answers that a database keeps."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def prune(self, limit: int) -> int:
        """Delete answers that have expired; returns how many."""
        return len(await self._database.write(PRUNE, self._database.time(), limit))


class KeyLocks:
    """Locks on keys, first come, first served, so that there is no deadlock."""

    def __init__(self) -> None:
        self._last: dict[Key, Waiter] = {}
        """The last in the line of each key."""

    @asynccontextmanager
    async def hold(self, keys: Collection[Key]) -> AsyncIterator[None]:
        """Wait until all who came earlier for one of the keys are done."""
        before = {self._last[key] for key in keys if key in self._last}
        own: Waiter = asyncio.get_running_loop().create_future()
        self._last |= dict.fromkeys(keys, own)
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._end(own, keys, before)

    def _end(self, own: Waiter, keys: Collection[Key], before: Collection[Waiter]) -> None:
        """Release the next waiters. One that gave up keeps its place until those before it have ended."""
        waited_for = next((waiter for waiter in before if not waiter.done()), None)
        if waited_for is not None:
            waited_for.add_done_callback(lambda _: self._end(own, keys, before))
            return
        own.set_result(None)
        for key in keys:
            if self._last.get(key) is own:
                del self._last[key]
