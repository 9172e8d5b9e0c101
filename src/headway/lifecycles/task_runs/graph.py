"""Graphs of tasks: what is wrong with one, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


def graph_problem(graph: Mapping[str, Sequence[str]]) -> str | None:
    """Why a graph can never be done, or None: each node is given with the nodes it waits for."""
    if not graph:
        return "the workflow has no node"
    for node, parents in graph.items():
        if unknown := [parent for parent in parents if parent not in graph]:
            return f"{node} waits for {unknown[0]}, which is no node of the workflow"
        if len(set(parents)) < len(parents):
            return f"{node} waits twice for the same node"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return f"the workflow goes in a circle: {' → '.join(error.args[1])}"
    return None
