"""Databases that a run may ruin: a SQLite file, or a PostgreSQL server of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from headway.store import migrate
from headway.store.address import database_at
from tests.store.postgres_server import PostgresServer


class Place(NamedTuple):
    """Where the rows are, and the server that can be killed, if there is one."""

    address: str
    server: PostgresServer | None = None

    @property
    def kind(self) -> str:
        """Which kind of store it is."""
        return "sqlite" if self.server is None else "postgres"

    async def prepare(self) -> None:
        """Make the tables."""
        async with database_at(self.address, create=True) as database:
            await migrate.up(database)


@contextmanager
def place_of(store: str, folder: Path) -> Iterator[Place]:
    """A database of a kind, as long as it is needed."""
    if store == "sqlite":
        yield Place(f"sqlite:///{folder}/headway.db")
        return
    with PostgresServer() as server:
        yield Place(server.new_database(), server)
