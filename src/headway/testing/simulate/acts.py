"""What lines of history say was done: the actions that the chart has for them, whatever came of these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from headway.statechart.chart import Chart
from headway.statechart.model import Action, Call, Count, ForEach, If, Send
from headway.statechart.step.duties import needs_votes
from headway.statechart.tree import Arc
from headway.store.rows import HistoryRow

UPGRADE, UNDO = "chart.upgrade", "chart.undo"
KNOWN = 4_000
HERE = frozenset({None, "", "#_internal"})
"""Targets of what an instance sends to itself."""


@dataclass(frozen=True, eq=False)
class Acts:
    """Actions that were run, those that may have been, and whether there may have been others."""

    sure: tuple[Action, ...] = ()
    perhaps: tuple[Action, ...] = ()
    others: bool = False

    @cached_property
    def errors(self) -> int | None:
        """How many errors they have counted; None when the chart alone does not say."""
        counts = [each for each in self.sure if isinstance(each, Count) and each.name == "errors"]
        perhaps = any(isinstance(each, Count) and each.name == "errors" for each in self.perhaps)
        if self.others or perhaps or any(each.expr is not None for each in counts):
            return None
        return sum(each.by for each in counts)


NONE = Acts()


def acts_of(chart: Chart, line: HistoryRow) -> Acts:
    """What was done in a step, by the line it has left; `chart` is of the line's version."""
    if line.transition in {UPGRADE, UNDO} or (line.event, line.transition) == ("work.failed", "retry"):
        return NONE
    return _acts(chart, line.before, line.transition, line.after)


@lru_cache(KNOWN)
def active(chart: Chart, states: str) -> frozenset[str]:
    """All states that are active when these are."""
    if not states:
        return frozenset()
    return frozenset(node.id for node in chart.configuration(tuple(states.split("+"))))


@lru_cache(KNOWN)
def arcs_from(chart: Chart, before: str) -> dict[str, list[Arc]]:
    """The transitions that a chart has somewhere, by name."""
    places = active(chart, before)
    found: dict[str, list[Arc]] = {}
    for arc in chart.arcs:
        source = arc.model.source
        if not source or source in places or source not in chart.nodes:
            found.setdefault(arc.name, []).append(arc)
    return found


@lru_cache(KNOWN)
def _acts(chart: Chart, before: str, transition: str, after: str) -> Acts:
    if chart.scripted:
        return Acts(others=True)  # an action that fails ends its block there, and the step goes on
    sure: list[Action] = [] if before else [*chart.model.initial_actions]
    perhaps = _by_default(chart)
    for name in transition.split(", ") if before else ():
        arcs = arcs_from(chart, before).get(name, [])
        (sure if _is_certain(arcs, before == after) else perhaps).extend(_actions(arcs))
    was, now = active(chart, before), active(chart, after)
    for node in chart.order:
        entry, leaving = node.model.entry, node.model.exit
        if node.id in now:
            # A state in which it was already may have been entered anew, and at the end all are left.
            (perhaps if node.id in was else sure).extend(_flat(entry))
            perhaps += _flat(leaving)
        elif node.id in was:
            sure += _flat(leaving)
    return Acts(tuple(sure), tuple(perhaps), any(map(_says_little, (*sure, *perhaps))))


def _is_certain(arcs: list[Arc], stays: bool) -> bool:  # noqa: FBT001 - one of two places of a line
    """Whether there is one way to take a transition; where a step stays it may have been a mere vote."""
    alike = all(arc.model.actions == arcs[0].model.actions for arc in arcs)
    return alike and not (stays and any(map(needs_votes, arcs)))


def _actions(arcs: list[Arc]) -> tuple[Action, ...]:
    alike = all(arc.model.actions == arcs[0].model.actions for arc in arcs)
    return tuple(action for arc in (arcs[:1] if alike else arcs) for action in arc.model.actions)


def _by_default(chart: Chart) -> list[Action]:
    """What comes along with states that are entered for want of another."""
    found = [action for state in chart.model.states for action in state.initial_actions]
    remembering = {state.id for state in chart.model.states if state.kind in {"shallow", "deep"}}
    rows = [row for row in chart.model.transitions if row.source in remembering]
    return [*found, *(action for row in rows for action in row.actions)]


def _flat(blocks: Iterable[tuple[Action, ...]]) -> list[Action]:
    return [action for block in blocks for action in block]


def _says_little(action: Action) -> bool:
    """Whether only a run shows what an action does."""
    if isinstance(action, Send):
        return action.target_expr is not None or action.target not in HERE
    return isinstance(action, Call | If | ForEach)
