"""`headway chart diff`: what has changed between two versions of a chart."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Annotated

import typer

from headway.cli.apps import charts_beside
from headway.cli.catalogue import Found, find
from headway.cli.charts import Json, write
from headway.cli.db import DEFAULT, Url
from headway.cli.failure import CommandError
from headway.cli.formats import as_json
from headway.cli.options import settings_of
from headway.cli.present import out
from headway.cli.present_upgrade import differences_of
from headway.codec import to_data
from headway.engine.upgrade.versions import stored_chart
from headway.statechart.upgrade.diff import differences
from headway.store.address import store_at
from headway.store.rows import ChartRow

STORED = "stored:"
HELP = "A registered name, module:Class, a file .json or .scxml, or stored:CHART@VERSION."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=f"The older version. {HELP}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The newer version, named in the same way.")],
    *,
    database: Url = DEFAULT,
    json: Json = False,
) -> None:
    """Show what has changed, and what it means for living instances. Exit code 1: a change needs a rule."""
    before, after = _found(old, database), _found(new, database)
    beside = charts_beside(new, settings_of(database=database)).charts
    newest = {chart.name: chart for chart in sorted(beside, key=attrgetter("version"))}
    found = differences(before.chart, after.chart, newest.values())
    names = tuple(f"{each.chart.name} v{each.chart.version}" for each in (before, after))
    safe = not any(each.meaning == "rule" for each in found)
    if json:
        write(as_json({"old": names[0], "new": names[1], "ok": safe, "differences": to_data(found)}))
    else:
        out().print(differences_of((names[0], names[1]), found))
    if not safe:
        raise typer.Exit(1)


def _found(name: str, database: str) -> Found:
    if not name.startswith(STORED):
        return find(name)
    wanted, _, version = name.removeprefix(STORED).rpartition("@")
    rows = asyncio.run(_stored(database))
    for row in rows:
        if row.chart == wanted and str(row.version) == version:
            return Found(name, stored_chart(row))
    known = ", ".join(f"{STORED}{row.chart}@{row.version}" for row in rows)
    raise CommandError(f"the database has no {name}; it has: {known or 'no charts'}")


async def _stored(database: str) -> list[ChartRow]:
    store = store_at(database)
    await store.open()
    try:
        return [*await store.charts.all()]
    finally:
        await store.close()
