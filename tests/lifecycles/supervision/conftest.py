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


@pytest.fixture
def careful(tmp_path: object, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service on SQLite that carries each safe point into the worker's data."""
    yield from _running(f"sqlite:///{tmp_path}/headway.db", runner, carried_every=0)


def _running(
    database: str, runner: asyncio.Runner, clock: Ahead | None = None, carried_every: float = 60
) -> Iterator[Service]:
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, clock, carried_every=carried_every)))
    runner.run(stack.aclose())
