"""The commands of operators: messages that were not delivered, and changes of many instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.calls import data_of, with_node
from headway.cli.options import (
    AppTarget,
    Author,
    Chart,
    EventName,
    Limit,
    LivingInstances,
    Target,
    with_options,
)
from headway.cli.output import CommandError, as_json, out, progress, show_table, table_of, when, write
from headway.cli.settings import Data, Reason, RequestId
from headway.codec import replace, to_data
from headway.engine.bulk import BulkOperation, Cancelling, Retrying, Sending, Summary
from headway.engine.engine import Engine
from headway.engine.registry import stored_chart
from headway.node import Node
from headway.settings import Settings
from headway.statechart.snapshot import Event
from headway.store.queries import InstanceQuery
from headway.store.rows import LetterRow

PAGE = 500
STYLES = {"done": "green", "skipped": "dim", "refused": "yellow", "failed": "bold red"}
WOULD = {
    "done": "would be done",
    "skipped": "would be skipped",
    "refused": "would be refused",
    "failed": "would fail",
}
NOT_YET = "[dim]Nothing was changed. Run it again with --yes.[/]"

letters = typer.Typer(
    help="Handle messages that could not be delivered: list, redrive, discard.", no_args_is_help=True
)
bulk = typer.Typer(help="Change many instances at once: cancel, send, retry.", no_args_is_help=True)

Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this message; may be given several times.")]
To = Annotated[str | None, typer.Option("--destination", help="Only messages to this destination.")]
Of = Annotated[str | None, typer.Option("--instance", help="Only messages of this instance.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Do it. Without this option the command only shows what it would do.")
]

Wanted = dict[str, Any]


@letters.command("list")
@with_options
def list_(
    *,
    destination: To = None,
    instance: Of = None,
    dead: Annotated[
        bool | None,
        typer.Option("--dead/--waiting", help="Only dead letters, or only messages that are still retried."),
    ] = None,
    limit: Limit = 50,
    target: Target,
) -> None:
    """List messages that could not be delivered, the oldest first."""
    settings = target.settings
    wanted: Wanted = {"destination": destination, "instance": instance, "dead": dead, "limit": limit}
    found = with_node(settings, lambda node: node.letters.list(settings.tenant, **wanted))
    if target.json:
        write(as_json([_as_data(each) for each in found]))
    else:
        show_table(_letters(found))


@letters.command()
@with_options
def redrive(
    *,
    destination: To = None,
    instance: Of = None,
    id: Ids = None,  # noqa: A002 - the option's name
    limit: Limit = 1_000,
    yes: Yes = False,
    target: Target,
) -> None:
    """Deliver dead letters again, with a full set of attempts."""
    wanted = {"destination": destination, "instance": instance, "ids": id or [], "limit": limit}
    _change(target.settings, wanted, _redrive if yes else None, "to be tried again", json=target.json)


@letters.command()
@with_options
def discard(
    destination: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="The destination of the messages.")
    ],
    *,
    instance: Of = None,
    id: Ids = None,  # noqa: A002 - the option's name
    waiting: Annotated[
        bool,
        typer.Option("--waiting", help="Discard messages that are still retried, instead of dead letters."),
    ] = False,
    limit: Limit = 1_000,
    yes: Yes = False,
    target: Target,
) -> None:
    """Delete the dead letters of a destination, or the messages that are still retried."""
    wanted = {"destination": destination, "instance": instance, "ids": id or [], "limit": limit}
    wanted["dead"] = not waiting
    _change(target.settings, wanted, _discard if yes else None, "given up", json=target.json)


@bulk.command()
@with_options
def cancel(
    chart: Chart,
    *,
    living: LivingInstances,
    author: Author,
    reason: Reason = None,
    request_id: RequestId = None,
    yes: Yes = False,
    target: AppTarget,
) -> None:
    """Cancel instances and their children, as their chart says."""
    settings = target.settings
    query = living.query(settings.tenant, chart)
    who = author.actor
    run = BulkRun(query, lambda engine: Cancelling(engine, settings.tenant, who, reason), request_id)
    run.start(settings, json=target.json, yes=yes)


@bulk.command()
@with_options
def send(
    chart: Chart,
    event: EventName,
    *,
    data: Data = None,
    living: LivingInstances,
    author: Author,
    reason: Reason = None,
    request_id: RequestId = None,
    yes: Yes = False,
    target: AppTarget,
) -> None:
    """Send instances the same event."""
    settings = target.settings
    query = living.query(settings.tenant, chart)
    sent = Event(event, data_of(data, "--data"), by=author.actor, reason=reason)
    run = BulkRun(query, lambda engine: Sending(engine, settings.tenant, sent), request_id)
    run.start(settings, json=target.json, yes=yes)


@bulk.command()
@with_options
def retry(
    chart: Chart,
    *,
    living: LivingInstances,
    yes: Yes = False,
    target: AppTarget,
) -> None:
    """Let work that waits for its next attempt be due now."""
    settings = target.settings
    query = living.query(settings.tenant, chart)
    run = BulkRun(query, lambda engine: Retrying(engine, settings.tenant))
    run.start(settings, json=target.json, yes=yes)


class BulkRun:
    """One run of a bulk command: changes all instances that a query finds, page by page."""

    def __init__(
        self, query: InstanceQuery, make: Callable[[Engine], BulkOperation], request_id: str | None = None
    ) -> None:
        self._query, self._make, self._request_id = query, make, request_id

    def start(self, settings: Settings, *, json: bool, yes: bool) -> None:
        """Change them or only try, and print the result; raises CommandError, and Exit if one has failed."""
        chart = self._query.chart
        summary = with_node(
            settings, lambda node: self._change(node.engine, quiet=json, yes=yes), chart=chart
        )
        _tell(summary, json=json, yes=yes)
        if summary.count("failed"):
            raise typer.Exit(1)

    async def _change(self, engine: Engine, *, quiet: bool, yes: bool) -> Summary:
        await _require_status(engine, self._query)
        act, summary = self._make(engine), Summary(lambda error: (type(error).__name__, str(error)))
        query = replace(self._query, limit=PAGE)
        with progress("changing" if yes else "trying", None, quiet=quiet) as show:
            while rows := await engine.list(query):
                summary.add(await (act.perform(rows, self._request_id) if yes else act.rehearse(rows)))
                show(summary.seen)
                query = replace(query, after=rows[-1].id)
        return summary


async def _require_status(engine: Engine, query: InstanceQuery) -> None:
    """Raises CommandError for a status that no version of the chart has, not even one that is only stored."""
    if query.status is None:
        return
    stored = [stored_chart(row) for row in await engine.store.charts.all() if row.chart == query.chart]
    known = dict.fromkeys(state.id for chart in stored for state in chart.root.children)
    if query.status not in known:
        raise CommandError(f"{query.chart} has no state {query.status!r}; there are: {', '.join(known)}")


async def _redrive(node: Node, tenant: str, wanted: Wanted) -> int:
    count = await node.letters.redrive(tenant, **wanted)
    await node.engine.store.announce(["messages"])
    return count


async def _discard(node: Node, tenant: str, wanted: Wanted) -> int:
    named = {name: each for name, each in wanted.items() if name != "dead"}
    return await node.letters.discard(tenant, **named, waiting=not wanted["dead"])


def _change(
    settings: Settings,
    wanted: Wanted,
    change: Callable[[Node, str, Wanted], Awaitable[int]] | None,
    what: str,
    *,
    json: bool,
) -> None:
    """Change letters, or only show which would change."""

    async def run(node: Node) -> tuple[Sequence[LetterRow], int]:
        found = (await node.letters.list(settings.tenant, **wanted))[: wanted["limit"]]
        count = len(found) if change is None else await change(node, settings.tenant, wanted)
        return found, count

    found, count = with_node(settings, run)
    if json:
        told = {"dry_run": change is None, "count": count, "letters": [_as_data(each) for each in found]}
        write(as_json(told))
        return
    show_table(_letters(found))
    mark = "[dim]would be[/]" if change is None else "[bold green]✓[/]"
    out().print(f"{mark} {what}: {count}")
    if change is None:
        out().print(NOT_YET)


def _tell(summary: Summary, *, json: bool, yes: bool) -> None:
    if json:
        counts = {name: summary.count(name) for name in ("done", "skipped")}
        codes = {name: summary.codes(name) for name in ("refused", "failed")}
        sample = [each._asdict() for each in summary.sample]
        write(as_json({"dry_run": not yes, "seen": summary.seen, **counts, **codes, "sample": sample}))
        return
    table = table_of("Instance", "Outcome", "Why", whole=("Instance",))
    words = {name: name if yes else WOULD[name] for name in STYLES}
    for each in summary.sample:
        outcome = Text(" ".join(filter(None, (words[each.outcome], each.code))), STYLES[each.outcome])
        table.add_row(each.instance, outcome, Text(each.detail or ""))
    if not yes:
        out().print("[bold]Dry run[/]")
    show_table(table)
    numbers = ", ".join(f"{summary.count(name)} {words[name]}" for name in STYLES)
    out().print(f"{summary.seen} instances: {numbers}")
    if not yes:
        out().print(NOT_YET)


def _as_data(letter: LetterRow) -> dict[str, Any]:
    """All but what it carries, which is for its receiver."""
    data: dict[str, Any] = to_data(letter)
    return {name: value for name, value in data.items() if name not in {"data", "trace"}}


def _letters(rows: Sequence[LetterRow]) -> Table:
    table = table_of("Letter", "Destination", "Name", "Tries", "Next", "Error", whole=("Letter", "Next"))
    for row in rows:
        following = Text("dead", "red") if row.dead else Text(when(row.due))
        table.add_row(row.id, row.destination, row.name, str(row.attempts), following, Text(row.error))
    return table
