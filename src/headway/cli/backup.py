"""The commands about copies of a database: backup, and restored."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.db import DEFAULT, Url
from headway.cli.failure import CommandError
from headway.cli.present import out
from headway.cli.progress import progress
from headway.store.address import database_at, sqlite_path
from headway.store.migrate import Database

PAGES_AT_ONCE = 1_000
IDS_AT_ONCE = 20_000
HIGHEST = """
SELECT greatest(
    (SELECT max(stamp) FROM history), (SELECT max(stamp) FROM outbox),
    (SELECT max(stamp) FROM instance), (SELECT max(stamp) FROM consumer), 0
)"""
CURRENT = "SELECT pg_current_xact_id()::text::bigint"
USE_UP = """
DO $$ BEGIN
    FOR number IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP;
END $$"""


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy to make; it must not exist.")],
    database: Url = DEFAULT,
) -> None:
    """Copy a SQLite database while it is in use. PostgreSQL has pg_dump and pg_basebackup for that."""
    path = sqlite_path(database)
    if path is None:
        raise CommandError("a PostgreSQL database is copied with pg_dump --format=custom, or pg_basebackup")
    if not Path(path).exists():
        raise CommandError(f"there is no database {path}")
    if file.exists():
        raise CommandError(f"{file} exists already")
    part = file.with_name(f"{file.name}.part")
    try:
        _copy(path, part)
        part.rename(file)
    except (sqlite3.Error, OSError) as error:
        part.unlink(missing_ok=True)
        raise CommandError(f"{file} cannot be written: {error}") from error
    out().print(f"copied {path} to {file}", markup=False)


def _copy(path: str, part: Path) -> None:
    with (
        closing(sqlite3.connect(path)) as source,
        closing(sqlite3.connect(part)) as target,
        progress("Copying", None, quiet=False) as seen,
    ):
        source.backup(target, pages=PAGES_AT_ONCE, progress=lambda _, left, total: seen(total - left))


def restored(database: Url = DEFAULT) -> None:
    """Make a PostgreSQL database usable that was restored from a dump: run it once, before the service.

    The log is ordered by ids of transactions, and a new server counts them from the beginning.
    """
    if sqlite_path(database) is not None:
        out().print("Nothing to do: a SQLite file is its own copy.")
        return
    used = asyncio.run(_caught_up(database))
    out().print(
        f"used up {used:,} transaction ids" if used else "Nothing to do: the server is ahead of the log."
    )


async def _caught_up(address: str) -> int:
    async with database_at(address) as database:
        target, begin = await _number(database, HIGHEST), await _number(database, CURRENT)
        now = begin
        with progress("Catching up", max(0, target - begin), quiet=False) as seen:
            await database.fetch("SET synchronous_commit = off")
            while now <= target:
                await database.fetch(USE_UP.format(count=min(IDS_AT_ONCE, target - now + 1)))
                now = await _number(database, CURRENT)
                seen(now - begin)
        return now - begin


async def _number(database: Database, sql: str) -> int:
    [[number]] = await database.fetch(sql)
    return int(number)


async def is_behind_its_log(database: Database) -> bool:
    """Whether a server counts transactions from below what its tables know: nobody would see what is new."""
    if database.dialect != "postgres":
        return False
    return await _number(database, HIGHEST) >= await _number(database, CURRENT)
