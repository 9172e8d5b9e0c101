"""Where the rows of the engine suite are: SQLite files, and a PostgreSQL of its own with fsync on."""

import asyncio
import gc
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.engine.charts import CHARTS
from bench.harness import Unavailable
from headway.cli.service import calm_collector, fast_runner
from headway.engine.engine import Engine
from headway.store import migrate
from headway.store.postgres.store import PostgresStore, postgres_database
from headway.store.sqlite.store import SqliteStore, sqlite_database
from tests.store.postgres_server import PostgresServer, binaries

T = TypeVar("T")


class Place(Protocol):
    """A database with the schema of Headway in it."""

    address: str

    def engine(self) -> Engine:
        """An engine on it, not open yet."""


class SqlitePlace:
    """A file."""

    def __init__(self, address: str) -> None:
        self.address = address

    def engine(self) -> Engine:
        """An engine on it, not open yet."""
        return Engine(SqliteStore(self.address), CHARTS)


class PostgresPlace:
    """A database of a server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def engine(self) -> Engine:
        """An engine on it, not open yet."""
        return Engine(PostgresStore(self.address), CHARTS)


def place_at(address: str) -> Place:
    """The place of an address."""
    return PostgresPlace(address) if "://" in address else SqlitePlace(address)


class Places:
    """Makes places and event loops, and takes all of them away at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._made = 0

    def close(self) -> None:
        """Close what is open, the last first."""
        self._stack.close()

    @cached_property
    def folder(self) -> Path:
        """A folder on a disk, for everything."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-bench-")))

    @cached_property
    def server(self) -> PostgresServer:
        """A server; raises Unavailable when there is no PostgreSQL on this machine."""
        try:
            return self._stack.enter_context(PostgresServer())
        except FileNotFoundError as error:
            raise Unavailable(str(error)) from error

    @cached_property
    def loop(self) -> asyncio.Runner:
        """The loop on which all engines run, in a process that is as `headway serve` makes its own."""
        self._stack.callback(gc.set_threshold, *gc.get_threshold())
        self._stack.callback(gc.unfreeze)
        calm_collector()
        return self._stack.enter_context(fast_runner())

    def enter(self, context: AbstractContextManager[T]) -> T:
        """What a context gives, until the end."""
        return self._stack.enter_context(context)

    def at_end(self, close: Callable[[], None]) -> None:
        """Do something at the end, before what was done earlier is closed."""
        self._stack.callback(close)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end."""
        return self.loop.run(work)

    def new_folder(self) -> Path:
        """A folder with nothing in it."""
        self._made += 1
        folder = self.folder / str(self._made)
        folder.mkdir()
        return folder

    def place(self, store: str) -> Place:
        """A new database of a kind of store."""
        return self.sqlite() if store == "sqlite" else self.postgres()

    def sqlite(self) -> SqlitePlace:
        """A new file."""
        place = SqlitePlace(str(self.new_folder() / "headway.db"))
        self.run(_migrate(sqlite_database(place.address)))
        return place

    def postgres(self) -> PostgresPlace:
        """A new database of the server."""
        place = PostgresPlace(self.server.new_database())
        self.run(_migrate(postgres_database(place.address)))
        return place

    def open(self, place: Place) -> Engine:
        """An engine that is open until the end."""
        engine = place.engine()
        self.run(engine.open())
        self.at_end(lambda: self.run(engine.close()))
        return engine

    def pgbench(self) -> Path:
        """The program; raises Unavailable when it is missing."""
        self.server  # noqa: B018 - without a server there is nothing to ask
        program = binaries() / "pgbench"
        if not program.exists():
            raise Unavailable("this PostgreSQL comes without pgbench")
        return program


async def _migrate(opening: Any) -> None:
    async with opening as database:
        await migrate.up(database)
