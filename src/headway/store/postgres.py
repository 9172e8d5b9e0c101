"""The store on PostgreSQL, for many nodes: its time is the database's, on which all of them agree."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from headway.clock import Clock
from headway.errors import StoreError
from headway.store import migrate
from headway.store.port import Claim, InstanceQuery, Reads, Unit
from headway.store.postgres_connection import ConflictError, Connection, Connections, LostError
from headway.store.postgres_tables import HISTORY, INSTANCE, TIMER, WORK, Row, Table
from headway.store.postgres_turns import Turns
from headway.store.postgres_unit import run_unit
from headway.store.postgres_work import NOW, Desk, extend
from headway.store.rows import HistoryRow, InstanceRow, Key, TimerRow, WorkRow

T = TypeVar("T")
Job = Callable[[int], Awaitable[T]]

CONNECTIONS = 4
ATTEMPTS = 5
FIRST_PAUSE = 0.01

TIME = f"SELECT {NOW}"
ONE_INSTANCE = f"{INSTANCE.select} WHERE tenant = $1 AND id = $2"
PAGE_OF_HISTORY = (
    f"{HISTORY.select} WHERE tenant = $1 AND instance = $2 AND position > $3 ORDER BY position LIMIT $4"
)
DUE_TIMERS = f"{TIMER.select} WHERE due <= {NOW} ORDER BY due, tenant, id LIMIT $2"
NEXT_TIMER = "SELECT due FROM timer ORDER BY due LIMIT 1"
EXPIRED_WORK = (
    f"{WORK.select} WHERE worker IS NOT NULL AND leased_until <= {NOW}"
    " ORDER BY leased_until, tenant, id LIMIT $2"
)
PRUNE = f"""
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency WHERE expires_at <= {NOW} ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)) RETURNING 1
"""
FILTERS = ("chart", "status", "parent")
AFTER = "no > (SELECT no FROM instance WHERE tenant = $1 AND id = {})"


class PostgresStore:
    """Keeps rows in the PostgreSQL database at an address; a `clock` takes the place of its time in tests."""

    def __init__(self, address: str, *, clock: Clock | None = None, pool_size: int = CONNECTIONS) -> None:
        self._clock = clock
        self._connections = Connections(address, pool_size)
        self._turns = Turns()
        self._desk = Desk()

    async def open(self) -> None:
        """Connect; raises SchemaError when the schema is not the one this version needs."""
        self._connections.open()
        try:
            await self._on_connection(lambda connection: migrate.check(PostgresDatabase(connection)))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._connections.close()

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""

        async def attempt(number: int) -> None:
            first = unit.begin()
            async with self._turns.take(_keys(first)), self._connections.connection() as connection:
                await run_unit(connection, unit, first, self._time, lock=number > 0)

        await self._persist(attempt)

    async def now(self) -> datetime:
        """The database's time."""
        [(time,)] = await self._fetch(TIME, self._time())
        return time  # type: ignore[no-any-return]  # what the statement answers

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return next(iter(await self._rows(INSTANCE, ONE_INSTANCE, *key)), None)

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        sql, values = _page(query)
        return await self._rows(INSTANCE, sql, *values)

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._rows(HISTORY, PAGE_OF_HISTORY, *key, after, limit)

    async def due_timers(self, limit: int) -> Sequence[TimerRow]:
        """Timers that are due, the longest overdue first."""
        return await self._rows(TIMER, DUE_TIMERS, self._time(), limit)

    async def next_timer(self) -> datetime | None:
        """When the next timer is due."""
        return next((due for (due,) in await self._fetch(NEXT_TIMER)), None)

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease work that is due to a worker: by priority, the tenants in turn, each item once."""
        return await self._on_connection(lambda connection: self._desk.claim(connection, claim, self._time()))

    async def extend_leases(self, worker: str, items: Sequence[tuple[str, str, int]]) -> Sequence[Key]:
        """Extend leases (tenant, work, attempt); answers those the worker still holds."""
        return await self._on_connection(lambda connection: extend(connection, worker, items, self._time()))

    async def expired_work(self, limit: int) -> Sequence[WorkRow]:
        """Work whose lease has run out, the longest first."""
        return await self._rows(WORK, EXPIRED_WORK, self._time(), limit)

    async def prune(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""
        return len(await self._fetch(PRUNE, self._time(), limit, writes=True))

    def _time(self) -> datetime | None:
        """The time to use in place of the database's."""
        return self._clock.now() if self._clock else None

    async def _rows(self, table: Table[Row], sql: str, *values: Any) -> list[Row]:
        return table.rows(await self._fetch(sql, *values))

    async def _fetch(self, sql: str, *values: Any, writes: bool = False) -> list[Any]:
        return await self._on_connection(lambda connection: connection.fetch(sql, *values, writes=writes))

    async def _on_connection(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        async def attempt(_: int) -> T:
            async with self._connections.connection() as connection:
                return await job(connection)

        return await self._persist(attempt)

    async def _persist(self, job: Job[T]) -> T:
        """Do a job; again when it collides or loses its connection with nothing changed, but not for ever."""
        async with self._connections.call():
            for number in range(ATTEMPTS - 1):
                try:
                    return await job(number)
                except (ConflictError, LostError) as error:
                    if isinstance(error, LostError) and error.maybe_committed:
                        raise
                await asyncio.sleep(_pause(number))
            try:
                return await job(ATTEMPTS)
            except ConflictError as error:
                raise StoreError(
                    f"collided {ATTEMPTS} times with what is there; nothing was changed"
                ) from error


class PostgresDatabase:
    """What the migrations need of PostgreSQL."""

    dialect = "postgres"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, sql: str) -> None:
        """Run statements in one transaction."""
        await self._connection.script(sql)

    async def fetch(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows a query answers with."""
        return await self._connection.fetch(sql)


@asynccontextmanager
async def postgres_database(address: str) -> AsyncIterator[PostgresDatabase]:
    """A database to migrate."""
    connections = Connections(address, 1)
    connections.open()
    try:
        async with connections.call(), connections.connection() as connection:
            yield PostgresDatabase(connection)
    finally:
        await connections.close()


def _keys(wanted: Reads) -> set[Key]:
    return wanted.instances | wanted.requests | wanted.counters


def _pause(number: int) -> float:
    return FIRST_PAUSE * (1 << number) * random.random()  # noqa: S311 - it spreads attempts and keeps no secret


def _page(query: InstanceQuery) -> tuple[str, list[Any]]:
    """The statement for the filters that are set, so that each combination finds its index."""
    values: list[Any] = [query.tenant]
    terms = ["tenant = $1"]
    for name in FILTERS:
        if (value := getattr(query, name)) is not None:
            values.append(value)
            terms.append(f"{name} = ${len(values)}")
    if query.ended is not None:
        terms.append("ended" if query.ended else "NOT ended")
    if query.after is not None:
        values.append(query.after)
        terms.append(AFTER.format(f"${len(values)}"))
    values.append(query.limit)
    return f"{INSTANCE.select} WHERE {' AND '.join(terms)} ORDER BY no LIMIT ${len(values)}", values
