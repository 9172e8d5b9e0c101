"""Answers to requests with an idempotency key, in memory."""

from __future__ import annotations

from datetime import datetime

from headway.testing.memory.tables import JobRunner, Tables


class MemoryRequests:
    """The answers that the tables keep."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def prune(self, limit: int) -> int:
        """Delete answers that have expired; returns how many."""
        return await self._call(lambda tables, now: _prune(tables, now, limit), writes=True)


def _prune(tables: Tables, now: datetime, limit: int) -> int:
    expired = sorted((row.expires_at, key) for key, row in tables.requests.items() if row.expires_at <= now)[
        :limit
    ]
    for _, key in expired:
        del tables.requests[key]
    return len(expired)
