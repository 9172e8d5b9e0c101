"""The commands about the database: up, status, down, backup, restored."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from headway.cli.output import CommandError, as_json, out, progress, write
from headway.cli.settings import settings_of
from headway.errors import InputError
from headway.settings import ABOUT
from headway.store import migrate
from headway.store.address import database_at, sqlite_path
from headway.store.migrate import Database, Migration, Status

T = TypeVar("T")
PAGES_AT_ONCE = 1_000
PART = ".headway-part"
"""The suffix of an unfinished copy."""
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


db = typer.Typer(help="Manage the database: up, status, down, backup, restored.", no_args_is_help=True)


def _from_settings(database: str | None) -> str:
    return settings_of(database=database).database


Url = Annotated[
    str,
    typer.Option(
        "--database", metavar="URL", callback=_from_settings, show_default=False, help=ABOUT["database"]
    ),
]
DEFAULT: Any = None
"""Not given: the database of the settings."""


@db.command()
def up(database: Url = DEFAULT) -> None:
    """Migrate the schema to the version this Headway needs. A missing SQLite file is created."""
    steps = _with(database, migrate.up, create=True)
    _tell("applied", steps, "The schema is up to date.")


@db.command()
def status(
    database: Url = DEFAULT,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show applied and pending migrations. Exit code 1: some are pending."""
    found = _with(database, migrate.status)
    if json:
        write(as_json(_as_data(found)))
    else:
        out().print(_table(found))
    if found.pending:
        raise typer.Exit(1)


@db.command()
def down(
    database: Url = DEFAULT,
    *,
    to: Annotated[
        int | None,
        typer.Option(min=0, help="The version to go back to. Default: the one before the last."),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Do not ask for confirmation, although the data of the dropped tables is lost."
        ),
    ] = False,
) -> None:
    """Undo migrations, the last first. The data of the dropped tables is lost."""
    standing = len(_with(database, migrate.status).applied)
    target = max(0, standing - 1) if to is None else to
    if target < standing and not yes:
        typer.confirm(
            f"Go back from version {standing} to {target} and lose what stands in the tables?", abort=True
        )
    steps = _with(database, lambda opened: migrate.down(opened, target))
    _tell("took back", steps, "There was nothing to undo.")


def _with(url: str, job: Callable[[Database], Awaitable[T]], *, create: bool = False) -> T:
    async def run() -> T:
        async with database_at(url, create=create) as opened:
            return await job(opened)

    try:
        return asyncio.run(run())
    except InputError as error:
        raise CommandError(str(error)) from error


def _tell(done: str, steps: Sequence[Migration], nothing: str) -> None:
    for step in steps:
        out().print(f"{done} {step.version:04d} {step.name}")
    if not steps:
        out().print(nothing)


def _as_data(found: Status) -> list[dict[str, object]]:
    applied = [
        {"version": each.version, "name": each.name, "applied_at": each.applied_at} for each in found.applied
    ]
    return applied + [
        {"version": each.version, "name": each.name, "applied_at": None} for each in found.pending
    ]


def _table(found: Status) -> Table:
    table = Table("Version", "Migration", "Applied", box=None, pad_edge=False, header_style="dim")
    for each in _as_data(found):
        table.add_row(f"{each['version']:04d}", str(each["name"]), str(each["applied_at"] or "pending"))
    return table


@db.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
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
        raise CommandError(f"{file} already exists; name another file")


def _opened(part: Path, option: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{part.absolute().as_uri()}?{option}", uri=True, isolation_level=None)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@db.command()
def restored(database: Url = DEFAULT) -> None:
    """Prepare a PostgreSQL database that was restored from a dump: run it once, before the service.

    The log is ordered by transaction ids, and a new server counts them from the beginning.
    """
    if sqlite_path(database) is not None:
        out().print("Nothing to do: a restored SQLite file is ready to use.")
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
    """Whether the transaction ids of a server are behind its log: readers would miss new events."""
    if database.dialect != "postgres":
        return False
    return await _number(database, HIGHEST) >= await _number(database, CURRENT)
