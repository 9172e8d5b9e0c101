"""Every form a chart can be written in, by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from headway.drawing import draw
from headway.statechart.chart import Chart
from headway.statechart.drawings.dot import dot
from headway.statechart.drawings.mermaid import mermaid
from headway.statechart.drawings.tables import state_table, transition_table
from headway.statechart.export import to_document
from headway.statechart.scxml.writer import to_scxml


class Form(NamedTuple):
    """A form: its file suffix, its media type, and what writes it (None: Graphviz does)."""

    suffix: str
    media_type: str
    write: Callable[[Chart], str] | None = None


def as_json(document: object) -> str:
    """Data as people read it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _document(chart: Chart) -> str:
    return as_json(to_document(chart))


def _tables(chart: Chart) -> str:
    return f"{state_table(chart)}\n{transition_table(chart)}"


FORMS = {
    "json": Form(".json", "application/json", _document),
    "scxml": Form(".scxml", "application/scxml+xml", to_scxml),
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
    return await draw(chart, "png" if form == "png" else "svg")
