"""The commands about charts: list, show, check, draw, export, diff."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.progress import track

from headway import drawing
from headway.cli.db import DEFAULT, Url
from headway.cli.lifecycles import (
    BrokenEntry,
    NamedChart,
    charts_beside,
    find,
    find_all,
    load_registered,
    named_object,
)
from headway.cli.output import CommandError, as_json, errors_to, first_line, out, write, write_bytes
from headway.cli.presentation import Promise, differences_of, list_of, promises, report_of, whole_chart
from headway.cli.settings import Json, settings_of
from headway.codec import to_data
from headway.engine.registry import stored_chart
from headway.statechart.chart import Chart
from headway.statechart.check.check import check as check_chart
from headway.statechart.check.findings import Report
from headway.statechart.drawings import labels
from headway.statechart.drawings.dot import dot
from headway.statechart.drawings.mermaid import mermaid
from headway.statechart.drawings.tables import state_table, transition_table
from headway.statechart.export import document_schema, to_document
from headway.statechart.upgrade.diff import differences
from headway.store.address import store_at
from headway.store.rows import ChartRow


class Form(NamedTuple):
    """A form: its file suffix, its media type, and what writes it (None: Graphviz does)."""

    suffix: str
    media_type: str
    write: Callable[[Chart], str] | None = None


def _document(chart: Chart) -> str:
    return as_json(to_document(chart))


def _tables(chart: Chart) -> str:
    return f"{state_table(chart)}\n{transition_table(chart)}"


FORMS = {
    "json": Form(".json", "application/json", _document),
    "table": Form(".md", "text/markdown", _tables),
    "mermaid": Form(".mmd", "text/vnd.mermaid", mermaid),
    "dot": Form(".dot", "text/vnd.graphviz", dot),
    "svg": Form(".svg", "image/svg+xml"),
    "png": Form(".png", "image/png"),
}


async def written(chart: Chart, form: str) -> bytes:
    """The chart in a form of the table; raises GraphvizMissingError and what the form cannot express."""
    write = FORMS[form].write
    if write is not None:
        return write(chart).encode()
    return await drawing.draw(chart, "png" if form == "png" else "svg")


chart = typer.Typer(help="Look at one chart: show, check, draw, export.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A registered name, module:Class, or a file .json or .scxml.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The file to write. Default: the terminal.")
]


class PictureFormat(StrEnum):
    """What a chart can be drawn as."""

    svg = "svg"
    png = "png"
    mermaid = "mermaid"
    dot = "dot"


class DocumentFormat(StrEnum):
    """What a chart can be exported as."""

    json = "json"
    table = "table"


def charts(*, json: Json = False) -> None:
    """List the registered charts."""
    every = load_registered()
    if json:
        write(as_json([_summary(each) for each in every]))
    elif every:
        out().print(list_of(every))
    else:
        errors_to().print(
            "No chart is registered. Name one as module:Class, or install a package that registers charts."
        )
    if any(isinstance(each, BrokenEntry) for each in every):
        raise typer.Exit(2)


@chart.command()
def show(name: Name, *, json: Json = False) -> None:
    """Show a chart: its states with what they wait for, and its transitions."""
    found = find(name)
    if json:
        write(as_json(_summary(found) | _contents(found.chart)))
    else:
        out().print(whole_chart(found.name, found.chart))


@chart.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="The charts to check, each named as for `show`."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Check all registered charts.")] = False,
    handlers: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="The registered handlers: names, or a mapping by name."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    json: Json = False,
) -> None:
    """Check charts, and prove their invariants. Exit code 1: an error was found."""
    found = _to_check(names or [], every=every)
    known = _handlers(handlers) if handlers else None
    reports = [(each, check_chart(each.chart, known)) for each in _with_progress(found, quiet=json)]
    judged = [(each, report, promises(each.chart, report)) for each, report in reports]
    if json:
        write(as_json([_report(*each) for each in judged]))
    else:
        for index, (each, report, promised) in enumerate(judged):
            out().print(*([""] if index else []), report_of(each.name, report, promised), sep="\n")
    if not all(report.ok and not (strict and report.findings) for _, report, _ in judged):
        raise typer.Exit(1)


@chart.command()
def draw(
    name: Name,
    form: Annotated[
        PictureFormat | None,
        typer.Option("--format", help="The format. Default: by the suffix of the file, or mermaid."),
    ] = None,
    output: Output = None,
) -> None:
    """Draw a chart; SVG and PNG need Graphviz."""
    chosen = form or _by_suffix(output, PictureFormat) or PictureFormat.mermaid
    _deliver(find(name), chosen, output)


@chart.command()
def export(
    name: Name,
    form: Annotated[
        DocumentFormat | None,
        typer.Option("--format", help="The format. Default: by the suffix of the file, or json."),
    ] = None,
    output: Output = None,
) -> None:
    """Export a chart as a JSON document or as Markdown tables."""
    chosen = form or _by_suffix(output, DocumentFormat) or DocumentFormat.json
    _deliver(find(name), chosen, output)


@chart.command()
def schema(output: Output = None) -> None:
    """Print the JSON Schema of chart documents."""
    write_bytes(as_json(document_schema()).encode(), output)


STORED = "stored:"
DIFF_HELP = "A registered name, module:Class, a file .json or .scxml, or stored:CHART@VERSION."


@chart.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=f"The older version. {DIFF_HELP}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The newer version, named in the same way.")],
    *,
    database: Url = DEFAULT,
    json: Json = False,
) -> None:
    """Show what changed, and the effect on living instances. Exit code 1: a change needs a rule."""
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


def _summary(each: NamedChart | BrokenEntry) -> dict[str, Any]:
    if isinstance(each, BrokenEntry):
        return {"name": each.name, "error": each.why}
    whole = each.chart.model
    return {
        "name": each.name,
        "version": whole.version,
        "states": len(whole.states),
        "transitions": len(whole.transitions),
        "meaning": first_line(whole.meaning),
    }


def _contents(found: Chart) -> dict[str, Any]:
    document = to_document(found)
    rows = [
        row | {"trigger": labels.trigger(found, each), "trigger_kind": labels.trigger_kind(each)}
        for row, each in zip(document["transitions"], found.model.transitions, strict=True)
    ]
    return {"states": document["states"], "transitions": rows}


def _report(found: NamedChart, report: Report, promised: list[Promise]) -> dict[str, Any]:
    return {
        "name": found.name,
        "ok": report.ok,
        "findings": [to_data(finding) for finding in report.findings],
        "accepted": [to_data(each) for each in report.accepted],
        "acceptance": report.acceptance,
        "invariants": [to_data(each) for each in promised],
        "configurations": report.configurations,
        "complete": report.complete,
    }


def _to_check(names: list[str], *, every: bool) -> list[NamedChart]:
    if every == bool(names):
        raise CommandError("name the charts to check, or say --all")
    if names:
        return find_all(names)
    loaded = load_registered()
    for each in loaded:
        if isinstance(each, BrokenEntry):
            raise CommandError(each.why)
    found = [each for each in loaded if isinstance(each, NamedChart)]
    if not found:
        raise CommandError("no chart is registered")
    return found


def _with_progress(found: list[NamedChart], *, quiet: bool) -> Iterable[NamedChart]:
    console = errors_to()
    hidden = quiet or len(found) == 1 or not console.is_terminal
    return track(found, "Checking", console=console, transient=True, disable=hidden)


def _handlers(name: str) -> Collection[str]:
    value = named_object(name)
    names = list(value) if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else None
    if names is None or not all(isinstance(each, str) for each in names):
        raise CommandError(f"{name} is neither a mapping by handler name nor a collection of names")
    return frozenset(names)


def _by_suffix(output: Path | None, forms: type[StrEnum]) -> Any:
    if output is None or not output.suffix:
        return None
    known = {FORMS[form.value].suffix: form for form in forms}
    if output.suffix.lower() not in known:
        raise CommandError(
            f"{output.suffix} is not known here; it can be {', '.join(known)}, or name a --format"
        )
    return known[output.suffix.lower()]


def _deliver(found: NamedChart, form: StrEnum, output: Path | None) -> None:
    write_bytes(asyncio.run(written(found.chart, form.value)), output)


def _found(name: str, database: str) -> NamedChart:
    if not name.startswith(STORED):
        return find(name)
    wanted, _, version = name.removeprefix(STORED).rpartition("@")
    rows = asyncio.run(_stored(database))
    for row in rows:
        if row.chart == wanted and str(row.version) == version:
            return NamedChart(name, stored_chart(row))
    known = ", ".join(f"{STORED}{row.chart}@{row.version}" for row in rows)
    raise CommandError(f"the database has no {name}; it has: {known or 'no charts'}")


async def _stored(database: str) -> list[ChartRow]:
    store = store_at(database)
    await store.open()
    try:
        return [*await store.charts.all()]
    finally:
        await store.close()
