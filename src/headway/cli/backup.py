"""The commands about copies of a database: backup, and restored."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.db import DEFAULT, Url
from headway.cli.failure import CommandError
from headway.cli.present import out, progress
from headway.store.address import database_at, sqlite_path
from headway.store.migrate import Database

PAGES_AT_ONCE = 1_000
PART = ".headway-part"
"""How the name of a copy ends that is not finished."""
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
    """Copy a SQLite database while it is in use, and check the copy.

    PostgreSQL has pg_dump and pg_basebackup for that.
    """
    path = sqlite_path(database)
    if path is None:
        raise CommandError("a PostgreSQL database is copied with pg_dump --format=custom, or pg_basebackup")
    if not Path(path).exists():
        raise CommandError(f"there is no database {path}")
    try:
        _remove_abandoned(file.parent)
        with _part_of(file) as part:
            _copy(path, part)
            _verify(part)
            _publish(part, file)
    except (sqlite3.Error, OSError) as error:
        raise CommandError(f"{file} cannot be written: {error}") from error
    out().print(f"copied {path} to {file}", markup=False)


@contextmanager
def _part_of(file: Path) -> Iterator[Path]:
    """The file to copy to before it gets its name: locked for the block, and deleted at the end if it exists.

    The lock tells other backups that it is in use; the system releases it when this process dies.
    """
    _require_new(file)
    part = file.with_name(file.name + PART)
    descriptor = os.open(part, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        if not _is_ours(descriptor, part):
            raise CommandError(f"another backup to {file} is under way")
        os.ftruncate(descriptor, 0)
        yield part
    finally:
        if _is_ours(descriptor, part):
            part.unlink()
        os.close(descriptor)


def _is_ours(descriptor: int, part: Path) -> bool:
    """Lock an open file; whether we hold the lock, and the path still names that file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), part.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _remove_abandoned(folder: Path) -> None:
    """Delete what killed backups have left in a folder; what a running one writes is locked, and stays."""
    for part in folder.glob(f"*{PART}"):
        with suppress(OSError):  # it belongs to somebody else
            descriptor = os.open(part, os.O_RDWR)
            try:
                if _is_ours(descriptor, part):
                    part.unlink()
            finally:
                os.close(descriptor)


def _copy(path: str, part: Path) -> None:
    """Copy all pages as they are at one moment.

    The read transaction keeps that moment: without it, each write of the service would start the copy over.
    """
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as source,
        closing(_opened(part, "nolock=1")) as target,
    ):
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()  # BEGIN alone does not read yet
        [pages] = source.execute("PRAGMA page_count").fetchone()
        # Whatever fails, the part is deleted: it needs no journal, and is synced once.
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        with progress("Copying", pages, quiet=False) as seen:
            source.backup(target, pages=PAGES_AT_ONCE, progress=lambda _, left, total: seen(total - left))


def _verify(part: Path) -> None:
    """Raise CommandError if a copy is damaged: then the database is, or the disk it was written to."""
    with (
        closing(_opened(part, "immutable=1")) as copy,
        progress("Checking", None, quiet=False),
    ):
        [said] = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if said != "ok":
        raise CommandError(f"the copy is damaged, and was deleted. SQLite says: {said}")


def _publish(part: Path, file: Path) -> None:
    """Give a finished copy its name, once all of it is on the disk."""
    _sync(part)
    _require_new(file)
    part.rename(file)
    _sync(file.parent)


def _require_new(file: Path) -> None:
    if file.exists():
        raise CommandError(f"{file} exists already")


def _opened(part: Path, option: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{part.absolute().as_uri()}?{option}", uri=True, isolation_level=None)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
