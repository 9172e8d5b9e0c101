"""Brings a database's schema to the version that this code needs, by numbered files of SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import resources
from typing import Any, NamedTuple, Protocol

from headway.clock import Clock, SystemClock
from headway.errors import SchemaError, StoreError

FILE = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.(?P<way>up|down)\.sql")
COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info('schema_version')",
    "postgres": "SELECT attname FROM pg_attribute"
    " WHERE attrelid = to_regclass('schema_version') AND attnum > 0 AND NOT attisdropped",
}
"""The columns of the table of applied migrations; none if there is no such table."""
TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    " ORDER BY name",
    # A server's database is often shared, each program with tables of its own.
    "postgres": "SELECT 'nothing' WHERE FALSE",
}
"""The tables that must not exist before the first migration: they belong to another program."""
MOST_NAMED = 5
MAKE_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_version (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at TEXT NOT NULL
);
"""
APPLIED = "SELECT version, name, checksum, applied_at FROM schema_version ORDER BY version"


class Database(Protocol):
    """What the migrations need of a database; raises StoreError and its kin."""

    dialect: str
    """The folder of its migrations: sqlite or postgres."""

    async def execute(self, sql: str) -> object:
        """Run statements, separated by semicolons, in one transaction."""

    async def fetch(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows a query answers with."""


class Migration(NamedTuple):
    """One migration of the schema, up and down."""

    version: int
    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        """A hash of the file, to find changes after it was applied."""
        return sha256(self.up.encode()).hexdigest()


class AppliedMigration(NamedTuple):
    """A migration that was applied to a database."""

    version: int
    name: str
    checksum: str
    applied_at: str


class Status(NamedTuple):
    """The applied and the pending migrations of a database."""

    applied: tuple[AppliedMigration, ...]
    pending: tuple[Migration, ...]


def migrations(dialect: str) -> tuple[Migration, ...]:
    """The migrations of this version, in order; raises SchemaError if their files are inconsistent."""
    folder = resources.files(__package__) / "migrations" / dialect
    return ordered({file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()})


def ordered(files: Mapping[str, str]) -> tuple[Migration, ...]:
    """Files as steps: numbered from 1 without a gap, each with its way up and its way down."""
    named = [match for name in sorted(files) if (match := FILE.fullmatch(name))]
    steps = {(int(match["version"]), match["name"]): match["version"] for match in named}
    if [version for version, _ in steps] != [*range(1, len(steps) + 1)]:
        raise SchemaError(f"the migrations are not numbered from 1 without a gap: {', '.join(sorted(files))}")
    return tuple(
        Migration(version, name, *(_text(files, f"{number}_{name}.{way}.sql") for way in ("up", "down")))
        for (version, name), number in steps.items()
    )


async def status(database: Database) -> Status:
    """What was applied and what is pending.

    Raises SchemaError if they are inconsistent, and for a database that is not Headway's.
    """
    known = migrations(database.dialect)
    applied = await _applied(database)
    _compare(applied, known)
    return Status(applied, known[len(applied) :])


async def check(database: Database, address: str) -> None:
    """Raises SchemaError unless the schema is current; its text has the command that migrates `address`."""
    if pending := (await status(database)).pending:
        raise SchemaError(
            f"the database's schema is at version {pending[0].version - 1} and this Headway needs version"
            f" {pending[-1].version}: run `headway db up --database {address}`"
        )


async def up(database: Database, clock: Clock | None = None) -> Sequence[Migration]:
    """Apply pending migrations, each in a transaction of its own; returns them."""
    taken: list[Migration] = []
    while pending := (await status(database)).pending:
        try:
            await database.execute(_upward(pending[0], (clock or SystemClock()).now().isoformat()))
            taken.append(pending[0])
        except StoreError:
            if (await status(database)).pending == pending:  # nobody else took the step at the same time
                raise
    return taken


async def down(database: Database, to: int) -> Sequence[Migration]:
    """Revert the migrations after a version, the last first; returns them."""
    known = migrations(database.dialect)
    back = [
        known[each.version - 1] for each in reversed((await status(database)).applied) if each.version > to
    ]
    for step in back:
        await database.execute(f"{step.down}\n;DELETE FROM schema_version WHERE version = {step.version};")
    return back


def _text(files: Mapping[str, str], name: str) -> str:
    if name not in files:
        raise SchemaError(f"the migration {name} is missing")
    return files[name]


async def _applied(database: Database) -> tuple[AppliedMigration, ...]:
    columns = await _columns(database)
    if not columns:
        others = [name for (name,) in await database.fetch(TABLES[database.dialect])]
        columns = await _columns(database)  # another process may have migrated it in this moment
        if not columns and others:
            raise _foreign(others)
    if not columns:
        return ()
    if not columns.issuperset(AppliedMigration._fields):
        raise SchemaError(
            f"this is not a Headway database: its table schema_version has the columns"
            f" {', '.join(sorted(columns))}. Name another database"
        )
    return tuple(AppliedMigration(*row) for row in await database.fetch(APPLIED))


async def _columns(database: Database) -> set[str]:
    return {name for (name,) in await database.fetch(COLUMNS[database.dialect])}


def _foreign(tables: Sequence[str]) -> SchemaError:
    """The error for a database that another program uses."""
    more = f" and {len(tables) - MOST_NAMED} more" if len(tables) > MOST_NAMED else ""
    return SchemaError(
        f"this is not a Headway database: it has the tables {', '.join(tables[:MOST_NAMED])}{more}."
        " Name another file, which is made when it is not there"
    )


def _compare(applied: Sequence[AppliedMigration], known: Sequence[Migration]) -> None:
    if [each.version for each in applied] != [*range(1, len(applied) + 1)]:
        raise SchemaError(
            f"a step of the database's schema is missing: it has {[each.version for each in applied]}"
        )
    if len(applied) > len(known):
        raise SchemaError(
            f"the database's schema is at version {len(applied)} and this Headway knows only {len(known)}:"
            " install the version of Headway whose `headway db up` was run last"
        )
    for done, step in zip(applied, known, strict=False):
        if (done.name, done.checksum) != (step.name, step.checksum):
            raise SchemaError(
                f"migration {step.version} ({step.name}) has changed since {done.applied_at}:"
                " put it back, write a new one, and run `headway db up`"
            )


def _upward(step: Migration, at: str) -> str:
    """The version's row comes first: of two processes that migrate at once, the second stops there."""
    row = f"({step.version}, '{step.name}', '{step.checksum}', '{at}')"
    insert = f"INSERT INTO schema_version (version, name, checksum, applied_at) VALUES {row};"
    return f"{MAKE_VERSIONS}{insert}\n{step.up}"
