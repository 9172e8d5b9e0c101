"""The contract of a store runs on each kind of them."""

import asyncio
from collections.abc import Iterator

import pytest

from headway.store.port import Store
from tests.places import FACTORIES
from tests.store.contract.place import Place


@pytest.fixture(params=FACTORIES)
def place(request: pytest.FixtureRequest) -> Place:
    """Where rows live, for each kind of store."""
    return FACTORIES[request.param](request)


@pytest.fixture
def store(place: Place, runner: asyncio.Runner) -> Iterator[Store]:
    """An opened store."""
    store = place.store()
    runner.run(store.open())
    yield store
    runner.run(store.close())
