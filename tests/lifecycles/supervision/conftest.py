"""Supervision that really runs, on each kind of store."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.clocks import Ahead
from tests.lifecycles.supervision.serving import Service, serving


@pytest.fixture
def everywhere(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service, once on SQLite and once on PostgreSQL."""
    yield from _running(database, runner)


@pytest.fixture
def service(tmp_path: object, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service on SQLite, whose clock can be set ahead."""
    yield from _running(f"sqlite:///{tmp_path}/headway.db", runner, Ahead())


def _running(database: str, runner: asyncio.Runner, clock: Ahead | None = None) -> Iterator[Service]:
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, clock)))
    runner.run(stack.aclose())
