"""The commands about the database's schema: up, status, down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from headway.cli.charts import write
from headway.cli.failure import CommandError
from headway.cli.formats import as_json
from headway.cli.options import settings_of
from headway.cli.present import out
from headway.errors import InputError
from headway.settings import ABOUT
from headway.store import migrate
from headway.store.address import database_at
from headway.store.migrate import Database, Migration, Status

T = TypeVar("T")

db = typer.Typer(help="Keep the database: up, status, down, backup, restored.", no_args_is_help=True)


def _from_settings(database: str | None) -> str:
    return settings_of(database=database).database


Url = Annotated[
    str,
    typer.Option(
        "--database", metavar="URL", callback=_from_settings, show_default=False, help=ABOUT["database"]
    ),
]
DEFAULT: Any = None
"""No address: the one of the settings."""


@db.command()
def up(database: Url = DEFAULT) -> None:
    """Bring the schema to the version this Headway needs; a SQLite file is made when it is missing."""
    steps = _with(database, migrate.up, create=True)
    _tell("applied", steps, "The schema is up to date.")


@db.command()
def status(
    database: Url = DEFAULT,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show which migrations were applied and which are pending. Exit code 1: some are pending."""
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
        typer.Option(min=0, help="The version to go back to; the one before the last if none is given."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask, although what the tables hold is lost.")
    ] = False,
) -> None:
    """Take migrations back, the last first. What stood in their tables is lost."""
    standing = len(_with(database, migrate.status).applied)
    target = max(0, standing - 1) if to is None else to
    if target < standing and not yes:
        typer.confirm(
            f"Go back from version {standing} to {target} and lose what stands in the tables?", abort=True
        )
    steps = _with(database, lambda opened: migrate.down(opened, target))
    _tell("took back", steps, "There was nothing to take back.")


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
