"""The commands about asks: inbox and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.charts import write
from headway.cli.direct import actor, data_of, tell, with_tenant
from headway.cli.formats import as_json
from headway.cli.lives import when
from headway.cli.options import (
    App,
    By,
    Config,
    Data,
    Database,
    Json,
    Reason,
    RequestId,
    Roles,
    Tenant,
    settings_of,
)
from headway.cli.present import out, show_table, table_of
from headway.codec import decode, to_data
from headway.store.rows import AskRow


def inbox(
    *,
    by: Annotated[str, typer.Option("--by", metavar="ID", help="Whose inbox.")] = "operator",
    role: Roles = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most.")] = 50,
    tenant: Tenant = None,
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List the open questions that somebody may answer, the oldest first."""
    settings = settings_of(config, tenant=tenant, database=database)
    asks = with_tenant(settings, lambda here: here.inbox(actor(by, role), limit=limit))
    if json:
        write(as_json([_as_data(ask) for ask in asks]))
    elif asks:
        show_table(_table(asks))
    else:
        out().print("[dim]Nothing is asked.[/]")


def answer(
    ask: Annotated[str, typer.Argument(metavar="ASK", help="The ask's id, as the inbox shows it.")],
    with_: Annotated[
        str, typer.Argument(metavar="[ANSWER]", help="One of its answers, such as approve.")
    ] = "answer",
    *,
    data: Data = None,
    by: By = "operator",
    role: Roles = None,
    reason: Reason = None,
    request_id: RequestId = None,
    app: App = None,
    tenant: Tenant = None,
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Answer a question. Exit code 1: the answer was refused, and nothing has changed."""
    settings = settings_of(config, tenant=tenant, database=database, app=app)
    given = data_of(data, "--data")
    told = with_tenant(
        settings,
        lambda here: here.answer(ask, with_, given, by=actor(by, role), reason=reason, request_id=request_id),
        charts=True,
    )
    tell(told, json=json)


def _as_data(ask: AskRow) -> dict[str, Any]:
    data: dict[str, Any] = to_data(ask)
    return data | {"shows": decode(object, ask.shows), "form": ask.form}


def _table(asks: Sequence[AskRow]) -> Table:
    table = table_of("Ask", "State", "Answers", "Until", "Shows", whole=("Ask", "Until"))
    for ask in asks:
        shows = decode(object, ask.shows)
        told = (
            ", ".join(f"{name} {value}" for name, value in shows.items()) if isinstance(shows, dict) else ""
        )
        table.add_row(
            ask.id,
            Text(ask.state, "bold cyan"),
            " or ".join(ask.answers),
            when(ask.deadline) if ask.deadline else "",
            Text(told),
        )
    return table
