"""Plays scenarios on each kind of store."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headway.store import migrate
from headway.store.address import database_at
from tests.upgrade.world import Played, World


@pytest.fixture
def played(database: str) -> Played:
    """Plays a scenario on each kind of store."""

    async def play(scenario: Callable[[World], Awaitable[None]]) -> None:
        async with database_at(database, create=True) as opened:
            await migrate.up(opened)
        await scenario(World(database))

    return lambda scenario: asyncio.run(play(scenario))
