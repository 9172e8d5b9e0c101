"""The commands about asks: inbox, answer and link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.calls import actor, data_of, tell_answer, with_tenant
from headway.cli.output import CommandError, as_json, out, show_table, table_of, when, write
from headway.cli.settings import (
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
from headway.codec import decode, to_data
from headway.engine.asks import LINK_LASTS
from headway.store.rows import AskRow


def inbox(
    *,
    by: Annotated[
        str, typer.Option("--by", metavar="ID", help="The person whose inbox is listed.")
    ] = "operator",
    role: Roles = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The largest number of items.")
    ] = 50,
    tenant: Tenant = None,
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """List the open asks that a person may answer, the oldest first."""
    settings = settings_of(config, tenant=tenant, database=database)
    asks = with_tenant(settings, lambda here: here.inbox(actor(by, role), limit=limit))
    if json:
        write(as_json([_as_data(ask) for ask in asks]))
    elif asks:
        show_table(_table(asks))
    else:
        out().print("[dim]The inbox is empty.[/]")


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
    """Answer an ask. Exit code 1: the answer was refused, and nothing changed."""
    settings = settings_of(config, tenant=tenant, database=database, app=app)
    given = data_of(data, "--data")
    tell_answer(
        settings,
        lambda here: here.answer(ask, with_, given, by=actor(by, role), reason=reason, request_id=request_id),
        json=json,
    )


def link(
    ask: Annotated[str, typer.Argument(metavar="ASK", help="The ask's id, as the inbox shows it.")],
    *,
    for_: Annotated[str, typer.Option("--for", metavar="ID", help="The person who answers by this link.")],
    role: Roles = None,
    lasts: Annotated[
        str, typer.Option("--lasts", metavar="DURATION", help="How long it is valid, such as 12h or 2d.")
    ] = LINK_LASTS,
    tenant: Tenant = None,
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Print the token of a link by which a person answers an ask once, without a login."""
    settings = settings_of(config, tenant=tenant, database=database)
    if not for_:
        raise CommandError("--for must name the person who answers")
    person = actor(for_, role)
    token = with_tenant(settings, lambda here: here.link(ask, for_=person, lasts=lasts))
    if json:
        write(as_json({"ask": ask, "person": person.id, "roles": sorted(person.roles), "token": token}))
    else:
        write(token)


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
