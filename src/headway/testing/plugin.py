"""Fixtures for pytest, there wherever Headway is installed: `clock`, `journey` and `harness`."""

from __future__ import annotations

from functools import partial

import pytest

from headway.testing.clock import FakeClock
from headway.testing.harness import Harness
from headway.testing.journey import Journey


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test advances it."""
    return FakeClock()


@pytest.fixture
def journey(clock: FakeClock) -> partial[Journey]:
    """Begins the life of a chart on the test's clock: `journey(Expense, context={"receipt": "r.pdf"})`."""
    return partial(Journey, clock=clock)


@pytest.fixture
def harness(clock: FakeClock) -> partial[Harness]:
    """Makes nodes on the test's clock, for `async with` blocks: give it charts and settings of `Harness`."""
    return partial(Harness, clock=clock)
