"""The tables of a lifecycle's page about what events and messages carry, beside what its chart says."""

from __future__ import annotations

from headway.statechart.chart import Charted, chart_of
from headway.statechart.model import Publish
from scripts.lifecycle_pages import FOLDER

WHOLE = ("instance", "event", "data")
"""What a message carries that names no fields."""

Table = list[tuple[str, ...]]


def table_of(page: str, first: str) -> Table:
    """The lines of the table whose first column has this heading, without the marks of code."""
    lines = (FOLDER / page).read_text(encoding="utf-8").splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith(f"| {first} |")]
    rows: Table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(tuple(cell.strip().replace("`", "") for cell in line.strip("|").split("|")))
    return rows


def payloads(chart: Charted) -> Table:
    """For each event with data: what it must carry and what it may."""
    ready = chart_of(chart)
    found = {row.name: ready.types[row.takes].schema() for row in ready.model.transitions if row.takes}
    rows: Table = []
    for name, schema in found.items():
        needed = schema.get("required", [])
        optional = [field for field in schema["properties"] if field not in needed]
        rows.append((name, ", ".join(needed), ", ".join(optional)))
    return rows


def published(chart: Charted) -> Table:
    """For each message: the transition it goes with, where to, its name, and what it carries."""
    rows: Table = [
        (row.name, action.kind, action.name, ", ".join(action.fields or WHOLE))
        for row in chart_of(chart).model.transitions
        for action in row.actions
        if isinstance(action, Publish)
    ]
    return list(dict.fromkeys(rows))
