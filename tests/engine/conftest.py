"""A database for those that follow its log."""

import asyncio

import pytest

from headway.store import migrate
from headway.store.address import database_at


@pytest.fixture
def address(database: str, runner: asyncio.Runner) -> str:
    """A migrated database without rows."""

    async def make() -> None:
        async with database_at(database, create=True) as opened:
            await migrate.up(opened)

    runner.run(make())
    return database
