"""The service of task runs on each kind of store."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.lifecycles.task_runs.place import Office, office_at
from tests.lifecycles.task_runs.team import calls, runners


@pytest.fixture
def office(database: str, runner: asyncio.Runner) -> Iterator[Office]:
    """A running service with the team's runners; its client is a user of the tenant `default`."""
    calls.clear()
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(office_at(database, runners)))
    runner.run(stack.aclose())
