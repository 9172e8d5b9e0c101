"""The engine's tests run on each kind of store."""

import pytest

from tests.store.conftest import (  # noqa: F401 - fixtures that those below ask for by name
    postgres_address,
    postgres_migrated,
    postgres_server,
)

DATABASES = ("sqlite", "postgres")


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """The address of a database without rows."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/headway.db"
    address: str = request.getfixturevalue("postgres_address")
    return address
