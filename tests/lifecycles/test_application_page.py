"""The page about applications says what the chart and its tables say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headway.clock import spell
from headway.lifecycles.applications.chart import Application, ApplicationCleanup
from headway.lifecycles.applications.failures import ALL, SIGNALS
from tests.lifecycles.applying import Applying, at

PAGE = Path(__file__).resolve().parents[2] / "docs/lifecycles/applications.md"
TARGETS = {
    "next": "the next engine",
    "vision": "the vision engine",
    "same": "the same engine, later",
    "restart": "a new browser",
    "human": "a person",
    "fail": "the task fails",
}


def table(*heads: str) -> list[list[str]]:
    """The rows of the page's table with these heads."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found = list(_below(lines, f"| {' | '.join(heads)} |"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def _below(lines: Sequence[str], heading: str) -> Iterator[str]:
    for line in lines[lines.index(heading) + 2 :]:
        if not line.startswith("|"):
            return
        yield line


def words(cell: str) -> list[str]:
    """What a cell has in code type."""
    return cell.split("`")[1::2]


@pytest.mark.mission("APP-ENGINE")
def test_the_signals() -> None:
    """The table of signals is that of the chart."""
    rows = table("Signal", "Retries on the same engine", "Then", "Fails with")
    assert rows == [
        [f"`{name}`", str(row.retries), TARGETS[row.target], f"`{row.code}`"] for name, row in SIGNALS.items()
    ]


@pytest.mark.mission("APP-ERR")
def test_the_error_codes() -> None:
    """The table of codes is that of the chart; recoveries that are states are marked."""
    states = Application.chart.nodes
    assert table("Code", "Category", "Retries", "Recovery", "The user reads") == [
        [
            f"`{name}`",
            row.category,
            str(row.retries),
            f"`{row.recovery}`" if row.recovery in states else row.recovery,
            row.message,
        ]
        for name, row in ALL.items()
    ]


@pytest.mark.mission("APP-T1", "APP-T8")
def test_the_status() -> None:
    """Each status leads where the chart's transitions lead."""
    top = {node.id: node.path[0].id for node in Application.chart.order[1:]}
    order = list(dict.fromkeys(top.values()))
    final = {"completed", "failed", "cancelled"}
    pairs = {
        (source, top[target])
        for row in Application.chart.model.transitions
        for source in ([top[row.source]] if row.source in top else set(order) - final)
        for target in row.targets
    }
    assert {words(status)[0]: set(words(leads)) for status, leads in table("Status", "Leads to")} == {
        status: {target for source, target in pairs if source == status} - {status} for status in order
    }


@pytest.mark.mission("APP-WS")
def test_the_phases() -> None:
    """Ranges and texts of the phases are those of the chart."""
    nodes = Application.chart.nodes
    for phase, progress, text in table("Phase", "Progress", "The user reads"):
        state = nodes[words(phase)[0]].model
        assert state.progress is not None
        assert (progress, text) == ("{}–{} %".format(*state.progress), state.says)


@pytest.mark.mission("APP-HUMAN")
def test_the_waits() -> None:
    """Each wait has its step, its time, the code it fails with, and its answers."""
    waits = table("Waits in", "`currentStep`", "Time", "Then", "Answered by")
    rows = Application.chart.model.transitions
    for state, step, time, then, answers in waits:
        life = at(words(state)[0])
        ask = Application.chart.nodes[words(state)[0]].model.ask
        assert ask is not None
        assert ask.deadline is not None
        assert (life.record["currentStep"], spell(ask.deadline)) == (words(step)[0], time)
        events = {event for row in rows if row.source == words(state)[0] for event in row.events if row.by}
        assert set(words(answers)) == events
        life.advance(time)
        life.work_done({}) if life.is_in("last_look") else None
        assert life.record["errorCode"] == (words(then)[1] if words(then) else None)
    assert [words(row[0])[0] for row in waits] == [
        node.id for node in Application.chart.order if node.model.ask
    ]


@pytest.mark.mission("APP-DUR")
def test_the_work() -> None:
    """Each handler is named with its states and its time."""
    charts = (Application.chart, ApplicationCleanup.chart)
    runs = [(state.id, state.run) for chart in charts for state in chart.model.states if state.run]
    found = {words(work)[0]: (set(words(states)), time) for work, states, time, _ in work_table()}
    assert found == {
        run.handler: (
            {state for state, other in runs if other.handler == run.handler},
            spell(run.timeout) if run.timeout else "",
        )
        for _, run in runs
    }


def work_table() -> list[list[str]]:
    """The table of the work."""
    return table("Work", "In", "At most", "Its result")


@pytest.mark.mission("APP-WS")
def test_the_live_events() -> None:
    """What the page says of live events is what they carry."""
    told = [at("completed"), at("failed"), at("reviewing"), at("waiting_answer"), Applying()]
    for event, _, carried in table("Event", "When", "Carries"):
        name = words(event)[0]
        data = [each for life in told for each in life.told(name) if "taskId" in each]
        keys = {key for each in data for key in each}
        keys |= {key for each in data for field in each.get("fields", ()) for key in field}
        assert keys == set(words(carried)), name


@pytest.mark.mission("APP-EV")
def test_the_event_log() -> None:
    """The page names the types that the chart writes."""
    model = Application.chart.model
    actions = [action for row in model.transitions for action in row.actions]
    actions += [action for state in model.states for block in state.entry for action in block]
    logged = {str(action.label) for action in actions if hasattr(action, "label")}
    assert {words(kind)[0] for kind, _ in table("Type", "Data")} == logged
