"""Circles in a graph of steps."""

from __future__ import annotations

from collections.abc import Iterable

from headway.statechart.explore import Edge


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
