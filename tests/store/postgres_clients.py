"""Who else is on a PostgreSQL database: other nodes, and clients that keep them waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from headway.store.postgres.store import PostgresStore

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@asynccontextmanager
async def opened(address: str, **options: Any) -> AsyncIterator[PostgresStore]:
    """Another node."""
    store = PostgresStore(address, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def someone(address: str) -> AsyncIterator[asyncpg.Connection]:
    """A client that is no store, and may keep others waiting."""
    connection = await asyncpg.connect(address)
    try:
        yield connection
    finally:
        connection.terminate()


async def until_waiting(address: str, count: int = 1) -> None:
    """Come back when so many clients wait for a lock."""
    async with someone(address) as observer, asyncio.timeout(60):
        while await observer.fetchval(WAITING) < count:
            pass
