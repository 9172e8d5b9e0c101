"""Waits for people: each needs a deadline, an answer that somebody can give, and a way out."""

from __future__ import annotations

from collections.abc import Iterator

from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.explore.events import from_outside, takers
from headway.statechart.snapshot import SYSTEM
from headway.statechart.tree import Arc, Node


def deadlines(analysis: Analysis) -> Iterator[Finding]:
    """Waits that can last for ever: for the answer to an ask an error, for an event of a person a warning."""
    for node in analysis.reached:
        asks = node.model.ask is not None
        if not (asks or _waits_for_person(analysis, node)) or _unheard_deadline(node):
            continue
        staying = analysis.stays_by_itself(node)
        if staying is None:
            continue
        tell = error if asks else warning
        yield tell(
            "wait-without-deadline",
            f"{node.id} waits for {_awaited(analysis, node)} and no timer ends the wait: "
            "when nobody acts, the instance stays there for ever",
            state=node.id,
            path=analysis.explored.path(staying.index),
        )


def _waits_for_person(analysis: Analysis, node: Node) -> bool:
    """Whether a state is left only by events that people send."""
    if not node.atomic or node.kind == "final" or node.model.run is not None:
        return False
    rows = list(analysis.leaving(node))
    return bool(rows) and all(_is_personal(arc) for arc in rows)


def _is_personal(arc: Arc) -> bool:
    sent = arc.model.events and all(map(from_outside, arc.model.events))
    return bool(sent and arc.by and not arc.by & SYSTEM.roles)


def _awaited(analysis: Analysis, node: Node) -> str:
    ask = node.model.ask
    roles = (
        ask.roles if ask is not None else sorted({role for arc in analysis.leaving(node) for role in arc.by})
    )
    return " or ".join(roles) or "a person"


def ways_out(analysis: Analysis) -> Iterator[Finding]:
    """Asks whose deadline leads nowhere, and asks that nobody who is asked can answer."""
    for node in analysis.reached:
        if _unheard_deadline(node):
            yield error(
                "wait-without-way-out",
                f"the deadline of {node.id} leads nowhere: add {node.id}.on_deadline.to(...)",
                state=node.id,
                path=analysis.path(node.id),
            )
        if node.model.ask is not None and not any(_can_answer(node, arc) for arc in _answering(node)):
            yield error(
                "wait-without-way-out",
                f"{node.id} asks {' or '.join(node.model.ask.roles) or 'nobody'}, "
                "and no transition takes an answer from them",
                state=node.id,
                path=analysis.path(node.id),
            )


def _unheard_deadline(node: Node) -> bool:
    ask = node.model.ask
    return ask is not None and ask.deadline is not None and not takers(node, f"deadline.{node.id}")


def _answering(node: Node) -> list[Arc]:
    return [arc for event in node.answers for arc in takers(node, event)]


def _can_answer(node: Node, arc: Arc) -> bool:
    ask = node.model.ask
    assert ask is not None
    asked = {*ask.roles, *(role for step in ask.escalate for role in step.roles)}
    return not arc.by or bool(arc.by & asked) or bool(asked.intersection(arc.model.countersign))
