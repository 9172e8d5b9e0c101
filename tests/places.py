"""Places for rows: each kind of store has a factory here."""

from collections.abc import Callable

import pytest

from headway.store import migrate
from headway.store.postgres.store import PostgresStore
from headway.store.sqlite.store import SqliteStore, sqlite_database
from headway.testing import FakeClock
from headway.testing.memory import MemoryStore, Tables
from tests.store.contract.place import Place

Factory = Callable[[pytest.FixtureRequest], Place]


def sqlite_file(request: pytest.FixtureRequest) -> Place:
    """A migrated file, and a clock that stands still."""
    path = str(request.getfixturevalue("tmp_path") / "headway.db")
    clock: FakeClock = request.getfixturevalue("clock")

    async def make() -> None:
        async with sqlite_database(path) as database:
            await migrate.up(database)

    request.getfixturevalue("runner").run(make())
    return Place(lambda clock=clock: SqliteStore(path, clock))


def sqlite_memory(request: pytest.FixtureRequest) -> Place:
    """Memory, which one store has for itself."""
    clock: FakeClock = request.getfixturevalue("clock")
    return Place(lambda clock=clock: SqliteStore(":memory:", clock), shared=False)


def postgres(request: pytest.FixtureRequest) -> Place:
    """A database without rows, whose time goes on."""
    address: str = request.getfixturevalue("postgres_address")
    return Place(lambda clock=None: PostgresStore(address, clock=clock))


def memory(request: pytest.FixtureRequest) -> Place:
    """Tables of the simulation, which several stores share."""
    clock: FakeClock = request.getfixturevalue("clock")
    tables = Tables()
    return Place(lambda clock=clock: MemoryStore(tables, clock))


FACTORIES: dict[str, Factory] = {
    "memory": memory,
    "sqlite-file": sqlite_file,
    "sqlite-memory": sqlite_memory,
    "postgres": postgres,
}
