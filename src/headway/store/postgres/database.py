"""A PostgreSQL database: its pool of connections, what this node remembers of it, and its time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from headway.clock import Clock
from headway.errors import StoreError
from headway.store.postgres.connection import PATIENCE, Connection, Connections, LostError
from headway.store.postgres.memory import NodeMemory
from headway.store.postgres.tables import Row, Table
from headway.store.rows import Attempt, Key
from headway.store.unit import Command, ConflictError

T = TypeVar("T")

Commands = Mapping[type[Command], Callable[[Connection, Any], Awaitable[Any]]]
"""What runs each command of a noun in the transaction of a unit."""
ATTEMPTS = 8
FIRST_PAUSE = 0.01


class PostgresDatabase:
    """The database at an address; a `clock` takes the place of its time in tests."""

    def __init__(self, address: str, *, clock: Clock | None, pool_size: int) -> None:
        self._clock = clock
        self.memory = NodeMemory(self.time)
        # What is at the end of a new connection may be a database that was put back to an earlier time.
        self.connections = Connections(address, pool_size, self.memory.instances.clear)

    def time(self) -> datetime | None:
        """The time to use in place of the database's."""
        return self._clock.now() if self._clock else None

    async def rows(self, table: Table[Row], sql: str, *values: Any) -> list[Row]:
        """The rows of a table that a statement answers with."""
        return table.rows(await self.fetch(sql, *values))

    async def row(self, table: Table[Row], sql: str, *values: Any) -> Row | None:
        """The first of them."""
        return next(iter(await self.rows(table, sql, *values)), None)

    async def changed_keys(self, asked: Sequence[Key | Attempt], sql: str, *values: Any) -> list[Key]:
        """The keys that a statement answers with, in the order in which they were asked for."""
        return in_order(asked, await self.write(sql, *values))

    async def write(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement that commits by itself; returns the rows that it answers with."""
        return await self.fetch(sql, *values, writes=True)

    async def fetch(self, sql: str, *values: Any, writes: bool = False) -> list[Any]:
        """The rows that a statement answers with, as columns."""
        return await self.on_connection(lambda connection: connection.fetch(sql, *values, writes=writes))

    async def on_connection(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        """Do a job on a connection; again if it collides or loses the connection with nothing changed."""

        async def attempt(_: int) -> T:
            async with self.connections.connection() as connection:
                return await job(connection)

        return await self.persist(attempt)

    async def persist(self, job: Callable[[int], Awaitable[T]]) -> T:
        """Run a job, with the number of its attempt; retry on conflicts. Raises StoreError if all conflict.

        A lost connection is tried again only while the call has not waited for long.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        with self.connections.call():
            for number in range(ATTEMPTS - 1):
                try:
                    return await job(number)
                except (ConflictError, LostError) as error:
                    if isinstance(error, LostError) and (error.maybe_committed or loop.time() >= end):
                        raise
                await asyncio.sleep(_pause(number))
            try:
                return await job(ATTEMPTS)
            except ConflictError as error:
                raise StoreError(
                    f"gave up after {ATTEMPTS} conflicts with other transactions; nothing was changed"
                ) from error


def in_order(asked: Sequence[Key | Attempt], changed: Iterable[Sequence[Any]]) -> list[Key]:
    """Keys that a statement has changed, each once, in the order in which they were asked for."""
    keys = {(tenant, name) for tenant, name in changed}
    return [key for key in dict.fromkeys((tenant, name) for tenant, name, *_ in asked) if key in keys]


def sorted_once(values: Iterable[T]) -> list[T]:
    """Each once, in one order, so that no two statements wait for each other."""
    return sorted({*values})  # type: ignore[type-var]  # keys and texts, which have an order


def _pause(number: int) -> float:
    return FIRST_PAUSE * (1 << number) * random.random()  # noqa: S311 - it spreads attempts and keeps no secret
