"""What every drawing of a chart shows: which arrows, between which ends, and which way life flows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headway.statechart.chart import Chart
from headway.statechart.tree import Arc, StateNode


class Ends(NamedTuple):
    """Where an arrow starts and ends; the root as tail stands for any live state.

    `inside` is an arrow from any state inside the tail to one of them. `again` is the state left and
    entered again; the arrow then points to the state where it begins.
    """

    tail: StateNode
    head: StateNode
    inside: bool = False
    again: StateNode | None = None

    @property
    def place(self) -> StateNode:
        """The closest state, or the root, whose box holds the whole arrow."""
        if self.inside or self.tail.parent is None:
            return self.tail
        return next(node for node in self.tail.upward[1:] if node.parent is None or node.holds(self.head))


class Picture:
    """The arrows of a chart, merged where they share both ends, and the transitions that stay."""

    def __init__(self, chart: Chart) -> None:
        self.arrows: dict[Ends, list[Arc]] = {}
        self.stays: dict[StateNode, list[Arc]] = {}
        for arc in chart.arcs:
            heads = arc.targets or tuple(_lands(chart, arc))
            for head in dict.fromkeys(heads):
                self.arrows.setdefault(_ends(arc.source, head), []).append(arc)
            if not heads:
                self.stays.setdefault(arc.source, []).append(arc)
        self.placed: dict[StateNode, list[Ends]] = {}
        for ends in self.arrows:
            self.placed.setdefault(ends.place, []).append(ends)
        self._turn = {node: turn for above in chart.order for turn, node in enumerate(self._flow(above))}

    def backward(self, ends: Ends) -> bool:
        """Whether an arrow leads back to something that comes earlier in the life."""
        if ends.inside or ends.tail.parent is None:
            return False
        here, there = _below(ends.place, ends.tail), _below(ends.place, ends.head)
        return self._turn[there] < self._turn[here]

    def _flow(self, above: StateNode) -> Iterator[StateNode]:
        """The states directly inside one, in the order of a life that starts at its beginning."""
        nexts: dict[StateNode, list[StateNode]] = {}
        for ends in self.placed.get(above, ()):
            if ends.tail is not above:
                nexts.setdefault(_below(above, ends.tail), []).append(_below(above, ends.head))
        begins = [_below(above, node) for node in above.completion if above.holds(node)]
        seen: set[StateNode] = set()
        for start in [*begins, *above.children, *above.history]:
            yield from reversed(_postorder(start, nexts, seen))


def boxes(node: StateNode) -> bool:
    """Whether a state is drawn as a box around others."""
    return bool(node.children)


def _ends(tail: StateNode, head: StateNode) -> Ends:
    """The ends to draw: no arrow runs between a box and what it contains."""
    if tail.parent is None:
        return Ends(tail, head)
    again = head if head.holds(tail) or (head is tail and boxes(tail)) else None
    goal = _beginning(head) if again else head
    return Ends(tail, goal, inside=tail.holds(goal), again=again)


def _lands(chart: Chart, arc: Arc) -> Iterator[StateNode]:
    """The states a computed status can become, apart from the one it is."""
    for name in arc.model.lands:
        if name not in {node.id for node in arc.source.path}:
            yield chart.nodes[name]


def _beginning(node: StateNode) -> StateNode:
    while boxes(node):
        node = (node.completion or tuple(node.children))[0]
    return node


def _below(above: StateNode, node: StateNode) -> StateNode:
    """The state directly inside `above` that is or holds the node."""
    return node.path[len(above.path)]


def _postorder(
    start: StateNode, nexts: dict[StateNode, list[StateNode]], seen: set[StateNode]
) -> list[StateNode]:
    """What can be reached and was not seen before, each state after all that it leads to."""
    found: list[StateNode] = []
    pending = [(start, False)]
    while pending:
        node, done = pending.pop()
        if done:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            pending.append((node, True))
            pending += [(after, False) for after in nexts.get(node, ())]
    return found
