"""Drawings and tables: complete, valid for whatever a chart is called, and the same every time."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings

from headway.drawing import draw
from headway.errors import DrawingError, GraphvizMissingError, InputError
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.drawings import labels
from headway.statechart.drawings.dot import LONGEST_NAME, dot
from headway.statechart.drawings.mermaid import mermaid
from headway.statechart.drawings.tables import state_table, transition_table
from headway.statechart.export import from_document
from tests.statechart.sample_charts import CHARTS, HOSTILE, Expense, Order, Status, charts

pytestmark = pytest.mark.mission("ENG-18")

every_chart = pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS.keys())
DOT = shutil.which("dot") or "dot"
SVG = "{http://www.w3.org/2000/svg}"


def hostile_chart() -> Chart:
    """A chart whose names and texts are made to break out of every notation."""
    states: list[dict[str, object]] = [
        {"id": name, "meaning": name, "waits_for": f"{name}\n{name}"} for name in HOSTILE
    ]
    rows: list[dict[str, object]] = [
        {
            "name": name,
            "source": name,
            "events": [f"{name}!"],
            "targets": [HOSTILE[0]],
            "by": [name, "a\n--> b", "direction LR"],
        }
        for name in HOSTILE
    ]
    rows.append({"name": "*", "source": "*", "events": ["<x>"], "when": [{"type": "call", "name": "]:;\n}"}]})
    document = {
        "headway": 1,
        "name": '"];<x>',
        "initial": [HOSTILE[0]],
        "states": states,
        "transitions": rows,
    }
    return from_document(document)


def graph(chart: Chart, **options: Any) -> dict[str, Any]:
    """The drawing as Graphviz itself reads it."""
    source = dot(chart, **options).encode()
    read = subprocess.run([DOT, "-Tdot_json"], input=source, capture_output=True, check=True)
    assert read.stderr == b""
    found: dict[str, Any] = json.loads(read.stdout)
    return found


def shown(svg: bytes) -> list[str]:
    """The texts of an SVG drawing, which must be well-formed XML."""
    root = ET.fromstring(svg)  # noqa: S314 - our own drawing, just made
    assert root.tag == f"{SVG}svg"
    return [(element.text or "").replace("\xa0", " ") for element in root.iter(f"{SVG}text")]


@every_chart
def test_a_drawing_names_every_state(chart: Chart) -> None:
    """Graphviz draws every chart, and each state can be read in the picture."""
    texts = shown(asyncio.run(draw(chart)))
    assert {labels.cut(name, LONGEST_NAME) for name in chart.nodes} <= set(texts)


@every_chart
def test_boxes_and_arrows_are_those_of_the_chart(chart: Chart) -> None:
    """A node for each simple state, a cluster for each that holds others, every transition on an arrow."""
    drawn = graph(chart)
    ids = {each["id"] for each in drawn["objects"] if str(each.get("id", "")).startswith("state-")}
    assert ids == {f"state-{node.index}" for node in chart.nodes.values()}
    clusters = {each["name"] for each in drawn["objects"] if each["name"].startswith("cluster_")}
    assert clusters == {f"cluster_{node.index}" for node in chart.nodes.values() if node.children}
    said = " ".join(each.get("label", "") for each in (*drawn["objects"], *drawn["edges"]))
    for row in chart.model.transitions:
        assert labels.cut(labels.trigger(chart, row), 24).rstrip("…") in said.replace("&gt;", ">")


def test_arrows_between_the_same_states_are_one() -> None:
    """Two transitions from review to rejected share an arrow, with a line for each."""
    chart = Expense.chart
    ends = [(f"n{chart.nodes[a].index}", f"n{chart.nodes[b].index}") for a, b in [("review", "rejected")]]
    drawn = graph(chart)
    names = {each["_gvid"]: each["name"] for each in drawn["objects"]}
    found = [edge for edge in drawn["edges"] if (names[edge["tail"]], names[edge["head"]]) in ends]
    assert len(found) == 1
    assert "reject" in found[0]["label"]
    assert "deadline 2d" in found[0]["label"]


def test_any_live_state_is_drawn_once() -> None:
    """Forty states that can be cancelled need one arrow, not forty."""
    drawn = graph(Order.chart)
    names = {each["_gvid"]: each["name"] for each in drawn["objects"]}
    assert sorted(names[edge["head"]] for edge in drawn["edges"] if names[edge["tail"]] == "any") == sorted(
        f"n{Order.chart.nodes[name].index}" for name in ("cancelled", "failed")
    )


def test_many_long_arrows_become_signs() -> None:
    """Where many arrows lead out of boxes to the same state, each box has a sign to it instead."""
    places = [{"id": "end", "kind": "final"}]
    rows = []
    for number in range(4):
        places += [{"id": f"box{number}", "kind": "compound"}, {"id": f"s{number}", "parent": f"box{number}"}]
        rows.append({"name": f"t{number}", "source": f"s{number}", "events": ["x"], "targets": ["end"]})
    document = {"headway": 1, "name": "C", "initial": ["box0"], "states": places, "transitions": rows}
    few = {**document, "transitions": rows[:3]}
    assert dot(from_document(document)).count("label=<→ end>") == 4
    assert "→ end" not in dot(from_document(few))


def test_arrows_meet_the_borders_of_boxes() -> None:
    """An arrow to or from a state that holds others ends at its border, unless it stays inside."""
    nodes = Order.chart.nodes
    edges = graph(Order.chart)["edges"]
    heads = {edge["lhead"] for edge in edges if "lhead" in edge} | {e["ltail"] for e in edges if "ltail" in e}
    assert {f"cluster_{nodes[name].index}" for name in ("active", "appeal", "archiving", "filling")} <= heads
    assert f"in{nodes['filling'].index}" in {each["name"] for each in graph(Order.chart)["objects"]}


def test_what_comes_first_stands_first() -> None:
    """Arrows back to earlier states are laid out backwards, so that a life reads from top to bottom."""
    plain = subprocess.run([DOT, "-Tplain"], input=dot(Order).encode(), capture_output=True, check=True)
    words = [line.split() for line in plain.stdout.decode().splitlines() if line.startswith("node n")]
    heights = {word[1]: float(word[3]) for word in words}
    path = ("created", "queued", "preparing", "routing", "pricing", "page", "packing", "sending", "verifying")
    ranks = [heights[f"n{Order.chart.nodes[name].index}"] for name in path]
    assert ranks == sorted(ranks, reverse=True)


def test_active_states_are_filled() -> None:
    """The highlighted states, and only those, have the colour of activity."""
    source = dot(Order, highlight=["routing", "working"])
    assert source.count("#fde68a") == 2
    assert "#fde68a" not in dot(Order)
    assert mermaid(Order, highlight=["routing", "working"]).endswith("class working,routing active\n")


def test_a_title_can_be_left_out() -> None:
    """With the title go the name and the legend."""
    assert "version 2" in dot(Expense)
    assert "version 2" not in dot(Expense, title=False)


def test_hostile_names_are_drawn_as_text() -> None:
    """Quotes, brackets, markup and control characters are shown, not obeyed, by the real Graphviz."""
    chart = hostile_chart()
    texts = shown(asyncio.run(draw(chart)))
    assert {labels.cut(name, LONGEST_NAME) for name in HOSTILE} <= set(texts)
    assert asyncio.run(draw(chart, "png")).startswith(b"\x89PNG")


@settings(max_examples=15, deadline=None)
@given(charts)
def test_any_chart_is_drawn(chart: Chart) -> None:
    """Graphviz accepts, without a warning, whatever charts there can be."""
    drawn = subprocess.run([DOT, "-Tsvg"], input=dot(chart).encode(), capture_output=True, check=True)
    assert drawn.stderr == b""
    assert {labels.cut(name, LONGEST_NAME) for name in _named(chart)} <= set(shown(drawn.stdout))


def _named(chart: Chart) -> list[str]:
    return [node.id for node in chart.nodes.values() if node.kind not in {"shallow", "deep"}]


def test_a_missing_graphviz_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Graphviz the error names the package and the command that installs it."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GraphvizMissingError, match="sudo apt-get install graphviz"):
        asyncio.run(draw(Expense))


def program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts another `dot` first on the PATH."""
    path = folder / "dot"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no such font >&2; exit 1", "no such font"),
        ("exec tail -f /dev/null", "still drawing after 0.2 s"),
    ],
)
def test_a_failing_graphviz_is_said(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fails or never ends is a DrawingError with what it said."""
    program(tmp_path, script, monkeypatch)
    with pytest.raises(DrawingError, match=message):
        asyncio.run(draw(Expense, timeout=0.2))


def test_other_formats_are_refused() -> None:
    """Only what is promised reaches the command line of Graphviz."""
    with pytest.raises(InputError, match="svg or png"):
        asyncio.run(draw(Expense, "svg -o/tmp/x"))  # type: ignore[arg-type]  # what a caller might pass on


TEXT = r"(?:[^#;:\"<>{}%&`*\n]|#\d+;)+"
ID = r"[A-Za-z]\w*"
STATEMENTS = (
    rf"(?P<starts>\[\*\] --> (?P<first>{ID}))",
    rf"(?P<ends>(?P<last>{ID}) --> \[\*\])",
    rf"(?P<arrow>(?P<tail>{ID}) --> (?P<head>{ID}) : {TEXT})",
    rf'(?P<box>state "{TEXT}" as (?P<opened>{ID}) \{{)',
    rf'(?P<state>state "{TEXT}" as (?P<declared>{ID}))',
    rf"(?P<note>(?P<noted>{ID}) : {TEXT})",
    r"(?P<close>\})",
    r"(?P<divider>--)",
    r"(?P<style>classDef active [\w:#,-]+|class \w+(?:,\w+)* active)",
)
STATEMENT = re.compile("|".join(STATEMENTS))
DIRECTION = re.compile(r"direction\s+(TB|BT|LR|RL)", re.IGNORECASE)


def parsed(text: str) -> list[re.Match[str]]:
    """The statements of a Mermaid state diagram; boxes are closed, and what is used is declared."""
    header, *lines = text.splitlines()
    assert header == "stateDiagram-v2"
    found = []
    for line in lines:
        match = STATEMENT.fullmatch(line.strip())
        assert match, line
        assert not DIRECTION.search(line)
        found.append(match)
    used = {m[name] for m in found for name in ("first", "last", "tail", "head", "noted") if m[name]}
    declared = [m["declared"] or m["opened"] for m in found if m["declared"] or m["opened"]]
    assert len(declared) == len(set(declared))
    assert used <= set(declared)
    assert sum(bool(m["box"]) - bool(m["close"]) for m in found) == 0
    return found


@every_chart
def test_mermaid_shows_the_chart(chart: Chart) -> None:
    """Every state is declared, boxes are boxes, parallel regions are divided, every transition is written."""
    found = parsed(mermaid(chart))
    simple = [node for node in chart.nodes.values() if not node.children]
    assert len([m for m in found if m["state"]]) - len(simple) in range(4)
    assert len([m for m in found if m["box"]]) == len(chart.nodes) - len(simple)
    parallel = [node for node in chart.nodes.values() if node.kind == "parallel"]
    assert len([m for m in found if m["divider"]]) == sum(len(node.children) - 1 for node in parallel)
    outermost = {name: node.top.id for name, node in chart.nodes.items()}
    lands = [{*row.lands} - {outermost.get(row.source)} for row in chart.model.transitions]
    moves = sum(len(row.targets) for row in chart.model.transitions) + sum(map(len, lands))
    defaults = sum(len(node.completion) for node in simple if node.kind in {"shallow", "deep"})
    assert len([m for m in found if m["arrow"]]) == moves + defaults


def test_mermaid_says_what_a_table_would() -> None:
    """Guards, roles, duties, timers, asks, work and effects stand in the diagram."""
    text = mermaid(Expense)
    for line in (
        "draft --> review : submit (employee) [has_receipt and amount #62; 0]",
        "review --> rejected : deadline 2d",
        "draft --> failed : after patience",
        "paying --> rejected : work fails#58; declined",
        "review : ask manager ≤ 2d",
        "paying : run pay ×5 ≤ 1m",
        "any_live_ --> failed : but paying (employee)",
    ):
        assert line in text or line.replace(": but", ": withdraw but") in text
    assert "(H#42;) back" in mermaid(Order)


def test_hostile_names_are_mermaid_text() -> None:
    """No name can end a statement or begin one, and reserved words are not used as identifiers."""
    found = parsed(mermaid(hostile_chart(), highlight=HOSTILE))
    identifiers = {m["declared"] for m in found if m["declared"]}
    assert identifiers.isdisjoint({"end", "State", "direction", "__proto__"})


@settings(max_examples=100, deadline=None)
@given(charts)
def test_any_chart_is_mermaid(chart: Chart) -> None:
    """Whatever a chart is called, its diagram keeps to the grammar."""
    parsed(mermaid(chart))


def cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, unescaped."""
    rows = [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in table.splitlines()]
    return [[re.sub(r"\\(.)", r"\1", cell.strip()) for cell in row] for row in rows]


def test_the_transition_table_says_all() -> None:
    """From, event, to, who, guard, effects and meaning, in the order of the definition."""
    heads, _, *rows = cells(transition_table(Expense))
    assert heads == ["From", "Event", "To", "Who", "Guard", "Effects", "Meaning"]
    assert rows[:4] == [
        ["draft", "submit", "review", "employee", "has_receipt and amount > 0", "", "hand it in"],
        ["draft", "after patience", "failed", "", "", "", ""],
        ["review", "comment", "(stays)", "manager", "", "count comments", ""],
        ["review", "approve", "paying", "manager; not who did submit; no agent", "", "emit ok", ""],
    ]
    assert [row[:3] for row in rows[5:]] == [
        ["review", "deadline 2d", "rejected"],
        ["paying", "work done", "paid"],
        ["paying", "work fails: declined", "rejected"],
        ["paying", "work fails", "failed"],
        ["any live state but paying", "withdraw", "failed"],
    ]
    assert "computed: ended" in transition_table(Status)


def test_the_state_table_says_all() -> None:
    """State, meaning, what it waits for, work or ask, and where it ends."""
    assert cells(state_table(Expense))[2:] == [
        ["draft", "being written", "the employee", "", ""],
        ["review", "", "an answer from manager", "ask manager ≤ 2d", ""],
        ["paying", "", "work", "run pay ×5 ≤ 1m", ""],
        ["paid", "", "", "", "yes"],
        ["rejected", "", "", "", "yes"],
        ["failed", "", "", "", "yes"],
    ]
    assert "| · · · filled |  |  |  | of filling |" in state_table(Order)


@settings(max_examples=50, deadline=None)
@given(charts)
def test_any_chart_has_whole_tables(chart: Chart) -> None:
    """No text breaks a line or a column."""
    for table, length in ((transition_table(chart), len(chart.arcs)), (state_table(chart), len(chart.nodes))):
        rows = cells(table)
        assert len(rows) == length + 2
        assert {len(row) for row in rows} == {len(rows[0])}
    assert [row[0].lstrip("· ").partition(" (")[0] for row in cells(state_table(chart))[2:]] == [
        labels.plain(name) for name in chart.nodes
    ]


def test_every_action_has_words() -> None:
    """A new kind of action cannot be forgotten."""
    assert set(labels._EFFECTS) == set(get_args(model.Action))


@every_chart
def test_drawings_are_the_same_every_time(chart: Chart) -> None:
    """Generated pages change only when their chart does."""
    again = Chart(chart.model, chart.functions, chart.types)
    for write in (dot, mermaid, transition_table, state_table):
        assert write(chart) == write(again)
