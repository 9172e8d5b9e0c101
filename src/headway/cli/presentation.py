"""Charts, findings and differences as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from headway.cli.lifecycles import BrokenEntry, NamedChart
from headway.cli.output import first_line, table_of
from headway.codec import Value
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.check.findings import Finding, Report
from headway.statechart.drawings import labels
from headway.statechart.tree import StateNode
from headway.statechart.upgrade.diff import Difference

TRIGGERS = {"person": "bright_blue", "timer": "yellow", "error": "red", "automatic": "dim", "event": "cyan"}
SEVERITIES = {"error": "bold red", "warning": "yellow"}
VERDICTS = {"proved": "green", "refuted": "bold red", "unproved": "yellow"}
KINDS = {"parallel": "parallel", "final": "final", "shallow": "history", "deep": "deep history"}
MEANINGS = {"safe": "green", "adapts": "yellow", "rule": "bold red"}
MEANT = {"safe": "safe", "adapts": "adapts", "rule": "needs a rule"}
CHANGES = {"added": "+", "removed": "-", "renamed": "→", "changed": "~"}

Verdict = Literal["proved", "refuted", "unproved"]
REFUTED = frozenset({"invariant-violated", "invariant-failed"})


class Promise(Value, omit_defaults=False):
    """An invariant, and whether it holds wherever the chart can get."""

    name: str
    promise: str
    verdict: Verdict


def promises(chart: Chart, report: Report) -> list[Promise]:
    """The verdict on each invariant of a checked chart."""
    found = [*report.findings, *(each.finding for each in report.accepted)]
    refuted = {finding.transition for finding in found if finding.id in REFUTED}
    unproved = any(finding.id == "invariant-unproved" for finding in found)
    return [
        Promise(
            name=name,
            promise=_promise_text(chart, name),
            verdict=_promise_verdict(refuted=name in refuted, unproved=unproved),
        )
        for name in (each.name for each in chart.model.invariants)
    ]


def _promise_verdict(*, refuted: bool, unproved: bool) -> Verdict:
    return "refuted" if refuted else "unproved" if unproved else "proved"


def _promise_text(chart: Chart, name: str) -> str:
    said = getattr(chart.functions.get(name), "__headway_invariant__", "")
    return said if isinstance(said, str) and said else name


def list_of(charts: Iterable[NamedChart | BrokenEntry]) -> RenderableType:
    """The registered charts, one line each."""
    table = table_of("Chart", "Version", "States", "Transitions", "Meaning")
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    table.columns[0].no_wrap = True
    for each in charts:
        if isinstance(each, NamedChart):
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


def _grow(tree: Tree, node: StateNode, *, first: bool) -> None:
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
    if report.acceptance:
        line = Text.assemble(("if this is meant, put into the class line: ", "dim"), report.acceptance)
        parts.append(Padding(line, (0, 0, 0, 2), expand=False))
    return Group(*parts)


def _verdict(name: str, report: Report) -> Text:
    mark = ("✓ ", "bold green") if report.ok else ("✗ ", "bold red")
    counts = [
        f"{len(found)} {word}{'' if len(found) == 1 else 's'}"
        for found, word in ((report.errors, "error"), (report.warnings, "warning"))
        if found
    ]
    seen = f"{report.configurations} configurations" + ("" if report.complete else ", more remain")
    said = ", ".join(counts) or "no findings"
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


def differences_of(names: tuple[str, str], found: Sequence[Difference]) -> RenderableType:
    """The changes from one version to another, with what they mean for those that live."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for head in ("", "What", "Where", "Change", "For living instances"):
        table.add_column(head, overflow="fold")
    for each in found:
        style = MEANINGS[each.meaning]
        means = Text(MEANT[each.meaning], style)
        if each.because:
            means.append(f": {each.because}", "dim")
        table.add_row(
            Text(CHANGES[each.change], style), each.subject, Text(each.name, "bold"), each.said, means
        )
    counts = {word: sum(each.meaning == word for each in found) for word in MEANINGS}
    said = ", ".join(f"{count} {MEANT[word]}" for word, count in counts.items() if count) or "nothing changed"
    mark = ("✗ ", "bold red") if counts["rule"] else ("✓ ", "bold green")
    title = Text.assemble(mark, (f"{names[0]} → {names[1]}", "bold"), f"  {said}")
    return Group(title, *([Padding(table, (0, 0, 0, 2), expand=False)] if found else []))
