"""The work of states: each outcome is taken, each error has a recovery, and no retry is endless."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.explore.events import error_codes, from_outside, takers
from headway.statechart.explore.explore import Edge
from headway.statechart.tree import StateNode


def cycles(edges: Iterable[Edge]) -> list[list[Edge]]:
    """The edges of each strongly connected part, in order of its first configuration."""
    known = list(edges)
    part = _components(known)
    found: dict[int, list[Edge]] = {}
    for edge in known:
        if part[edge.source] == part[edge.target]:
            found.setdefault(part[edge.source], []).append(edge)
    return sorted(found.values(), key=lambda circle: min(edge.source for edge in circle))


def _components(edges: list[Edge]) -> dict[int, int]:
    """The part each configuration belongs to (Kosaraju)."""
    onward: dict[int, list[int]] = {}
    backward: dict[int, list[int]] = {}
    for edge in edges:
        onward.setdefault(edge.source, []).append(edge.target)
        backward.setdefault(edge.target, []).append(edge.source)
    part: dict[int, int] = {}
    for root in reversed(_finished_order(onward)):
        pending = [root]
        while pending:
            index = pending.pop()
            if index not in part:
                part[index] = root
                pending += backward.get(index, ())
    return part


def _finished_order(onward: dict[int, list[int]]) -> list[int]:
    """Configurations in the order in which a depth-first walk is done with them."""
    order: list[int] = []
    seen: set[int] = set()
    for root in sorted(onward):
        pending = [(root, False)]
        while pending:
            index, done = pending.pop()
            if done:
                order.append(index)
            elif index not in seen:
                seen.add(index)
                pending.append((index, True))
                pending += [(target, False) for target in onward.get(index, ())]
    return order


RETRIED = frozenset({"timer", "done", "error"})


def outcomes(analysis: Analysis) -> Iterator[Finding]:
    """States whose work ends without anything taking its result."""
    for node in _working(analysis):
        if not takers(node, f"done.work.{node.id}") and not _ends_by_event(analysis, node):
            yield error(
                "work-without-outcome",
                f"nothing takes the result of {_handler(node)}: add {node.id}.on_done.to(...)",
                state=node.id,
                path=analysis.path(node.id),
            )


def _working(analysis: Analysis) -> Iterator[StateNode]:
    return (node for node in analysis.reached if node.model.run is not None)


def _handler(node: StateNode) -> str:
    assert node.model.run is not None
    return node.model.run.handler


def _ends_by_event(analysis: Analysis, node: StateNode) -> bool:
    """Whether the handler can end its work by an event: any but the one that cancels."""
    around = [arc for arc in analysis.leaving(node) if arc.source.parent is not None]
    events = [
        event for arc in around if arc.name != analysis.chart.model.cancel for event in arc.model.events
    ]
    return any(map(from_outside, events))


def recoveries(analysis: Analysis) -> Iterator[Finding]:
    """Error codes for which there is no row, neither of the state nor of one around it."""
    for node in _working(analysis):
        codes = [code for code in error_codes(analysis.chart, node) if not _is_taken(node, code)]
        if codes:
            yield error(
                "error-without-recovery",
                f"when {_handler(node)} fails for good with {', '.join(codes)}, nothing happens "
                f"and the instance stays in {node.id}: add {node.id}.on_error.to(...)",
                state=node.id,
                path=(*analysis.path(node.id), f"work of {node.id} fails: {codes[0]}"),
            )


def _is_taken(node: StateNode, code: str) -> bool:
    return bool(takers(node, f"error.work.{node.id}.{code}"))


def handlers(analysis: Analysis) -> Iterator[Finding]:
    """Work for which no handler is registered, when it is known which are."""
    known = analysis.handlers
    for node in analysis.chart.order if known is not None else ():
        run = node.model.run
        if run is not None and known is not None and run.handler not in known:
            yield error(
                "missing-handler",
                f"no handler {run.handler!r} is registered, so the work of {node.id} never starts",
                state=node.id,
                path=analysis.path(node.id),
            )


def retries(analysis: Analysis) -> Iterator[Finding]:
    """Retries without a limit, by policy or by rows that failures and timers drive round in a circle."""
    for node in _working(analysis):
        run = node.model.run
        assert run is not None
        if any(policy.times is None for policy in run.retry) and not _has_timer(node):
            yield error(
                "unbounded-retry",
                f"{run.handler} is tried again for ever: give Retry a number of times, or {node.id} a timer",
                state=node.id,
                path=analysis.path(node.id),
            )
    yield from _circles(analysis)


def _has_timer(node: StateNode) -> bool:
    return any(arc.targets for above in node.upward for arc in above.after)


def _circles(analysis: Analysis) -> Iterator[Finding]:
    """Circles of steps that happen by themselves, ask no guard, and that no timer around them ends."""
    explored = analysis.explored
    free = [edge for edge in explored.edges if edge.kind in RETRIED and edge.fired and not edge.guarded]
    live = {node.index for node in explored.live()}
    for circle in cycles([edge for edge in free if edge.source in live]):
        if _is_timed(analysis, circle):
            continue
        names = list(dict.fromkeys(analysis.chart.arcs[row].name for edge in circle for row in edge.fired))
        first = explored.nodes[min(edge.source for edge in circle)]
        failing = any(edge.kind == "error" for edge in circle)
        tell = error if failing else warning
        yield tell(
            "unbounded-retry",
            f"{' → '.join(names)} can go round for ever: no guard, counter, person or timer ends it",
            state=first.snapshot.state,
            transition=names[0],
            path=explored.path(first.index),
        )


def _is_timed(analysis: Analysis, circle: list[Edge]) -> bool:
    """Whether a timer of a state around the circle runs all the while and leads out of it."""
    chart, inside = analysis.chart, {edge.source for edge in circle}
    domains = [chart.arcs[row].domain for edge in circle for row in edge.fired]
    snapshots = [analysis.explored.nodes[index].snapshot for index in inside]
    common = set.intersection(*({(t.state, t.event) for t in each.timers.values()} for each in snapshots))
    for state, event in common:
        node = chart.root if state == chart.root.id else chart.nodes.get(state or "")
        if node is None or any(domain is not None and domain.holds(node) for domain in domains):
            continue
        if any(arc.targets for arc in takers(node, event)):
            return True
    return False
