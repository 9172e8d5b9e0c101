"""The store on SQLite: a file beside the program, or memory; one thread writes, another reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

from headway.clock import Clock, SystemClock, milliseconds
from headway.store import migrate
from headway.store.sqlite.asks import SqliteAsks
from headway.store.sqlite.charts import SqliteCharts
from headway.store.sqlite.connection import Connection, SqliteThread
from headway.store.sqlite.database import PATIENCE, SqliteDatabase
from headway.store.sqlite.history import SqliteEvents, SqliteHistory
from headway.store.sqlite.instances import SqliteInstances
from headway.store.sqlite.keys import SqliteKeys
from headway.store.sqlite.leases import SqliteLeases, SqliteNodes
from headway.store.sqlite.letters import SqliteLetters
from headway.store.sqlite.messages import SqliteMessages
from headway.store.sqlite.requests import SqliteRequests
from headway.store.sqlite.timers import SqliteTimers
from headway.store.sqlite.unit import run_unit
from headway.store.sqlite.work import SqliteWork
from headway.store.unit import Done, Unit


class SqliteStore:
    """Keeps rows in a file, or in memory (":memory:") until it is closed.

    `patience` is how long it waits for another process that writes to the same file.
    """

    lanes = 1

    def __init__(self, path: str, clock: Clock | None = None, *, patience: str = PATIENCE) -> None:
        self._database = database = SqliteDatabase(path, clock or SystemClock(), patience=patience)
        self.instances = SqliteInstances(database)
        self.history = SqliteHistory(database)
        self.events = SqliteEvents(database)
        self.timers = SqliteTimers(database)
        self.work = SqliteWork(database)
        self.asks = SqliteAsks(database)
        self.leases = SqliteLeases(database)
        self.messages = SqliteMessages(database)
        self.letters = SqliteLetters(database)
        self.charts = SqliteCharts(database)
        self.keys = SqliteKeys(database)
        self.nodes = SqliteNodes(database)
        self.requests = SqliteRequests(database)
        self._commands = {
            **self.instances.commands,
            **self.work.commands,
            **self.letters.commands,
            **self.keys.commands,
        }

    async def open(self) -> None:
        """Connect; raises SchemaError if the schema is not the one that this version needs."""
        database = self._database
        await database.writer.start()
        try:
            schema = SqliteSchema(database.writer)
            await (migrate.up(schema) if database.in_memory else migrate.check(schema, database.address))
            await database.writer.call(Connection.write_ahead)
            await database.reader.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._database.close()
        self.leases.close()

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""
        now = self._database.now
        await self._database.writer.call(lambda held: run_unit(held, unit, now, self._commands))

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; `done` is called on the event loop when it has ended."""
        self._database.writer.submit(
            lambda held: run_unit(held, unit, self._database.now, self._commands),
            lambda outcome: done(outcome[1]),
        )

    async def now(self) -> datetime:
        """The time of the store's clock."""
        return self._database.now()

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Nothing is heard: processes on one file do not call each other, and find what is new by looking."""

    async def announce(self, topics: Collection[str]) -> None:
        """Do nothing: processes that share a file find news by polling."""


class SqliteSchema:
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
async def sqlite_database(path: str, *, create: bool = True) -> AsyncIterator[SqliteSchema]:
    """A database to migrate; raises SchemaError if there is no file and `create` is False."""
    thread = SqliteThread(partial(Connection, path, patience=milliseconds(PATIENCE), create=create))
    await thread.start()
    try:
        yield SqliteSchema(thread)
    finally:
        await thread.stop()
