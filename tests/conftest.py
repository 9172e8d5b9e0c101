"""What tests of all parts share: an event loop for each, and one PostgreSQL for all."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from headway.store import migrate
from headway.store.address import database_at
from headway.store.postgres.store import postgres_database
from tests import fuzzing
from tests.store.postgres_server import PostgresServer

TABLES = (
    "chart_version instance history timer work ask ask_audience outbox forgotten consumer letter lease"
    " pace idempotency record counter api_key key_note node"
)
CLEAR_POSTGRES = "".join(f"DELETE FROM {table};" for table in TABLES.split())  # noqa: S608 - names of this code

# How long an example takes says something about the machine, and nothing about what is tested.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.register_profile("test", unhurried, derandomize=True)
settings.register_profile("fuzz", unhurried, derandomize=False, print_blob=True)
settings.load_profile("test" if fuzzing.ROUND is None else "fuzz")


@pytest.fixture
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
    runner = pyfuncitem.funcargs.get("runner") or pyfuncitem._request.getfixturevalue("runner")
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**arguments))
    return True


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


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """The address of a database without rows, on each kind of store."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/headway.db"
    address: str = request.getfixturevalue("postgres_address")
    return address


@pytest.fixture
def address(database: str, runner: asyncio.Runner) -> str:
    """The address of a migrated database without rows."""

    async def make() -> None:
        async with database_at(database, create=True) as opened:
            await migrate.up(opened)

    runner.run(make())
    return database
