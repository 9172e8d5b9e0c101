"""The commands about instances: list, show, history; create, send, cancel, why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.calls import data_of, tell_answer, with_tenant
from headway.cli.lifecycles import apps_of
from headway.cli.options import (
    After,
    AppTarget,
    Author,
    Chart,
    EventName,
    Instance,
    Limit,
    Owner,
    Status,
    Target,
    with_options,
)
from headway.cli.output import as_json, out, show_table, table_of, when, write
from headway.cli.settings import Data, Reason, RequestId
from headway.codec import to_data
from headway.engine import redaction
from headway.engine.causes import cut_text
from headway.statechart.snapshot import Event, Snapshot
from headway.store.rows import HistoryRow, InstanceRow

instances = typer.Typer(help="Look at instances: list, show, history.", no_args_is_help=True)

ERRORS = ("work.failed", "error.work.")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
NOBODY_KNOWN = (
    "No lifecycle loaded here has a handler {0}: the work waits until a process with this handler runs."
)


@instances.command("list")
@with_options
def list_(
    *,
    chart: Annotated[str | None, typer.Option("--chart", help="Only instances of this chart.")] = None,
    status: Status = None,
    owner: Owner = None,
    ended: Annotated[
        bool | None, typer.Option("--ended/--living", help="Only ended instances, or only living ones.")
    ] = None,
    after: After = None,
    limit: Limit = 50,
    target: Target,
) -> None:
    """List instances in the order of their creation."""
    rows = with_tenant(
        target.settings,
        lambda here: here.list(
            chart=chart, status=status, owner=owner, ended=ended, after=after, limit=limit
        ),
    )
    if target.json:
        write(as_json([_summary(row) for row in rows]))
        return
    show_table(_instances(rows))
    if len(rows) == limit:
        out().print(f"[dim]go on with --after {rows[-1].id}[/]")


@instances.command()
@with_options
def show(
    instance: Instance,
    *,
    target: Target,
) -> None:
    """Show an instance: its states, its context, its open work, timers and asks."""
    snapshot = with_tenant(target.settings, lambda here: here.get(instance))
    if target.json:
        write(as_json(to_data(snapshot)))
    else:
        show_table(_snapshot(snapshot))


@instances.command()
@with_options
def history(
    instance: Instance,
    *,
    limit: Limit = 1_000,
    target: Target,
) -> None:
    """Show the history of an instance."""

    async def read(here: Any) -> Sequence[HistoryRow]:
        await here.get(instance)
        rows: Sequence[HistoryRow] = await here.history(instance, limit=limit)
        return rows

    rows = with_tenant(target.settings, read)
    if target.json:
        write(as_json([_line(row) for row in rows]))
    else:
        show_table(_history(rows))


@with_options
def create(
    chart: Chart,
    instance: Annotated[
        str | None, typer.Argument(metavar="[INSTANCE]", help="Its id; generated if not given.")
    ] = None,
    *,
    context: Annotated[
        str | None, typer.Option("--context", metavar="JSON", help="The first context of the instance.")
    ] = None,
    author: Author,
    request_id: RequestId = None,
    target: AppTarget,
) -> None:
    """Create an instance. Exit code 1: the chart refused it."""
    begun = data_of(context, "--context")
    tell_answer(
        target.settings,
        lambda here: here.create(chart, instance, begun, by=author.actor, request_id=request_id),
        by=author.actor,
        chart=chart,
        json=target.json,
    )


@with_options
def send(
    instance: Instance,
    event: EventName,
    *,
    data: Data = None,
    author: Author,
    reason: Reason = None,
    request_id: RequestId = None,
    target: AppTarget,
) -> None:
    """Send an event to an instance. Exit code 1: it was refused, and nothing changed."""
    sent = Event(event, data_of(data, "--data"), by=author.actor, reason=reason)
    tell_answer(
        target.settings,
        lambda here: here.send(instance, sent, request_id=request_id),
        by=author.actor,
        instance=instance,
        json=target.json,
    )


@with_options
def cancel(
    instance: Instance,
    *,
    author: Author,
    reason: Reason = None,
    request_id: RequestId = None,
    target: AppTarget,
) -> None:
    """Cancel an instance and its children, as its chart says. Exit code 1: it was refused."""
    tell_answer(
        target.settings,
        lambda here: here.cancel(instance, by=author.actor, reason=reason, request_id=request_id),
        by=author.actor,
        instance=instance,
        json=target.json,
    )


@with_options
def why(
    instance: Instance,
    *,
    target: AppTarget,
) -> None:
    """Explain what an instance waits for, who can act, and what prevents it from moving on."""
    settings = target.settings
    found = with_tenant(settings, lambda here: here.why(instance), charts=True)
    if target.json:
        write(as_json(to_data(found)))
        return
    said = TIME.sub(lambda match: when(datetime.fromisoformat(match[0])), str(found))
    out().print(Text(said, "bold red" if found.stuck else ""))
    names = apps_of(settings).lifecycle.handlers.names
    for handler in sorted({work.handler for work in found.work if work.worker is None}.difference(names)):
        out().print(Text(NOBODY_KNOWN.format(handler), "yellow"))


def _summary(row: InstanceRow) -> dict[str, Any]:
    data: dict[str, Any] = to_data(row)
    for name in ("snapshot", "journal", "seal"):
        data.pop(name, None)
    return data


def _line(row: HistoryRow) -> dict[str, Any]:
    data: dict[str, Any] = to_data(row)
    return data | {"data": redaction.data_of(row)}


def _instances(rows: Sequence[InstanceRow]) -> Table:
    table = table_of("Instance", "Chart", "State", "Since", "Owner", whole=("Instance", "Since"))
    for row in rows:
        state = Text(row.status, "dim" if row.ended else "bold cyan")
        table.add_row(row.id, f"{row.chart} v{row.version}", state, when(row.updated_at), row.owner or "")
    return table


def _snapshot(snapshot: Snapshot) -> Table:
    table = table_of("", "")
    table.show_header = False
    state = Text(snapshot.state, "dim" if snapshot.ended else "bold cyan")
    table.add_row("instance", snapshot.instance)
    table.add_row("chart", f"{snapshot.chart} v{snapshot.version}")
    table.add_row("state", state)
    table.add_row("steps", str(snapshot.seq))
    for name, value in sorted(snapshot.context.items()):
        table.add_row(f"context.{name}", Text(as_json(value).strip()))
    for state_name, work in snapshot.work.items():
        table.add_row(f"work of {state_name}", f"{work.id}, attempt {work.attempt}")
    for timer in snapshot.timers.values():
        table.add_row(f"timer {timer.event}", when(timer.due))
    for state_name, ask in snapshot.asks.items():
        table.add_row(f"ask of {state_name}", f"{ask.id} for {', '.join(ask.roles)}")
    return table


def _error_text(row: HistoryRow) -> str:
    """The message of the error that a line is about, and when the next attempt comes."""
    data = redaction.data_of(row) if row.event.startswith(ERRORS) else None
    if not isinstance(data, dict):
        return ""
    due = data.get("next_try")
    next_try = f"next attempt {when(datetime.fromisoformat(due))}" if isinstance(due, str) else ""
    return ", ".join(filter(None, [cut_text(str(data.get("message") or "")), next_try]))


def _history(rows: Sequence[HistoryRow]) -> Table:
    table = table_of("At", "Event", "From", "To", "By", "", whole=("At", "Event"))
    for row in rows:
        notes = [f"attempt {row.attempt}" if row.attempt else "", row.reason or "", _error_text(row)]
        table.add_row(
            when(row.at),
            Text(row.event, "cyan"),
            row.before,
            Text(row.after, "bold"),
            row.actor,
            ", ".join(filter(None, notes)),
        )
    return table
