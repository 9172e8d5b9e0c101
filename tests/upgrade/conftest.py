"""Upgrades are tried on each kind of store."""

from tests.engine.conftest import database  # noqa: F401 - a fixture
from tests.store.conftest import (  # noqa: F401 - fixtures that the one above asks for by name
    postgres_address,
    postgres_migrated,
    postgres_server,
)
