"""A chart as Markdown tables: its transitions and its states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from headway.statechart import model
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.drawings import labels
from headway.statechart.people import spelled
from headway.statechart.tree import StateNode

_SPECIAL = re.compile(r"[\\`*\[\]<>&|~$]|(?<!\w)_|_(?!\w)")
_KINDS = {"parallel": " (parallel)", "shallow": " (history)", "deep": " (deep history)"}


def transition_table(chart: Charted) -> str:
    """One line for each transition: from where, when, to where, by whom, under which condition."""
    ready = chart_of(chart)
    rows = [_transition(ready, row) for row in ready.model.transitions]
    return _table(("From", "Event", "To", "Who", "Guard", "Effects", "Meaning"), rows)


def state_table(chart: Charted) -> str:
    """One line for each state: what it means, what it waits for, what is done in it, whether it ends."""
    nodes = chart_of(chart).order[1:]
    return _table(("State", "Meaning", "Waits for", "Work or ask", "Terminal"), map(_state, nodes))


def _transition(chart: Chart, row: model.Transition) -> Sequence[str]:
    done = "; ".join(labels.effects(row.actions))
    event = labels.trigger(chart, row)
    return labels.source_name(row), event, _target(row), labels.who(row), labels.guard(row), done, row.meaning


def _target(row: model.Transition) -> str:
    if row.lands:
        return f"computed: {' or '.join(row.lands)}"
    return " and ".join(row.targets) or "(stays)"


def _state(node: StateNode) -> Sequence[str]:
    state = node.model
    name = "· " * (len(node.path) - 1) + node.id + _KINDS.get(node.kind, "")
    return name, state.meaning, _waits_for(state), "; ".join(_work(state)), _terminal(node)


def _waits_for(state: model.State) -> str:
    if state.waits_for or state.where is not None:
        return state.waits_for or f"{state.where}"
    asked = f"an answer from {spelled(state.ask.roles)}" if state.ask else ""
    return asked or ("work" if state.run else "")


def _work(state: model.State) -> Iterator[str]:
    if state.run:
        yield labels.work(state.run)
    if state.ask:
        yield labels.ask(state.ask)


def _terminal(node: StateNode) -> str:
    if node.kind != "final":
        return ""
    around = node.upward[1]
    return "yes" if around.parent is None else f"of {around.id}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", labels.plain(text))
