"""`headway doctor`: looks at all that a service needs, and says how to mend what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.charts import write
from headway.cli.checks import CHECKS, Check, Patient
from headway.cli.failure import CommandError
from headway.cli.formats import as_json
from headway.cli.options import App, Config, Database, Json, configured
from headway.cli.present import out, table_of
from headway.cli.progress import progress
from headway.cli.serve import Port
from headway.codec import to_data

MARKS = {
    "ok": ("✓", "bold green"),
    "warning": ("!", "bold yellow"),
    "error": ("✗", "bold red"),
    "skipped": ("–", "dim"),
}


def doctor(
    *,
    port: Port = None,
    app: App = None,
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Check settings, lifecycles, database, versions, clock, disk, issuers, destinations and port.

    Exit code 1: one is wrong.
    """
    checks = _examined(config, quiet=json, port=port, app=app, database=database)
    if json:
        write(as_json({"ok": _is_well(checks), "checks": to_data(checks)}))
    else:
        out().print(_table(checks))
    if not _is_well(checks):
        raise typer.Exit(1)


def _examined(config: str | None, *, quiet: bool, **options: Any) -> list[Check]:
    try:
        found = configured(config, **options)
    except CommandError as error:
        return [Check("settings", "error", str(error), "headway config shows what there is")]
    chosen = sorted({each.source for each in found.values()} - {"default"})
    first = Check("settings", "ok", f"from {', '.join(chosen)}" if chosen else "all are the defaults")

    async def examine() -> list[Check]:
        with progress("Checking", len(CHECKS), quiet=quiet) as seen:
            checks = [first]
            async for check in Patient(found.settings).examine():
                checks.append(check)
                seen(len(checks) - 1)
        return checks

    return asyncio.run(examine())


def _is_well(checks: Sequence[Check]) -> bool:
    return all(check.verdict != "error" for check in checks)


def _table(checks: Sequence[Check]) -> Table:
    table = table_of("", "", "")
    table.show_header = False
    for check in checks:
        said = Text(check.said, "dim" if check.verdict in {"ok", "skipped"} else "")
        if check.fix:
            said.append(f"\n→ {check.fix}", "cyan")
        table.add_row(Text(*MARKS[check.verdict]), Text(check.name, "bold"), said)
    return table
