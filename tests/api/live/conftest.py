"""The real server for readers of live events."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.api.live.place import Place, placed


@pytest.fixture
def place(address: str, runner: asyncio.Runner) -> Iterator[Place]:
    """A running service."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(placed(address)))
    runner.run(stack.aclose())
