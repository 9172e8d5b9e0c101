"""The real server for readers of live events."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from headway.store import migrate
from headway.store.address import database_at
from tests.api.live.place import Place, placed


@pytest.fixture
def address(database: str, runner: asyncio.Runner) -> str:
    """A migrated database without rows."""

    async def make() -> None:
        async with database_at(database, create=True) as opened:
            await migrate.up(opened)

    runner.run(make())
    return database


@pytest.fixture
def place(address: str, runner: asyncio.Runner) -> Iterator[Place]:
    """A running service."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(placed(address)))
    runner.run(stack.aclose())
