"""The charts that the explorer shows: the name of each in a URL, its page, and data to start an instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from headway.cli.lifecycles import NamedChart
from headway.cli.output import first_line
from headway.cli.presentation import promises
from headway.codec import to_data
from headway.drawing import Drawings
from headway.errors import HeadwayError
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.check.check import check
from headway.statechart.drawings import labels
from headway.statechart.tree import StateNode


class ChartNotFoundError(HeadwayError):
    """No chart of this explorer has that name."""


class ShownChart(NamedTuple):
    """A chart, the name it was asked for, and its name in an address."""

    slug: str
    name: str
    chart: Chart


class ShownCharts:
    """The charts by slug, with the drawings and reports made of them so far."""

    def __init__(self, found: Iterable[NamedChart]) -> None:
        self.by_slug: dict[str, ShownChart] = {}
        for name, chart in found:
            slug = self._free(re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "chart")
            self.by_slug[slug] = ShownChart(slug, name, chart)
        self._drawings = Drawings()
        self._reports: dict[str, Any] = {}

    def get(self, slug: str) -> ShownChart:
        """The chart of a slug; raises ChartNotFoundError."""
        shown = self.by_slug.get(slug)
        if shown is None:
            raise ChartNotFoundError(f"there is no chart {slug!r} here")
        return shown

    async def drawing(self, slug: str, highlight: frozenset[str]) -> bytes:
        """The chart as SVG with states highlighted; raises GraphvizMissingError."""
        chart = self.get(slug).chart
        return await self._drawings.draw(chart, highlight=highlight.intersection(chart.nodes))

    async def report(self, slug: str) -> Any:
        """What the checker finds, as plain data; looked for once, beside other requests."""
        if slug not in self._reports:
            chart = self.get(slug).chart
            report = await run_in_threadpool(check, chart)
            invariants = to_data(promises(chart, report))
            self._reports[slug] = to_data(report) | {"ok": report.ok, "invariants": invariants}
        return self._reports[slug]

    def _free(self, slug: str) -> str:
        taken = (f"{slug}-{number}" for number in range(2, len(self.by_slug) + 3))
        return slug if slug not in self.by_slug else next(name for name in taken if name not in self.by_slug)


def summary(shown: ShownChart) -> dict[str, Any]:
    """A line of the list of charts."""
    whole = shown.chart.model
    return {
        "slug": shown.slug,
        "name": shown.name,
        "version": whole.version,
        "meaning": first_line(whole.meaning),
        "states": len(whole.states),
        "transitions": len(whole.transitions),
    }


def details(shown: ShownChart) -> dict[str, Any]:
    """What the page needs to know of a chart before it starts an instance."""
    whole = shown.chart.model
    return summary(shown) | {
        "roles": roles(shown.chart),
        "context": first_context(shown.chart),
        "context_type": whole.context,
        "facts": [{"name": fact.name, "meaning": fact.meaning} for fact in whole.facts],
        "unbound": list(shown.chart.unbound),
    }


def roles(chart: Chart) -> list[str]:
    """Every role a chart knows, in the order it names them."""
    named: list[str] = []
    for row in chart.model.transitions:
        named += [*row.by, *row.countersign]
    for state in chart.model.states:
        if state.ask:
            named += [*state.ask.roles, *(role for level in state.ask.escalate for role in level.roles)]
    return list(dict.fromkeys(named))


def first_context(chart: Chart) -> Any:
    """A context to start with: what the chart's type asks for at least."""
    return example(chart.context_type.schema()) if chart.context_type else {}


# A first value for an editor: the smallest data that a JSON Schema lets through, as far as it says.

DEEPEST = 6
FORMATS = {
    "date-time": "2026-01-01T12:00:00Z",
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "duration": "PT1M",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

Schema = Mapping[str, Any]


def example(schema: Schema) -> Any:
    """A value for a schema: its default, or the least it asks for."""
    return _example(schema, schema, DEEPEST)


def _example(schema: Schema, whole: Schema, depth: int) -> Any:
    for fixed in ("default", "const"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("examples") or schema.get("enum"):
        return (schema.get("examples") or schema["enum"])[0]
    if depth == 0:
        return None
    if "$ref" in schema:
        return _example(_definition(schema["$ref"], whole), whole, depth - 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return _example(schema[choice][0], whole, depth - 1)
    return _BY_TYPE.get(schema.get("type", ""), _nothing)(schema, whole, depth)


def _definition(reference: str, whole: Schema) -> Schema:
    found: Any = whole.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return found if isinstance(found, Mapping) else {}


def _nothing(_schema: Schema, _whole: Schema, _depth: int) -> None:
    return None


def _object(schema: Schema, whole: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: _example(part, whole, depth - 1) for name, part in properties.items()}


def _array(schema: Schema, whole: Schema, depth: int) -> list[Any]:
    return [_example(schema.get("items", {}), whole, depth - 1)] * min(schema.get("minItems", 0), 10)


def _string(schema: Schema, _whole: Schema, _depth: int) -> str:
    least: str = "x" * min(schema.get("minLength", 0), 100)
    return FORMATS.get(str(schema.get("format")), least)


def _number(schema: Schema, _whole: Schema, _depth: int) -> Any:
    return schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else schema.get("minimum", 0)


def _boolean(_schema: Schema, _whole: Schema, _depth: int) -> bool:
    return False


_BY_TYPE: dict[str, Callable[[Schema, Schema, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
}


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


def page(shown: ShownChart, every: Iterable[ShownChart]) -> str:
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


def _entry(shown: ShownChart, *, current: bool) -> str:
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
