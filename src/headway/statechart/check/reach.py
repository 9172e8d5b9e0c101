"""What cannot be reached, and what cannot be left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.explore.events import error_codes, takers
from headway.statechart.explore.explore import Edge, Reached
from headway.statechart.model import ROOT
from headway.statechart.tree import HISTORY


def states(analysis: Analysis) -> Iterator[Finding]:
    """States that no path leads to, finals among them, unless another finding says why."""
    reported = analysis.cut_off | analysis.hidden_rules.keys()
    for node in analysis.chart.order[1:]:
        if node.kind in HISTORY or node.id in reported or analysis.is_reached(node.id):
            continue
        if node.kind == "final":
            yield error("final-never-reached", f"no path leads to the end {node.id}", state=node.id)
        elif node.parent is None or node.parent.parent is None or analysis.is_reached(node.parent.id):
            yield error("unreachable-state", f"no path leads to {node.id}", state=node.id)


def transitions(analysis: Analysis) -> Iterator[Finding]:
    """Rows of reachable states that nothing ever takes, unless another finding says why."""
    for arc in analysis.chart.arcs:
        source = arc.source.id
        if arc.index in analysis.explained | analysis.explored.begun or analysis.can_fire(arc):
            continue
        if source != ROOT and not analysis.is_reached(source):
            continue
        place = "any live state" if source == ROOT else source
        yield error(
            "unreachable-transition",
            f"{arc.name} of {place} is never taken: its event cannot come, or another row takes it first",
            state="" if source == ROOT else source,
            transition=arc.name,
            path=analysis.path(source),
        )


def ends(analysis: Analysis) -> Iterator[Finding]:
    """A life without an end."""
    if not any(node.kind == "final" for node in analysis.chart.root.children):
        yield warning("no-final", "no state at the outermost level is final, so no instance ever ends")


def dead_ends(analysis: Analysis) -> Iterator[Finding]:
    """Configurations that nothing leads on from."""
    reported: set[tuple[str, ...]] = set()
    for node in analysis.stuck:
        if node.snapshot.states in reported or _unheard(analysis, node) or node.index in analysis.obstructed:
            continue
        reported.add(node.snapshot.states)
        yield error(
            "dead-end",
            f"no event, timer, work or child can move an instance out of {node.snapshot.state}",
            state=node.snapshot.state,
            path=analysis.explored.path(node.index),
        )


def _unheard(analysis: Analysis, node: Reached) -> bool:
    """Whether it is stuck because no row takes the outcome of its work: `check_work` reports that."""
    edge = node.parent
    if edge is None or edge.kind not in {"done", "error"} or edge.fired:
        return False
    ended = analysis.explored.nodes[edge.source].snapshot.work.keys() - node.snapshot.work.keys()
    return any(
        not takers(analysis.chart.nodes[state], event) for state, event in _outcomes(analysis, edge, ended)
    )


def _outcomes(analysis: Analysis, edge: Edge, working: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The events by which a step of this kind can end the work of some states."""
    for state in working:
        if edge.kind == "done":
            yield state, f"done.work.{state}"
        else:
            codes = error_codes(analysis.chart, analysis.chart.nodes[state])
            yield from ((state, f"error.work.{state}.{code}") for code in codes)


def traps(analysis: Analysis) -> Iterator[Finding]:
    """Configurations that move for ever without being able to end."""
    explored = analysis.explored
    ending = {node.index for node in explored.nodes if node.snapshot.ended or node.index >= explored.expanded}
    if not any(node.snapshot.ended for node in explored.nodes):
        return
    ending |= analysis.obstructed | {node.index for node in analysis.stuck}
    ending = _reaching(explored.edges, ending)
    trapped = [node for node in explored.live() if node.index not in ending]
    if trapped:
        first = trapped[0]
        yield error(
            "wait-without-way-out",
            f"once in {first.snapshot.state}, an instance moves on but can never end",
            state=first.snapshot.state,
            path=explored.path(first.index),
        )


def _reaching(edges: list[Edge], goals: set[int]) -> set[int]:
    """All configurations from which a goal can be reached."""
    incoming: dict[int, list[int]] = {}
    for edge in edges:
        incoming.setdefault(edge.target, []).append(edge.source)
    found, pending = set(goals), list(goals)
    while pending:
        fresh = [source for source in incoming.get(pending.pop(), ()) if source not in found]
        found.update(fresh)
        pending += fresh
    return found


def cancelling(analysis: Analysis) -> Iterator[Finding]:
    """Live configurations in which the declared way to cancel does not exist."""
    name = analysis.chart.model.cancel
    reported: set[tuple[str, ...]] = set()
    for node in analysis.explored.live() if name else ():
        names = {part for edge in analysis.explored.outgoing[node.index] for part in edge.names}
        cancels = any(name in each.split(", ") for each in names)
        if cancels or node.snapshot.states in reported or node.index in analysis.duty_bound:
            continue
        reported.add(node.snapshot.states)
        yield error(
            "cannot-cancel",
            f"{name} is declared to cancel, but it is not possible in {node.snapshot.state}",
            state=node.snapshot.state,
            transition=name or "",
            path=analysis.explored.path(node.index),
        )


def histories(analysis: Analysis) -> Iterator[Finding]:
    """History states that leave open where to go the first time."""
    for node in analysis.chart.order:
        if node.kind in HISTORY and not node.completion:
            yield warning(
                "history-without-default",
                f"before {node.parent.id if node.parent else 'the chart'} was ever left, "
                f"{node.id} leads to its first child: say so with otherwise=",
                state=node.id,
            )
