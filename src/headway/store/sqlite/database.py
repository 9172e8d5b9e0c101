"""A SQLite database: one thread writes to it and another reads, so that neither waits for the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from headway.clock import Clock, milliseconds
from headway.codec import encode
from headway.store.sqlite.connection import MEMORY, Connection, SqliteThread
from headway.store.sqlite.tables import Row, Table, to_time
from headway.store.unit import Command

T = TypeVar("T")

PATIENCE = "5s"
FEW_KEYS = 8
"""Up to here one look-up for each key is faster than one statement for all of them."""

Commands = Mapping[type[Command], Callable[[Connection, Any], Any]]
"""What runs each command of a noun in the transaction of a unit."""


class SqliteDatabase:
    """A file, or memory (":memory:") until it is closed; `clock` is its time."""

    def __init__(self, path: str, clock: Clock, *, patience: str = PATIENCE) -> None:
        self.path, self._clock = path, clock
        connect = partial(Connection, path, patience=milliseconds(patience))
        self.writer = SqliteThread(connect)
        # What stands in memory belongs to one connection.
        self.reader = self.writer if self.in_memory else SqliteThread(partial(connect, read_only=True))

    @property
    def in_memory(self) -> bool:
        """Whether it ends when it is closed, and no other process can use it."""
        return self.path == MEMORY

    @property
    def address(self) -> str:
        """As the command line names it."""
        return f"sqlite:///{self.path}"

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self.reader.stop()
        await self.writer.stop()

    def now(self) -> datetime:
        """The time of its clock."""
        return self._clock.now()

    def time(self) -> int:
        """The time of its clock as it is stored."""
        return to_time(self._clock.now())

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run a job that only reads."""
        return await self.reader.call(job)

    async def read_at_once(self, job: Callable[[Connection], T]) -> T:
        """Run a job that only reads, and sees everything at one time."""
        return await self.reader.call(lambda held: held.snapshot(job))

    async def write(self, job: Callable[[Connection], T]) -> T:
        """Run a job in a transaction."""
        return await self.writer.call(lambda held: held.transaction(job))

    async def fetch(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement answers with, as columns."""
        return await self.reader.call(lambda held: held.fetch(sql, values))

    async def rows(
        self, table: Table[Row], sql: str, values: Sequence[Any] | dict[str, Any] = ()
    ) -> list[Row]:
        """The rows of a table that a statement answers with."""
        return table.rows(await self.fetch(sql, values))

    async def row(self, table: Table[Row], key: Sequence[Any]) -> Row | None:
        """The row of a key."""
        return next(iter(await self.rows(table, table.select_one, key)), None)


def look_up(connection: Connection, table: Table[Row], keys: Collection[tuple[str, ...]]) -> list[Row]:
    """The rows of these keys that exist."""
    if not keys:
        return []
    if len(keys) > FEW_KEYS:
        return table.rows(connection.fetch(table.select_some, (encode([*keys]).decode(),)))
    return table.rows(row for key in keys for row in connection.fetch(table.select_one, key))
