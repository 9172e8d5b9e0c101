"""Where the messages of a test stand."""

import asyncio
from collections.abc import Iterator

import pytest

from headway.store.port import Store
from headway.testing import FakeClock
from tests.places import FACTORIES
from tests.store.contract.place import Place


@pytest.fixture(params=["sqlite-file", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of store that several processes can share."""
    return FACTORIES[request.param](request)


@pytest.fixture
def store(place: Place, clock: FakeClock, runner: asyncio.Runner) -> Iterator[Store]:
    """An opened store whose time is the test's."""
    store = place.store(clock)
    runner.run(store.open())
    yield store
    runner.run(store.close())
