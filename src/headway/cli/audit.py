"""The commands about the journal: verify."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from headway.cli.charts import write
from headway.cli.db import DEFAULT, Url
from headway.cli.formats import as_json
from headway.cli.present import out
from headway.codec import to_data
from headway.engine.audit import Audit, Flaw
from headway.store.address import store_at

MOST_FLAWS = 1_000

audit = typer.Typer(help="Audit the journal: verify.", no_args_is_help=True)


@audit.callback()
def group() -> None:
    """Audit the journal: verify."""


@audit.command()
def verify(
    database: Url = DEFAULT,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Find what the engine did not write, in histories, rows and charts. Exit code 1: there is something."""
    found, done = asyncio.run(_verified(database))
    if json:
        write(as_json({"instances": done.instances, "lines": done.lines, "flaws": to_data(found)}))
    else:
        for flaw in found:
            out().print(f"[red]✗[/red] {flaw}")
        verdict = f"[red]{len(found)} flaws[/red]" if found else "[green]✓ nothing was tampered with[/green]"
        out().print(f"{verdict} in {done.lines:,} lines of {done.instances:,} instances")
    if found:
        raise typer.Exit(1)


async def _verified(database: str) -> tuple[list[Flaw], Audit]:
    store = store_at(database)
    await store.open()
    try:
        done = Audit(store)
        found = []
        async for flaw in done.everything():
            found.append(flaw)
            if len(found) == MOST_FLAWS:
                break
        return found, done
    finally:
        await store.close()
