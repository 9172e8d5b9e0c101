"""The step of the core does what SCXML prescribes: the SCION tests, with a clock that is a number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headway.statechart import model
from headway.statechart.chart import Chart, all_actions
from headway.statechart.expressions.expressions import PlainScope, parse
from headway.statechart.scxml.document import from_scxml
from headway.statechart.snapshot import Event, Snapshot, timer_fired
from headway.statechart.step.step import Step, start, step

MATERIAL = Path(__file__).parent / "scion"
CHARTS = sorted(MATERIAL.glob("*/*.scxml"))
# Their README tells why: here the second expectation is the one of SCXML's algorithm.
SECOND_IS_RIGHT = {"more-parallel/test10", "more-parallel/test10b"}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Session:
    """A chart that runs, and the time it is there."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.now = BEGIN
        begun = start(chart, "session", now=self.now)
        assert isinstance(begun, Step), begun
        self.begun: Step = begun
        self.snapshot: Snapshot = begun.snapshot

    @property
    def states(self) -> list[str]:
        """The active states without children, by name."""
        return sorted(self.snapshot.states)

    def first_states(self) -> list[list[str]]:
        """Where the start pauses: where an event that the chart sent to itself comes in, and at the end.

        SCION takes such events later, with the first event of the script; a step goes on with them at once.
        """
        sent = set(self._sent())
        return [self.states, *(sorted(row.before) for row in self.begun.history if row.event in sent)]

    def _sent(self) -> Iterator[object]:
        scope = PlainScope(self.snapshot.context)
        for action in all_actions(self.chart.model):
            if isinstance(action, model.Send):
                yield parse(action.event_expr).evaluate(scope) if action.event_expr else action.event

    def send(self, event: Event) -> None:
        """Send an event; SCXML discards one that nobody takes."""
        taken = step(self.chart, self.snapshot, event, self.now)
        if isinstance(taken, Step):
            self.snapshot = taken.snapshot

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and each timer that becomes due fire at its time."""
        until = self.now + timedelta(milliseconds=milliseconds)
        while due := [(timer.due, key) for key, timer in self.snapshot.timers.items() if timer.due <= until]:
            self.now, first = min(due, key=lambda pair: pair[0])
            self.send(timer_fired(first))
            assert first not in self.snapshot.timers
        self.now = until


def name_of(chart: Path) -> str:
    """`GROUP/NAME` of a chart's file."""
    return f"{chart.parent.name}/{chart.name.removesuffix('.scxml')}"


def script_of(chart: Path) -> dict[str, Any]:
    """The events and configurations that belong to a chart."""
    script: dict[str, Any] = json.loads(chart.with_suffix(".json").read_text(encoding="utf-8"))
    second: dict[str, Any] = script.get("legacySemantics", {})
    return second if name_of(chart) in SECOND_IS_RIGHT else script


@pytest.mark.mission("ENG-1", "ENG-18")
@pytest.mark.parametrize("path", CHARTS, ids=name_of)
def test_a_chart_of_scion_goes_through_the_expected_configurations(path: Path) -> None:
    """Each event leads to the configuration that SCXML prescribes."""
    script = script_of(path)
    files = {f"file:{each.name}": each.read_text(encoding="utf-8") for each in path.parent.glob("*.txt")}
    session = Session(from_scxml(path.read_bytes(), files))
    assert sorted(script["initialConfiguration"]) in session.first_states()
    seen, expected = [], []
    for entry in script["events"]:
        session.wait(entry.get("after", 0))
        if entry["event"]["name"]:  # without a name it only lets time pass
            session.send(Event(entry["event"]["name"], entry["event"].get("data")))
        seen.append(session.states)
        expected.append(sorted(entry["nextConfiguration"]))
    assert seen == expected
