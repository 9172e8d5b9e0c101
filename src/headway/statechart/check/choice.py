"""Choices between transitions, or between rules of a computed status: none hides another, and each ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from headway.statechart.check.analysis import Analysis, hides, order_decides
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.explore.explore import Denial
from headway.statechart.model import ROOT
from headway.statechart.tree import Arc, StateNode, entry_set


def ambiguous(analysis: Analysis) -> Iterator[Finding]:
    """Rows that an earlier row of the same state hides, and pairs whose order decides silently."""
    for first, second in analysis.rivals:
        if not analysis.is_reached(first.source.id) and first.source.id != ROOT:
            continue
        place = "" if first.source.id == ROOT else first.source.id
        path = analysis.path(first.source.id)
        events = hides(first, second)
        if events:
            message = (
                f"{_name(second)} never gets {', '.join(events)}: {_name(first)} comes first and takes all"
            )
            yield error("ambiguous-transitions", message, state=place, transition=second.name, path=path)
        elif roles := order_decides(first, second):
            message = (
                f"{_name(first)} and {_name(second)} wait for the same event from "
                f"{', '.join(sorted(roles))}: only their order decides"
            )
            yield warning("ambiguous-transitions", message, state=place, transition=second.name, path=path)


def _name(arc: Arc) -> str:
    goal = ", ".join(arc.model.targets or arc.model.lands)
    return f"{arc.name} (to {goal})" if goal else arc.name


def eventless_loops(analysis: Analysis) -> Iterator[Finding]:
    """Rows that follow each other round in a circle by themselves, with no guard to end it."""
    reported: set[str] = set()
    for circle in _circles(analysis):
        reported.update(arc.name for arc in circle)
        first = circle[0]
        yield error(
            "eventless-loop",
            f"{' → '.join(each.source.id for each in (*circle, first))} never comes to rest: "
            "every step into it is refused",
            state=first.source.id,
            transition=first.name,
            path=analysis.path(first.source.id) or analysis.graph_paths.get(first.source.id, ()),
        )
    yield from _runaways(analysis, reported)


def _runaways(analysis: Analysis, reported: set[str]) -> Iterator[Finding]:
    """Steps that never come to rest, whatever the guards answer, unless their rows are reported already."""
    for denial in analysis.explored.denials:
        names = _repeated(denial.transitions)
        if denial.code != "runaway" or denial.guarded or reported.intersection(names):
            continue
        reported.update(names)
        before = () if denial.source is None else analysis.explored.path(denial.source)
        yield error(
            "eventless-loop",
            f"{' → '.join(names) or denial.label} never comes to rest: {denial.message}",
            transition=names[0] if names else "",
            path=before if denial.label == "start" else (*before, denial.label),
        )


def _repeated(names: tuple[str, ...]) -> list[str]:
    """Those that come more than once, in order."""
    return [name for name, times in Counter(names).items() if times > 1]


def _circles(analysis: Analysis) -> Iterator[list[Arc]]:
    """The circles of unguarded eventless rows."""
    free = {arc.source.index: arc for arc in reversed(analysis.chart.arcs) if _runs_by_itself(arc)}
    reported: set[int] = set()
    for arc in sorted(free.values(), key=lambda arc: arc.index):
        circle = _circle(free, arc)
        if circle and not reported.intersection(each.index for each in circle):
            reported.update(each.index for each in circle)
            yield circle


def _runs_by_itself(arc: Arc) -> bool:
    return not arc.model.events and not arc.guards and not arc.excludes and arc.source.id != ROOT


def _circle(free: dict[int, Arc], start: Arc) -> list[Arc]:
    """The rows that follow a row by themselves, when they come back to it."""
    chain: list[Arc] = []
    arc: Arc | None = start
    while arc is not None and arc not in chain:
        chain.append(arc)
        arc = _next(free, arc)
    return [] if arc is None else chain[chain.index(arc) :]


def _next(free: dict[int, Arc], arc: Arc) -> Arc | None:
    """The row that fires by itself once this one has; a row that moves nothing fires again."""
    if arc.domain is None:
        return arc
    entering = entry_set(arc.targets, arc.domain, {})
    for node in entering.ordered()[::-1] if entering is not None else ():
        if node.atomic:
            return _first(free, node)
    return None


def _first(free: dict[int, Arc], leaf: StateNode) -> Arc | None:
    return next((free[node.index] for node in leaf.upward if node.index in free), None)


def landings(analysis: Analysis) -> Iterator[Finding]:
    """Rows that can land in a state they do not declare."""
    reported: set[tuple[str, ...]] = set()
    for denial in analysis.explored.denials:
        source = _source(analysis, denial)
        place = (denial.transitions[0] if denial.transitions else "", source)
        if denial.code == "landing" and place not in reported:
            reported.add(place)
            yield error(
                "computed-wrong-landing",
                f"{denial.message}: the step would be refused",
                state=source,
                transition=place[0],
                path=_path(analysis, denial),
            )


def gaps(analysis: Analysis) -> Iterator[Finding]:
    """Facts that can come about and that no rule covers, or on which a rule fails."""
    reported: set[tuple[str, str]] = set()
    for denial in analysis.explored.denials if analysis.chart.computed else ():
        place = (denial.transitions[0] if denial.transitions else "start", denial.message)
        if denial.code == "fault" and place not in reported:
            reported.add(place)
            yield error(
                "computed-gap",
                f"after {place[0]} {denial.message}: the step would be refused",
                state=_source(analysis, denial),
                transition=denial.transitions[0] if denial.transitions else "",
                path=_path(analysis, denial),
            )


def _source(analysis: Analysis, denial: Denial) -> str:
    return "" if denial.source is None else analysis.explored.nodes[denial.source].snapshot.state


def _path(analysis: Analysis, denial: Denial) -> tuple[str, ...]:
    before = () if denial.source is None else analysis.explored.path(denial.source)
    return (*before, denial.label)


def overlaps(analysis: Analysis) -> Iterator[Finding]:
    """Rules that hold at once though they are exclusive; where the first wins, rules that never can."""
    check = {"exclusive": _exclusive, "first": _hidden}.get(analysis.chart.model.computed or "")
    if check is not None:
        yield from check(analysis)


def _exclusive(analysis: Analysis) -> Iterator[Finding]:
    explored = analysis.explored
    reported: set[tuple[str, str]] = set()
    for node in explored.nodes:
        for reading in explored.facts.readings():
            holding = [state.id for state in explored.facts.holding(node.snapshot, reading)]
            for pair in pairwise(holding):
                if pair not in reported:
                    reported.add(pair)
                    yield error(
                        "computed-overlap",
                        f"the rules of {' and '.join(pair)} hold at once, though they are declared exclusive",
                        state=pair[1],
                        path=explored.path(node.index),
                    )


def _hidden(analysis: Analysis) -> Iterator[Finding]:
    for state, others in analysis.hidden_rules.items():
        yield error(
            "computed-overlap",
            f"the rule of {state} never decides: when it holds, so does an earlier one ({', '.join(others)})",
            state=state,
        )
