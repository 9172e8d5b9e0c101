"""The analysis that all checks read: the chart, its exploration, and what the graph alone allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import combinations, islice

from headway.statechart.chart import Chart
from headway.statechart.explore.explore import Edge, Exploration, Reached
from headway.statechart.model import ANY, ROOT
from headway.statechart.tree import HISTORY, Arc, StateNode, descriptor, entry_set, names_matching

MOST_PAIRS = 100_000


class Analysis:
    """A chart, its exploration, and what follows from both."""

    def __init__(
        self, chart: Chart, explored: Exploration, handlers: Collection[str] | None, limit: int
    ) -> None:
        self.chart = chart
        self.explored = explored
        self.handlers = handlers
        self.limit = limit

    def path(self, state: str) -> tuple[str, ...]:
        """The shortest path to a state; over the graph alone where exploration did not get that far."""
        found = self.explored.path_to_state(state)
        return self.graph_paths.get(state, ()) if found is None else found

    @cached_property
    def exhaustive(self) -> bool:
        """Whether all was seen: no limit was hit, and no step was refused that another finding is about."""
        refused = {denial.code for denial in self.explored.denials}
        return self.explored.complete and refused.isdisjoint({"runaway", "landing", "fault"})

    def is_reached(self, state: str) -> bool:
        """Whether a state can be reached; in doubt, yes."""
        if state in self.explored.passed:
            return True
        return not self.exhaustive and state in self.graph_paths

    def can_fire(self, arc: Arc) -> bool:
        """Whether a row can be taken; in doubt, yes."""
        return arc.index in self.explored.fired or not self.exhaustive

    @cached_property
    def reached(self) -> list[StateNode]:
        """The states that can be reached, in document order."""
        return [
            node for node in self.chart.order[1:] if node.kind not in HISTORY and self.is_reached(node.id)
        ]

    @cached_property
    def graph_paths(self) -> dict[str, tuple[str, ...]]:
        """For each state the graph connects with the start the names of the transitions on the way."""
        found: dict[str, tuple[str, ...]] = {}
        pending: deque[tuple[tuple[StateNode, ...], StateNode, tuple[str, ...]]] = deque(
            [(self._first_targets(), self.chart.root, ())]
        )
        while pending:
            targets, domain, path = pending.popleft()
            entering = entry_set(targets, domain, {})
            for node in entering.ordered() if entering is not None else ():
                if node.id not in found:
                    found[node.id] = path
                    pending += [
                        (arc.targets, arc.domain or domain, (*path, arc.name)) for arc in self._from(node)
                    ]
        return found

    def _first_targets(self) -> tuple[StateNode, ...]:
        """A computed status can be any."""
        return tuple(self.chart.root.children) if self.chart.computed else self.chart.root.completion

    def _from(self, node: StateNode) -> list[Arc]:
        return [arc for arc in self.chart.arcs if arc.source is node or arc.model.source == ROOT]

    def leaving(self, node: StateNode) -> Iterator[Arc]:
        """The rows by which a state can be left: its own, and those around it."""
        for arc in self.chart.arcs:
            moves = arc.model.lands if arc.domain is None else arc.domain.holds(node)
            if moves and arc.source in node.upward:
                yield arc

    def stays_by_itself(self, node: StateNode) -> Reached | None:
        """The first configuration in which a state is active and no timer, work or child ever leaves it."""
        inside = {each.index for each in self.explored.live() if node.id in self.explored.active(each.index)}
        automatic = [edge for edge in self.explored.edges if edge.automatic and edge.source in inside]
        left = {edge.source for edge in automatic if node.id not in self.explored.active(edge.target)}
        left |= {edge.source for edge in automatic if self._re_enters(edge, node)}
        grown = True
        while grown:
            more = {edge.source for edge in automatic if edge.target in left} - left
            left |= more
            grown = bool(more)
        staying = sorted(inside - left)
        return self.explored.nodes[staying[0]] if staying else None

    def _re_enters(self, edge: Edge, node: StateNode) -> bool:
        arcs = [self.chart.arcs[row] for row in edge.fired]
        return any(arc.domain is not None and arc.domain.holds(node) for arc in arcs)

    @cached_property
    def rivals(self) -> list[tuple[Arc, Arc]]:
        """Pairs of rows of the same state, in document order."""
        by_source: dict[int, list[Arc]] = {}
        for arc in self.chart.arcs:
            by_source.setdefault(arc.source.index, []).append(arc)
        pairs = (pair for arcs in by_source.values() for pair in combinations(arcs, 2))
        # A chart of people has a few hundred; a document from outside may have billions.
        return list(islice(pairs, MOST_PAIRS))

    @cached_property
    def hidden(self) -> frozenset[int]:
        """Rows that an earlier one hides, for some event at least."""
        return frozenset(second.index for first, second in self.rivals if hides(first, second))

    @cached_property
    def explained(self) -> frozenset[int]:
        """Rows that never fire for a reason of another finding: an earlier row, a duty, a landing."""
        denied = {name for denial in self.explored.denials for name in denial.transitions}
        silent = [arc for arc in self.chart.arcs if not self.can_fire(arc)]
        return frozenset(arc.index for arc in silent if arc.index in self.hidden or arc.name in denied)

    @cached_property
    def cut_off(self) -> frozenset[str]:
        """States that only rows lead to whose silence another finding explains."""
        pending = [self.chart.arcs[index] for index in self.explained]
        found: set[str] = set()
        while pending:
            for state in self._behind(pending.pop()) - found:
                found.add(state)
                pending += [arc for arc in self.chart.arcs if arc.source.id == state]
        return frozenset(found)

    def _behind(self, arc: Arc) -> set[str]:
        entering = entry_set(arc.targets, arc.domain, {}) if arc.domain is not None else None
        return {*arc.model.lands, *(node.id for node in (entering.ordered() if entering else ()))}

    @cached_property
    def hidden_rules(self) -> dict[str, tuple[str, ...]]:
        """Of rules of which the first wins those that never can, with the ones that win instead."""
        cases = self.explored.facts.cases() if self.chart.model.computed == "first" else None
        winners: set[str] = set()
        before: dict[str, dict[str, None]] = {}
        for holding in cases or ():
            winners.update(state.id for state in holding[:1])
            for state in holding[1:]:
                before.setdefault(state.id, {})[holding[0].id] = None
        return {state: tuple(others) for state, others in before.items() if state not in winners}

    @cached_property
    def stuck(self) -> list[Reached]:
        """Configurations that nothing leads on from."""
        outgoing = self.explored.outgoing
        return [
            node
            for node in self.explored.live()
            if all(edge.target == node.index for edge in outgoing[node.index])
        ]

    @cached_property
    def duty_bound(self) -> frozenset[int]:
        """Configurations in which somebody was refused for a duty."""
        return self._refused({"duty"})

    @cached_property
    def obstructed(self) -> frozenset[int]:
        """Configurations in which a step was refused for a reason that another finding reports."""
        return self._refused({"duty", "landing", "fault", "runaway"})

    def _refused(self, codes: set[str]) -> frozenset[int]:
        denials = [denial for denial in self.explored.denials if denial.code in codes]
        return frozenset(denial.source for denial in denials if denial.source is not None)


def hides(first: Arc, second: Arc) -> tuple[str, ...]:
    """The events of the second row that the first, standing before it, takes whenever the second could."""
    if not (_asks_no_more(first, second) and _admits_all(first, second)):
        return ()
    if not first.model.events and not second.model.events:
        return ("its turn",)
    heard = {descriptor(event) for event in first.model.events}
    return tuple(event for event in second.model.events if _is_heard(heard, event))


def _asks_no_more(first: Arc, second: Arc) -> bool:
    """Whether the first demands nothing of data and duties that the second does not demand too."""
    one, other = first.model, second.model
    return (
        set(one.when) <= set(other.when)
        and one.takes in {None, other.takes}
        and set(one.distinct_from) <= set(other.distinct_from)
        and (not one.no_agent or other.no_agent)
        and first.excludes <= second.excludes
    )


def _admits_all(first: Arc, second: Arc) -> bool:
    """Whether everybody who may fire the second may fire the first."""
    if not first.by:
        return True
    return bool(second.by) and {*second.by, *second.model.countersign} <= {
        *first.by,
        *first.model.countersign,
    }


def _is_heard(heard: set[str], event: str) -> bool:
    return ANY in heard or not heard.isdisjoint(names_matching(descriptor(event)))


def order_decides(first: Arc, second: Arc) -> frozenset[str]:
    """The roles for which two rows without guards compete though each has senders of its own."""
    shared = first.by & second.by
    heard = {descriptor(event) for event in first.model.events}
    competing = any(_is_heard(heard, event) for event in second.model.events)
    same = first.model.targets == second.model.targets and first.model.actions == second.model.actions
    plain = not (first.guards or second.guards or first.takes or second.takes)
    apart = bool(first.duties or second.duties) or bool(first.excludes or second.excludes)
    return shared if competing and plain and not same and not apart else frozenset()
