"""Which store an address means: `sqlite:///file.db`, `sqlite:///:memory:` or `postgresql://user@host/name`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from headway.clock import Clock
from headway.errors import InputError
from headway.store.migrate import Database
from headway.store.port import Store
from headway.store.sqlite.store import SqliteStore, sqlite_database

POSTGRES = frozenset({"postgresql", "postgres"})


def store_at(address: str, *, clock: Clock | None = None) -> Store:
    """The store at an address; raises InputError. A clock takes the place of its time in tests."""
    path = sqlite_path(address)
    if path is not None:
        return SqliteStore(path, clock)
    store: Store = _postgres().PostgresStore(address, clock=clock)
    return store


def database_at(address: str, *, create: bool = False) -> AbstractAsyncContextManager[Database]:
    """The database at an address, to migrate; raises InputError. A missing SQLite file may be made."""
    path = sqlite_path(address)
    if path is not None:
        return sqlite_database(path, create=create)
    database: AbstractAsyncContextManager[Database] = _postgres().postgres_database(address)
    return database


def sqlite_path(address: str) -> str | None:
    """The file of an address that means one; None for a server's. Raises InputError."""
    kind, separator, place = address.partition("://")
    if kind == "sqlite" and place.startswith("/") and len(place) > 1:
        return place[1:]
    if kind in POSTGRES and separator:
        return None
    raise InputError(f"{address} is no database: name sqlite:///file.db or postgresql://user@host/name")


def _postgres() -> Any:
    try:
        from headway.store.postgres import store as postgres  # noqa: PLC0415 - asyncpg may be absent
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headway"):
            raise
        raise InputError(f'PostgreSQL needs {error.name}: pip install "headway[postgres]"') from error
    return postgres
