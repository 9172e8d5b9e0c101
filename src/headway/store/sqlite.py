"""The store on SQLite: a file beside the program, or memory; one thread writes, another reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from headway.clock import Clock, SystemClock, milliseconds
from headway.store import migrate
from headway.store.port import Claim, InstanceQuery, Unit
from headway.store.rows import HistoryRow, InstanceRow, Key, TimerRow, WorkRow
from headway.store.sqlite_connection import MEMORY, Connection
from headway.store.sqlite_tables import HISTORY, INSTANCE, TIMER, WORK, Row, Table, from_time, to_time
from headway.store.sqlite_thread import SqliteThread
from headway.store.sqlite_unit import run_unit
from headway.store.sqlite_work import Desk, extend

T = TypeVar("T")

PATIENCE = "5s"
FILTERS = {"chart": "chart = :chart", "status": "status = :status", "parent": "parent = :parent"}
AFTER = "no > (SELECT no FROM instance WHERE tenant = :tenant AND id = :after)"
DUE_TIMERS = f"{TIMER.select} WHERE due <= ? ORDER BY due, tenant, id LIMIT ?"
NEXT_TIMER = "SELECT min(due) FROM timer"
EXPIRED_WORK = (
    f"{WORK.select} WHERE worker IS NOT NULL AND leased_until <= ? ORDER BY leased_until, tenant, id LIMIT ?"
)
PAGE_OF_HISTORY = (
    f"{HISTORY.select} WHERE tenant = ? AND instance = ? AND position > ? ORDER BY position LIMIT ?"
)
PRUNE = """
DELETE FROM idempotency WHERE (tenant, key) IN (
    SELECT tenant, key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
)
"""


class SqliteStore:
    """Keeps rows in a file, or in memory (":memory:") until it is closed.

    `patience` is how long it waits for another process that writes to the same file.
    """

    def __init__(self, path: str, clock: Clock | None = None, *, patience: str = PATIENCE) -> None:
        self._in_memory = path == MEMORY
        self._clock = clock or SystemClock()
        self._desk = Desk()
        connect = partial(Connection, path, patience=milliseconds(patience))
        self._writer = SqliteThread(connect)
        # What stands in memory belongs to one connection.
        self._reader = self._writer if self._in_memory else SqliteThread(partial(connect, read_only=True))

    async def open(self) -> None:
        """Connect; raises SchemaError when the schema is not the one this version needs."""
        await self._writer.start()
        try:
            database = SqliteDatabase(self._writer)
            await (migrate.up(database) if self._in_memory else migrate.check(database))
            await self._reader.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._reader.stop()
        await self._writer.stop()

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""
        await self._writer.call(lambda connection: run_unit(connection, unit, self._clock.now))

    async def now(self) -> datetime:
        """The time of the store's clock."""
        return self._clock.now()

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return next(iter(await self._read(INSTANCE, INSTANCE.select_one, key)), None)

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        values = {"tenant": query.tenant, "after": query.after, "limit": query.limit}
        values |= {name: getattr(query, name) for name in FILTERS}
        return await self._read(INSTANCE, _page(query), values)

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._read(HISTORY, PAGE_OF_HISTORY, (*key, after, limit))

    async def due_timers(self, limit: int) -> Sequence[TimerRow]:
        """Timers that are due, the longest overdue first."""
        return await self._read(TIMER, DUE_TIMERS, (self._time(), limit))

    async def next_timer(self) -> datetime | None:
        """When the next timer is due."""
        [(due,)] = await self._reader.call(lambda connection: connection.fetch(NEXT_TIMER))
        return None if due is None else from_time(due)

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, the tenants in turn, each item to one worker only."""
        return await self._write(lambda connection: self._desk.claim(connection, claim, self._clock.now()))

    async def extend_leases(self, worker: str, items: Sequence[tuple[str, str, int]]) -> Sequence[Key]:
        """Extend leases (tenant, work, attempt); answers those the worker still holds."""
        return await self._write(lambda connection: extend(connection, worker, items, self._clock.now()))

    async def expired_work(self, limit: int) -> Sequence[WorkRow]:
        """Work whose lease has run out, the longest first."""
        return await self._read(WORK, EXPIRED_WORK, (self._time(), limit))

    async def prune(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""
        return await self._write(lambda connection: connection.write(PRUNE, [(self._time(), limit)]))

    def _time(self) -> int:
        return to_time(self._clock.now())

    async def _read(self, table: Table[Row], sql: str, values: Sequence[Any] | dict[str, Any]) -> list[Row]:
        return table.rows(await self._reader.call(lambda connection: connection.fetch(sql, values)))

    async def _write(self, job: Callable[[Connection], T]) -> T:
        return await self._writer.call(lambda connection: connection.transaction(job))


class SqliteDatabase:
    """What the migrations need of SQLite."""

    dialect = "sqlite"

    def __init__(self, thread: SqliteThread) -> None:
        self._thread = thread

    async def execute(self, sql: str) -> None:
        """Run statements in one transaction."""
        await self._thread.call(lambda connection: connection.script(sql))

    async def fetch(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows a statement answers with."""
        return await self._thread.call(lambda connection: connection.fetch(sql))


@asynccontextmanager
async def sqlite_database(path: str, *, create: bool = True) -> AsyncIterator[SqliteDatabase]:
    """A database to migrate; its file is made when it is not there, or else SchemaError is raised."""
    thread = SqliteThread(partial(Connection, path, patience=milliseconds(PATIENCE), create=create))
    await thread.start()
    try:
        yield SqliteDatabase(thread)
    finally:
        await thread.stop()


def _page(query: InstanceQuery) -> str:
    """The statement for the filters that are set, so that each combination finds its index."""
    terms = [
        "tenant = :tenant",
        *(term for name, term in FILTERS.items() if getattr(query, name) is not None),
    ]
    terms += [] if query.ended is None else [f"ended = {query.ended:d}"]
    terms += [] if query.after is None else [AFTER]
    return f"{INSTANCE.select} WHERE {' AND '.join(terms)} ORDER BY no LIMIT :limit"
