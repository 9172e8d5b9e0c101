"""The statuses by which parents count their children: one that is gone is waited for in vain."""

from __future__ import annotations

from collections.abc import Iterator

from headway.errors import ExpressionError
from headway.statechart import model
from headway.statechart.chart import Chart, all_actions
from headway.statechart.expressions.parser import Literal, Name, Path, parse_node, walk

CHILDREN = "children"


def spawns(parent: Chart, child: str) -> bool:
    """Whether a chart says that it has children of this name."""
    return any(isinstance(do, model.Spawn) and do.chart == child for do in all_actions(parent.model))


def counted_in_vain(parent: Chart, old: Chart, new: Chart) -> tuple[str, ...]:
    """The statuses that a parent asks for by name, and that its children lose with a new version of theirs.

    None when it asks for one that is new with that version: it was made for both. What functions ask for
    cannot be seen.
    """
    before, after = ({node.id for node in chart.root.children} for chart in (old, new))
    if before <= after:
        return ()
    counted = {name for text in _conditions(parent.model) for name in _counted(text)}
    return () if counted & (after - before) else tuple(sorted(counted & (before - after)))


def _conditions(whole: model.Model) -> Iterator[str]:
    for state in whole.states:
        if state.where is not None:
            yield state.where
    for row in whole.transitions:
        for condition in (*row.when, row.after):
            if isinstance(condition, model.Formula):
                yield condition.text
    for action in all_actions(whole):
        if isinstance(action, model.If):
            yield from (branch.when for branch in action.branches if branch.when is not None)


def _counted(text: str) -> Iterator[str]:
    try:
        parts = list(walk(parse_node(text)))
    except ExpressionError:
        return
    for part in parts:
        if isinstance(part, Path) and isinstance(part.start, Name) and part.start.name == CHILDREN:
            first = part.steps[0]
            if isinstance(first, Literal):
                yield str(first.value)
