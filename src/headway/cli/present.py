"""Charts and findings as a terminal shows them."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from headway.cli.catalogue import Broken, Found
from headway.cli.promises import Promise
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.check.findings import Finding, Report
from headway.statechart.drawings import labels
from headway.statechart.tree import Node

TRIGGERS = {"person": "bright_blue", "timer": "yellow", "error": "red", "automatic": "dim", "event": "cyan"}
SEVERITIES = {"error": "bold red", "warning": "yellow"}
VERDICTS = {"proved": "green", "refuted": "bold red", "unproved": "yellow"}
KINDS = {"parallel": "parallel", "final": "final", "shallow": "history", "deep": "deep history"}
PADDING, NARROWEST, WIDEST = 2, 8, 10_000


class Terminal(Console):
    """A console to which names, reasons and data that callers have chosen cannot give orders."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments without characters that a terminal obeys; colours are no part of their text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_harmless(segment.text), segment.style)


def _harmless(text: str) -> str:
    kept = (each if each == "\n" or unicodedata.category(each) != "Cc" else "\ufffd" for each in text)
    return text if text.isprintable() else "".join(kept)


def out() -> Console:
    """Where a command writes its answer."""
    return Terminal(file=sys.stdout, highlight=False)


def errors_to() -> Console:
    """Where a command says what went wrong."""
    return Terminal(file=sys.stderr, highlight=False, soft_wrap=True)


def first_line(text: str) -> str:
    """The first line of a text."""
    return labels.plain(text.strip().partition("\n")[0])


def list_of(charts: Iterable[Found | Broken]) -> RenderableType:
    """The registered charts, one line each."""
    table = table_of("Chart", "Version", "States", "Transitions", "Meaning")
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    table.columns[0].no_wrap = True
    for each in charts:
        if isinstance(each, Found):
            whole = each.chart.model
            sizes = (str(whole.version), str(len(whole.states)), str(len(whole.transitions)))
            table.add_row(f"[bold]{escape(each.name)}[/]", *sizes, escape(first_line(whole.meaning)))
        else:
            table.add_row(f"[bold]{escape(each.name)}[/]", "", "", "", Text(each.why, "red"))
    return table


def whole_chart(name: str, chart: Chart) -> RenderableType:
    """A chart: its title, the tree of its states, and its transitions."""
    return Group(_states(name, chart), Text(), _transitions(chart))


def _states(name: str, chart: Chart) -> Tree:
    title = Text.assemble((name, "bold"), (f" version {chart.version}", "dim"))
    if chart.model.meaning:
        title.append("\n" + labels.plain(" ".join(chart.model.meaning.split())))
    tree = Tree(title, guide_style="dim")
    for node in chart.root.children + chart.root.history:
        _grow(tree, node, first=node in chart.root.completion)
    return tree


def _grow(tree: Tree, node: Node, *, first: bool) -> None:
    line = Text.assemble(("▸ " if first else "", "green"), (labels.plain(node.id), "bold"))
    if node.kind in KINDS:
        line.append(f" ({KINDS[node.kind]})", "dim")
    if node.model.meaning:
        line.append(f"  {labels.plain(node.model.meaning)}")
    for note in labels.notes(node.model):
        line.append(f"\n{labels.cut(note, 120)}", "dim")
    branch = tree.add(line)
    for child in node.children + node.history:
        _grow(branch, child, first=child in node.completion and node.kind == "compound")


def _transitions(chart: Chart) -> Table:
    table = table_of("From", "When", "To", "Who", "Guard", "Does")
    for row in chart.model.transitions:
        when = Text(labels.cut(labels.trigger(chart, row), 80), TRIGGERS[labels.trigger_kind(row)])
        done = "; ".join(labels.effects(row.actions))
        cells = (labels.who(row), labels.guard(row), done)
        table.add_row(
            labels.source_name(row), when, goal(row), *(Text(labels.cut(cell, 80)) for cell in cells)
        )
    return table


def goal(row: model.Transition) -> str:
    """Where a transition leads."""
    return " or ".join(row.lands) if row.lands else " + ".join(row.targets) or "stays"


def report_of(name: str, report: Report, promised: Sequence[Promise]) -> RenderableType:
    """All that a check found, with what matters first."""
    parts: list[RenderableType] = [_verdict(name, report)]
    parts += [_finding(finding) for finding in report.findings]
    parts += [Padding(_promise(each), (0, 0, 0, 2), expand=False) for each in promised]
    parts += [_finding(each.finding, because=each.because) for each in report.accepted]
    return Group(*parts)


def _verdict(name: str, report: Report) -> Text:
    mark = ("✓ ", "bold green") if report.ok else ("✗ ", "bold red")
    counts = [
        f"{len(found)} {word}{'' if len(found) == 1 else 's'}"
        for found, word in ((report.errors, "error"), (report.warnings, "warning"))
        if found
    ]
    seen = f"{report.configurations} configurations" + ("" if report.complete else ", more remain")
    said = ", ".join(counts) or "nothing to complain about"
    return Text.assemble(mark, (name, "bold"), f"  {said}", (f"  ({seen})", "dim"))


def _finding(finding: Finding, because: str = "") -> Padding:
    word, style = ("accepted", "dim") if because else (finding.severity, SEVERITIES[finding.severity])
    place = " of ".join(dict.fromkeys(part for part in (finding.transition, finding.state) if part))
    text = Text.assemble((word, style), "  ", (finding.id, "bold" if not because else "dim"))
    text.append(f"  {place}" if place else "", "cyan")
    body = Text.assemble(finding.message)
    if because:
        body.append(f"\naccepted: {because}", "green")
    if finding.path:
        body.append(f"\npath: {' → '.join(finding.path)}", "dim")
    return Padding(Group(text, Padding(body, (0, 0, 0, 2), expand=False)), (0, 0, 0, 2), expand=False)


def _promise(promise: Promise) -> Text:
    return Text.assemble(
        (promise.verdict, VERDICTS[promise.verdict]), "  invariant  ", (promise.promise, "bold")
    )


def table_of(*heads: str, whole: Collection[str] = ()) -> Table:
    """An empty table with these heads; what stands in `whole` columns is never broken in `show_table`."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, PADDING, 0, 0))
    add = partial(table.add_column, overflow="fold")
    for head in heads:
        add(head, no_wrap=head in whole)
    return table


def show_table(table: Table) -> None:
    """Print a table, wider than the terminal if its whole columns need it; one without rows says so."""
    console = out()
    if not table.row_count:
        console.print("none", style="dim")
        return
    console.width = max(console.width, sum(map(_least, table.columns)))
    console.print(table)


def _least(column: Column) -> int:
    """How narrow a column may become."""
    wide = Console(width=WIDEST)
    needed = max(Measurement.get(wide, wide.options, cell).maximum for cell in (column.header, *column.cells))
    return PADDING + (needed if column.no_wrap else min(needed, NARROWEST))


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how far something is, for the length of a block; what is given is called with how much is done."""
    console = errors_to()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not console.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=total)
        yield lambda seen: bar.update(task, completed=seen)
