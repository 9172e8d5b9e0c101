"""The page about supervision shows the charts as they are."""

import re

import pytest

from headway.lifecycles.supervision.chart import Job, Supervisor, Worker
from headway.statechart.define import Statechart
from headway.statechart.table import state_table, transition_table
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs/lifecycles"
PAGE = FOLDER / "supervision.md"


@pytest.mark.mission("SUP-W", "SUP-J")
@pytest.mark.parametrize("chart", [Worker, Job, Supervisor])
def test_the_tables_are_those_of_the_charts(chart: type[Statechart]) -> None:
    """Every state and transition of a chart stands on the page, and none that it does not have."""
    shown = f"<!-- table: {chart.__name__} -->\n\n{state_table(chart)}\n{transition_table(chart)}"
    assert f"{shown}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.mission("SUP-W", "SUP-J")
@pytest.mark.parametrize("chart", [Worker, Job])
def test_the_drawings_are_those_of_the_charts(chart: type[Statechart]) -> None:
    """Every state of a chart, and every event that somebody sends, is on its drawing."""
    name = chart.chart.name.replace(".", "-")
    drawing = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    events = {row.events[0] for row in chart.chart.model.transitions if row.by}
    assert [word for word in (*chart.chart.nodes, *events) if not re.search(rf">{word}\b", drawing)] == []
    assert f"({name}.svg)" in PAGE.read_text(encoding="utf-8")
