"""The real server on a free port, on each kind of store."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.api.serving import Service, serving


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service of the sample charts; `service.client` has an admin key of the tenant `default`."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database)))
    runner.run(stack.aclose())
