"""Where the workers of a test find their work."""

import pytest

from headway.testing import FakeClock
from tests.places import FACTORIES
from tests.worker.world import World


@pytest.fixture
def world(request: pytest.FixtureRequest, clock: FakeClock) -> World:
    """A SQLite file; `everywhere` has the tests that depend on the store."""
    return World(FACTORIES["sqlite-file"](request), clock)


@pytest.fixture(params=["sqlite-file", "postgres"])
def everywhere(request: pytest.FixtureRequest, clock: FakeClock) -> World:
    """Each kind of store that several processes can share."""
    return World(FACTORIES[request.param](request), clock)
