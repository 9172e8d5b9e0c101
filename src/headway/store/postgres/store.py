"""The store on PostgreSQL, for many nodes: its time is the database's, on which all of them agree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from headway.clock import Clock
from headway.errors import StoreError
from headway.store import migrate
from headway.store.postgres.asks import PostgresAsks
from headway.store.postgres.charts import PostgresCharts
from headway.store.postgres.connection import ANNOUNCE, CHANNEL, Connection, Connections, Listener
from headway.store.postgres.database import PostgresDatabase, sorted_once
from headway.store.postgres.history import PostgresEvents, PostgresHistory
from headway.store.postgres.instances import PostgresInstances
from headway.store.postgres.keys import PostgresKeys
from headway.store.postgres.leases import PostgresLeases, PostgresNodes
from headway.store.postgres.letters import PostgresLetters
from headway.store.postgres.messages import PostgresMessages
from headway.store.postgres.requests import KeyLocks, PostgresRequests
from headway.store.postgres.tables import NOW
from headway.store.postgres.timers import PostgresTimers
from headway.store.postgres.unit import UncertainCommit, run_unit
from headway.store.postgres.work import PostgresWork
from headway.store.rows import Key
from headway.store.unit import Reads, Submissions, Unit

CONNECTIONS = 4
PLACE = "postgresql://…"  # the address may hold a password
TIME = f"SELECT {NOW}"


class PostgresStore(Submissions):
    """Keeps rows in the PostgreSQL database at an address; a `clock` takes the place of its time in tests."""

    lanes = 2

    def __init__(self, address: str, *, clock: Clock | None = None, pool_size: int = CONNECTIONS) -> None:
        super().__init__()
        self._database = database = PostgresDatabase(address, clock=clock, pool_size=pool_size)
        self._locks = KeyLocks()
        self._listener = Listener(address)
        self.instances = PostgresInstances(database)
        self.history = PostgresHistory(database)
        self.events = PostgresEvents(database)
        self.timers = PostgresTimers(database)
        self.work = PostgresWork(database)
        self.asks = PostgresAsks(database)
        self.leases = PostgresLeases(database, address)
        self.messages = PostgresMessages(database)
        self.letters = PostgresLetters(database)
        self.charts = PostgresCharts(database)
        self.keys = PostgresKeys(database)
        self.nodes = PostgresNodes(database)
        self.requests = PostgresRequests(database)
        self._commands = {
            **self.instances.commands,
            **self.work.commands,
            **self.letters.commands,
            **self.keys.commands,
        }

    async def open(self) -> None:
        """Connect; raises SchemaError if the schema is not the one that this version needs."""
        self._database.connections.open()
        try:
            await self._database.on_connection(
                lambda connection: migrate.check(PostgresSchema(connection), PLACE)
            )
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        self._database.connections.require_loop()
        await self._listener.close()
        await self.leases.close()
        await self._database.connections.close()

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""
        uncertain, wanted = UncertainCommit(), unit.begin()

        async def attempt(number: int) -> None:
            first = unit.begin() if number else wanted
            async with self._database.connections.connection() as connection:
                await run_unit(
                    connection,
                    unit,
                    first,
                    memory=self._database.memory,
                    uncertain=uncertain,
                    lock=number > 0,
                    commands=self._commands,
                )

        try:
            async with self._locks.hold(_keys(wanted)):
                await self._database.persist(attempt)
        except StoreError as error:
            if uncertain.error:
                raise uncertain.error from error
            raise

    async def now(self) -> datetime:
        """The database's time."""
        [(time,)] = await self._database.fetch(TIME, self._database.time())
        self._database.memory.clock.at_least(time)
        return time  # type: ignore[no-any-return]  # what the statement answers

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic that another process announces, until the store is closed."""
        with self._database.connections.call():
            await self._listener.listen(heard)

    async def announce(self, topics: Collection[str]) -> None:
        """Notify other processes on the same database; notifications may be lost."""
        if topics:
            await self._database.fetch(ANNOUNCE, CHANNEL, self._listener.name, sorted_once(topics))


class PostgresSchema:
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
async def postgres_database(address: str) -> AsyncIterator[PostgresSchema]:
    """A database to migrate."""
    connections = Connections(address, 1)
    connections.open()
    try:
        with connections.call():
            async with connections.connection() as connection:
                yield PostgresSchema(connection)
    finally:
        await connections.close()


def _keys(wanted: Reads) -> set[Key]:
    return wanted.instances | wanted.requests | wanted.counters | wanted.soon
