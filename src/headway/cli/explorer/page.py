"""The explorer's page, as far as it is known before an instance lives."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from headway.cli.explorer.charts import Shown, summary
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.drawings import labels
from headway.statechart.tree import StateNode

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
EXPORTS = {
    "json": "JSON",
    "mermaid": "Mermaid",
    "svg": "SVG",
    "png": "PNG",
    "table": "Table",
}
KINDS = {"parallel": "parallel", "final": "final", "shallow": "history", "deep": "deep history"}


def page(shown: Shown, every: Iterable[Shown]) -> str:
    """The page of a chart, beside the list of all of them."""
    whole = shown.chart.model
    return _template().substitute(
        title=escape(shown.name),
        slug=escape(shown.slug),
        version=whole.version,
        meaning=escape(" ".join(whole.meaning.split())),
        charts="\n".join(_entry(each, current=each is shown) for each in every),
        exports="\n".join(_export(shown.slug, form, label) for form, label in EXPORTS.items()),
        state_count=len(whole.states),
        transition_count=len(whole.transitions),
        states=_tree(shown.chart.root.children + shown.chart.root.history, "states"),
        transitions="\n".join(_row(shown.chart, row) for row in whole.transitions),
    )


@cache
def _template() -> Template:
    return Template((FOLDER / "page.html").read_text(encoding="utf-8"))


def _entry(shown: Shown, *, current: bool) -> str:
    about = summary(shown)
    mark = ' aria-current="page"' if current else ""
    size = f"{about['states']} states, {about['transitions']} transitions"
    return (
        f'<li><a href="/charts/{escape(shown.slug)}"{mark} title="{size}"><b>{escape(shown.name)}</b>'
        f"<small>{escape(about['meaning'])}</small></a></li>"
    )


def _export(slug: str, form: str, label: str) -> str:
    return f'<a href="/api/charts/{escape(slug)}/export/{form}" download>{label}</a>'


def _tree(nodes: Iterable[StateNode], name: str = "") -> str:
    items = "\n".join(_branch(node) for node in nodes)
    return f'<ul class="{name}">{items}</ul>' if items else ""


def _branch(node: StateNode) -> str:
    state = node.model
    kind = f' <span class="tag">{KINDS[node.kind]}</span>' if node.kind in KINDS else ""
    notes = "".join(f"<li>{escape(labels.cut(note, 160))}</li>" for note in labels.notes(state))
    return (
        f'<li data-state="{escape(node.id)}"><div class="state"><b>{escape(node.id)}</b>{kind}'
        f"<span>{escape(state.meaning)}</span>{f'<ul class=notes>{notes}</ul>' if notes else ''}</div>"
        f"{_tree(node.children + node.history)}</li>"
    )


def _row(chart: Chart, row: model.Transition) -> str:
    goal = " or ".join(row.lands) if row.lands else " + ".join(row.targets)
    cells = (
        labels.source_name(row),
        labels.trigger(chart, row),
        goal or "stays",
        labels.who(row),
        labels.guard(row),
        "; ".join(labels.effects(row.actions)),
    )
    shown = "".join(f"<td>{escape(labels.cut(cell, 160))}</td>" for cell in cells)
    meaning = f' title="{escape(labels.plain(row.meaning))}"' if row.meaning else ""
    return f'<tr class="{labels.trigger_kind(row)}" data-source="{escape(row.source)}"{meaning}>{shown}</tr>'
