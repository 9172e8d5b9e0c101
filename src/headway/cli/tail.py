"""`headway tail`: what happens to instances, as it happens."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from headway.api.events import event_data
from headway.cli.calls import with_node
from headway.cli.output import out, when
from headway.cli.settings import Config, Database, Tenant, settings_of
from headway.codec import decode, encode
from headway.engine.registry import Registry
from headway.engine.tail import cursor_of, cursor_text
from headway.node import Node
from headway.store.rows import PRUNED, EventRow, LiveRow, LogRow, MessageRow


def tail(
    *,
    chart: Annotated[str | None, typer.Option("--chart", help="Only events of this chart.")] = None,
    instance: Annotated[str | None, typer.Option("--instance", help="Only events of this instance.")] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Only events of this owner's instances.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="ID",
            help="Continue after the event with this id; 0-0 starts at the first event.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after this number of events.")
    ] = None,
    tenant: Tenant = None,
    database: Database = None,
    config: Config = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one event a line, and nothing else.")
    ] = False,
) -> None:
    """Follow the events of instances, from now on. Ctrl-C stops it."""
    settings = settings_of(config, tenant=tenant, database=database)
    cursor = None if since is None else cursor_of(since)

    async def follow(node: Node) -> None:
        async with (
            node.tail,
            node.tail.follow(
                cursor, tenant=settings.tenant, chart=chart, instance=instance, owner=owner
            ) as events,
        ):
            left = count
            async for event in events:
                if json:
                    _print_json(event, node.engine.charts)
                else:
                    _print(event)
                left = None if left is None else left - 1
                if left == 0:
                    return

    with_node(settings, follow)


def _print_json(event: LogRow, charts: Registry) -> None:
    sys.stdout.write(f"{encode(event_data(event, cursor_text(event.cursor), charts)).decode()}\n")
    sys.stdout.flush()


def _print(event: LogRow) -> None:
    told = _line(event) if isinstance(event, EventRow) else _message(event)
    # One line for each event, whatever stands in it: else a reason could pass for another event.
    out().print(Text(" ").join(told.split()), soft_wrap=True)
    sys.stdout.flush()


def _message(event: LiveRow) -> Text:
    message = event.message
    if message.kind == PRUNED:
        return Text.assemble((f"{when(message.at)} ", "dim"), f"pruned of {event.chart}: {message.data}")
    text = Text.assemble((f"{when(message.at)} ", "dim"), (message.instance, "bold"), " says ")
    return text.append(message.name, "magenta").append(f" {_carried(message)}", "dim")


def _carried(message: MessageRow) -> str:
    """What a message carries: how far work is in words, all else as it is."""
    data = decode(object, message.data or "null")
    if message.name != "progress" or not isinstance(data, dict) or "pct" not in data:
        return message.data or ""
    words = (data.get("step"), f"{data['pct']:.0f} %", data.get("message"))
    return " ".join(str(word) for word in words if word)


def _line(event: EventRow) -> Text:
    line = event.line
    text = Text.assemble((f"{when(line.at)} ", "dim"), (line.instance, "bold"), f" {line.event} ")
    text.append("→ ", "dim").append(line.after, "bold cyan")
    text.append(f" by {line.actor}", "dim")
    if line.attempt:
        text.append(f", attempt {line.attempt}", "yellow")
    if line.reason:
        text.append(f" ({line.reason})", "dim")
    return text
