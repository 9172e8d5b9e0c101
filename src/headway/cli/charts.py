"""The commands about charts: list, show, check, draw, export."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from headway.cli.catalogue import Broken, Found, find, find_all, load_registered, named_object
from headway.cli.failure import CommandError
from headway.cli.formats import FORMS, as_json, written
from headway.cli.present import errors_to, first_line, list_of, out, report_of, whole_chart
from headway.cli.promises import Promise, promises
from headway.codec import to_data
from headway.statechart.chart import Chart
from headway.statechart.check.check import check as check_chart
from headway.statechart.check.findings import Report
from headway.statechart.drawings import labels
from headway.statechart.export import document_schema, to_document

chart = typer.Typer(help="Look at one chart: show, check, draw, export.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A registered name, module:Class, or a file .json or .scxml.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The file to write; the terminal if none is given.")
]


class Picture(StrEnum):
    """What a chart can be drawn as."""

    svg = "svg"
    png = "png"
    mermaid = "mermaid"
    dot = "dot"


class Document(StrEnum):
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
            "No chart is registered. Name one as module:Class, or install a package that registers some."
        )
    if any(isinstance(each, Broken) for each in every):
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
    strict: Annotated[bool, typer.Option("--strict", help="Fail for warnings too.")] = False,
    json: Json = False,
) -> None:
    """Check charts, and prove the invariants they declare. Exit code 1: something is wrong."""
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
        Picture | None, typer.Option("--format", help="By the suffix of the file if not given, else mermaid.")
    ] = None,
    output: Output = None,
) -> None:
    """Draw a chart; SVG and PNG need Graphviz."""
    chosen = form or _by_suffix(output, Picture) or Picture.mermaid
    _deliver(find(name), chosen, output)


@chart.command()
def export(
    name: Name,
    form: Annotated[
        Document | None, typer.Option("--format", help="By the suffix of the file if not given, else json.")
    ] = None,
    output: Output = None,
) -> None:
    """Export a chart as a JSON document or as Markdown tables."""
    chosen = form or _by_suffix(output, Document) or Document.json
    _deliver(find(name), chosen, output)


@chart.command()
def schema(output: Output = None) -> None:
    """Print the JSON Schema of chart documents."""
    _put(as_json(document_schema()).encode(), output)


def write(text: str) -> None:
    """Print text as it is."""
    _put(text.encode(), None)


def _summary(each: Found | Broken) -> dict[str, Any]:
    if isinstance(each, Broken):
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


def _report(found: Found, report: Report, promised: list[Promise]) -> dict[str, Any]:
    return {
        "name": found.name,
        "ok": report.ok,
        "findings": [to_data(finding) for finding in report.findings],
        "accepted": [to_data(each) for each in report.accepted],
        "invariants": [to_data(each) for each in promised],
        "configurations": report.configurations,
        "complete": report.complete,
    }


def _to_check(names: list[str], *, every: bool) -> list[Found]:
    if every == bool(names):
        raise CommandError("name the charts to check, or say --all")
    if names:
        return find_all(names)
    loaded = load_registered()
    for each in loaded:
        if isinstance(each, Broken):
            raise CommandError(each.why)
    found = [each for each in loaded if isinstance(each, Found)]
    if not found:
        raise CommandError("no chart is registered")
    return found


def _with_progress(found: list[Found], *, quiet: bool) -> Iterable[Found]:
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


def _deliver(found: Found, form: StrEnum, output: Path | None) -> None:
    _put(asyncio.run(written(found.chart, form.value)), output)


def _put(content: bytes, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}") from error
    errors_to().print(f"wrote {output}")
