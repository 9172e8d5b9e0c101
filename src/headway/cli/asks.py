"""The commands about asks: inbox, answer and link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.calls import actor, data_of, tell_answer, with_node, with_tenant
from headway.cli.options import AppTarget, Author, Limit, Target, with_options
from headway.cli.output import CommandError, as_json, listed, out, show_table, table_of, when, write
from headway.cli.settings import Data, Reason, RequestId, Roles
from headway.codec import decode, to_data
from headway.engine.asks import LINK_LASTS, MOST_READ
from headway.node import Node
from headway.statechart.people import AUDIENCE
from headway.statechart.snapshot import Actor
from headway.store.queries import AskQuery
from headway.store.rows import AskRow

Ask = Annotated[str, typer.Argument(metavar="ASK", help="The ask's id, as the inbox shows it.")]
MOST_NAMED = 10
"""The largest number of roles and people that an empty inbox names."""


@with_options
def inbox(
    *,
    by: Annotated[
        str, typer.Option("--by", metavar="ID", help="The person whose inbox is listed.")
    ] = "operator",
    role: Roles = None,
    limit: Limit = 50,
    target: Target,
) -> None:
    """List the open asks that a person may answer, the oldest first."""
    asks, others = with_node(target.settings, lambda node: _inbox(node, target, actor(by, role), limit))
    if target.json:
        write(as_json([_as_data(ask) for ask in asks]))
    elif asks:
        show_table(_table(asks))
    else:
        out().print("[dim]The inbox is empty.[/]")
        if others:
            out().print(f"Asks are open for others: see them with {listed(others)}", markup=False)


@with_options
def answer(
    ask: Ask,
    with_: Annotated[
        str, typer.Argument(metavar="[ANSWER]", help="One of its answers, such as approve.")
    ] = "answer",
    *,
    data: Data = None,
    author: Author,
    reason: Reason = None,
    request_id: RequestId = None,
    target: AppTarget,
) -> None:
    """Answer an ask. Exit code 1: the answer was refused, and nothing changed."""
    given = data_of(data, "--data")
    tell_answer(
        target.settings,
        lambda here: here.answer(ask, with_, given, by=author.actor, reason=reason, request_id=request_id),
        by=author.actor,
        ask=ask,
        json=target.json,
    )


@with_options
def link(
    ask: Ask,
    *,
    for_: Annotated[str, typer.Option("--for", metavar="ID", help="The person who answers by this link.")],
    role: Roles = None,
    lasts: Annotated[
        str, typer.Option("--lasts", metavar="DURATION", help="How long it is valid, such as 12h or 2d.")
    ] = LINK_LASTS,
    target: Target,
) -> None:
    """Print the token of a link by which a person answers an ask once, without a login."""
    if not for_:
        raise CommandError("--for must name the person who answers")
    person = actor(for_, role)
    token = with_tenant(target.settings, lambda here: here.link(ask, for_=person, lasts=lasts))
    if target.json:
        write(as_json({"ask": ask, "person": person.id, "roles": sorted(person.roles), "token": token}))
    else:
        write(token)


async def _inbox(
    node: Node, target: Target, person: Actor, limit: int
) -> tuple[Sequence[AskRow], Sequence[str]]:
    """The open asks of a person; if there are none, the options that show those of others."""
    here = node.tenant(target.settings.tenant)
    if asks := await here.inbox(person, limit=limit):
        return asks, ()
    query = AskQuery(tenant=here.name, limit=MOST_READ)
    audience = {each for row in await node.engine.store.asks.page(query) for each in row.roles}
    people = {f"--by {each.removeprefix(AUDIENCE)}" for each in audience if each.startswith(AUDIENCE)}
    roles = {f"--role {each}" for each in audience if not each.startswith(AUDIENCE)}
    return (), (*sorted(roles), *sorted(people))[:MOST_NAMED]


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
