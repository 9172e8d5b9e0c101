"""The commands about the journal: verify, checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.db import DEFAULT, Url
from headway.cli.output import CommandError, as_json, errors_to, out, write
from headway.codec import to_data
from headway.engine.audit.audit import Audit, Flaw
from headway.engine.audit.checkpoint import Checkpoint, Head, lines_of
from headway.errors import InputError
from headway.store.address import store_at

MOST_FLAWS = 1_000

audit = typer.Typer(help="Audit the journal: verify, checkpoint.", no_args_is_help=True)


@audit.callback()
def group() -> None:
    """Audit the journal: verify, checkpoint."""


@audit.command()
def verify(
    database: Url = DEFAULT,
    *,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A checkpoint to compare the database with.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Find history lines, rows and charts that were changed outside the engine. Exit code 1: some were."""
    checkpoint = None if against is None else _read(against)
    found, done, _ = asyncio.run(_verified(database, checkpoint))
    pruned = {} if checkpoint is None else {"pruned": checkpoint.pruned}
    if json:
        write(as_json({"instances": done.instances, "lines": done.lines, "flaws": to_data(found), **pruned}))
    else:
        for flaw in found:
            out().print(f"[red]✗[/red] {flaw}")
        verdict = f"[red]{len(found)} flaws[/red]" if found else "[green]✓ nothing was tampered with[/green]"
        out().print(f"{verdict} in {done.lines:,} lines of {done.instances:,} instances")
        if checkpoint is not None:
            out().print(f"{checkpoint.pruned:,} instances of the checkpoint were pruned since")
    if found:
        raise typer.Exit(1)


@audit.command()
def checkpoint(database: Url = DEFAULT) -> None:
    """Verify, and print the end of every journal. Keep it where no writer of the database can change it."""
    heads: dict[tuple[str, str], Head] = {}

    def keep(head: Head) -> None:
        heads[head.tenant, head.instance] = head

    found, _, at = asyncio.run(_verified(database, None, keep))
    if found:
        for flaw in found:
            errors_to().print(f"✗ {flaw}", markup=False)
        raise CommandError("the database has flaws, so no checkpoint was written; see headway audit verify")
    for line in lines_of([*heads.values()], at):
        write(f"{line.decode()}\n")


def _read(file: Path) -> Checkpoint:
    try:
        with file.open("rb") as lines:
            return Checkpoint.read(lines)
    except (OSError, InputError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error


async def _verified(
    database: str, against: Checkpoint | None, seen: Callable[[Head], None] = lambda _: None
) -> tuple[list[Flaw], Audit, datetime]:
    store = store_at(database)
    await store.open()
    try:
        at = await store.now()
        done = Audit(store, against=against, seen=seen)
        found = []
        async for flaw in done.everything():
            found.append(flaw)
            if len(found) == MOST_FLAWS:
                break
        return found, done, at
    finally:
        await store.close()
