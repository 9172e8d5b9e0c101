"""Places for rows: each kind of store has a factory here, and the contract runs on all of them."""

import asyncio
import inspect
from collections.abc import Callable, Iterator

import pytest

from headway.store import migrate
from headway.store.port import Store
from headway.store.postgres import PostgresStore, postgres_database
from headway.store.sqlite import SqliteStore, sqlite_database
from headway.testing import FakeClock
from headway.testing.memory import MemoryStore, Tables
from headway.testing.store_contract.place import Place
from tests.store.postgres_server import PostgresServer

pytest.register_assert_rewrite("headway.testing.store_contract")

TABLES = (
    "chart_version instance history timer work ask ask_audience outbox consumer letter lease pace idempotency"
    " record counter"
)
CLEAR_POSTGRES = "".join(f"DELETE FROM {table};" for table in TABLES.split())  # noqa: S608 - names of this code

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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for the session."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_migrated(postgres_server: PostgresServer) -> str:
    """The address of a migrated database."""
    address = postgres_server.new_database()

    async def make() -> None:
        async with postgres_database(address) as database:
            await migrate.up(database)

    asyncio.run(make())
    return address


@pytest.fixture
def postgres_address(postgres_migrated: str, runner: asyncio.Runner) -> str:
    """The address of a migrated database without rows."""

    async def clear() -> None:
        async with postgres_database(postgres_migrated) as database:
            await database.execute(CLEAR_POSTGRES)

    runner.run(clear())
    return postgres_migrated


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of a test and of its fixtures."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on its loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(params=FACTORIES)
def place(request: pytest.FixtureRequest) -> Place:
    """Where rows live, for each kind of store."""
    return FACTORIES[request.param](request)


@pytest.fixture
def store(place: Place, runner: asyncio.Runner) -> Iterator[Store]:
    """An opened store."""
    store = place.store()
    runner.run(store.open())
    yield store
    runner.run(store.close())
