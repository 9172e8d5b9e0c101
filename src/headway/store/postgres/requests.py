"""Answers to requests with an idempotency key, on PostgreSQL."""

from __future__ import annotations

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.query import NOW

PRUNE = f"""
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency WHERE expires_at <= {NOW} ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)) RETURNING 1
"""


class PostgresRequests:
    """The answers that a database keeps."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def prune(self, limit: int) -> int:
        """Delete answers that have expired; returns how many."""
        return len(await self._database.write(PRUNE, self._database.time(), limit))
