"""Answers to requests with an idempotency key, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.rows import RequestRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.tables import REQUEST
from headway.store.unit import ConflictError

RENEW = f"{REQUEST.upsert} WHERE idempotency.expires_at <= ?"
PRUNE = """
DELETE FROM idempotency WHERE (tenant, key) IN (
    SELECT tenant, key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
)
"""


class SqliteRequests:
    """The answers that a database keeps."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def prune(self, limit: int) -> int:
        """Delete answers that have expired; returns how many."""
        return await self._database.write(lambda held: held.write(PRUNE, [(self._database.time(), limit)]))


def write_requests(connection: Connection, requests: Sequence[RequestRow], now: int) -> None:
    """Keep answers; one that has expired but is still there gives way."""
    rows = [(*REQUEST.values(row), now) for row in requests]
    if connection.write(RENEW, rows) != len(rows):
        raise ConflictError("a request id has got an answer meanwhile")
