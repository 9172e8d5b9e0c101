"""Which transitions an event takes: by state, document order, actor, payload, duties and guards."""

from __future__ import annotations

from collections.abc import Callable

from headway.codec import replace
from headway.statechart.expressions.expressions import EvaluationError, Expression, truthy
from headway.statechart.refusal import Code, No, Objection, Obstacle
from headway.statechart.snapshot import Event
from headway.statechart.step.asks import is_overdue
from headway.statechart.step.authority import answered, authorities, held_against
from headway.statechart.step.draft import Draft
from headway.statechart.step.duties import duty_objection, not_for, represented
from headway.statechart.tree import Arc, StateNode, domain_given
from headway.statechart.types import DataType, Mismatch

Offer = Callable[[StateNode], tuple[Arc, ...]]
"""Which arcs of a state are in question."""


def select(draft: Draft, event: Event, *, outside: bool) -> list[Arc]:
    """The transitions an event takes now; `outside` events are checked for actor, payload and duties."""
    draft.current = event
    draft.payload = event.data
    active = draft.active
    leaf = active[-1]
    if len(leaf.path) != len(active):
        return _in_regions(draft, event, outside=outside)
    name = event.name
    plain_name = "." not in name
    for node in leaf.upward:
        arcs = node.arcs.get(name, ()) if plain_name and not node.open else node.matching(name)
        for arc in arcs:
            if arc.plain or _takes(draft, arc, event, outside=outside):
                return [arc]
    return []


def _in_regions(draft: Draft, event: Event, *, outside: bool) -> list[Arc]:
    return _for_regions(draft, lambda node: node.matching(event.name), event, outside=outside)


def select_eventless(draft: Draft) -> list[Arc]:
    """The transitions that need no event; that one does not hold is no objection to the event before it."""
    objections = len(draft.objections)
    leaf = draft.active[-1]
    if len(leaf.path) == len(draft.active) and draft.within is None:
        arcs = _first_of(draft, leaf.eventless)
    else:
        arcs = _for_regions(draft, _always, draft.current, outside=False)
    del draft.objections[objections:]
    return arcs


def _first_of(draft: Draft, arcs: tuple[Arc, ...]) -> list[Arc]:
    for arc in arcs:
        if arc.plain or _takes(draft, arc, draft.current, outside=False):
            return [arc]
    return []


def _always(node: StateNode) -> tuple[Arc, ...]:
    return node.always


def _for_regions(draft: Draft, offered: Offer, event: Event, *, outside: bool) -> list[Arc]:
    chosen: dict[int, Arc] = {}
    verdicts: dict[int, bool] = {}

    def takes(arc: Arc) -> bool:
        if arc.index not in verdicts:
            verdicts[arc.index] = arc.plain or _takes(draft, arc, event, outside=outside)
        return verdicts[arc.index]

    within = draft.within
    leaves = [node for node in draft.active if node.atomic and (within is None or within in node.path)]
    for leaf in leaves:
        arc = next((arc for node in leaf.upward for arc in offered(node) if takes(arc)), None)
        if arc is not None:
            chosen[arc.index] = arc
    return _without_conflicts(draft, list(chosen.values()))


def _without_conflicts(draft: Draft, arcs: list[Arc]) -> list[Arc]:
    """Of transitions that would leave the same state, the inner one is kept, else the first found."""
    if len(arcs) < 2:  # noqa: PLR2004 - it takes two
        return arcs
    kept: list[Arc] = []
    left = {arc.index: _leaving(draft, arc) for arc in arcs}
    for arc in arcs:
        rivals = [other for other in kept if not left[arc.index].isdisjoint(left[other.index])]
        if all(other.source.holds(arc.source) for other in rivals):
            kept = [other for other in kept if other not in rivals]
            kept.append(arc)
    return kept


def _leaving(draft: Draft, arc: Arc) -> set[int]:
    domain = domain_given(arc, draft.memory, draft.chart.nodes)
    if domain is None:
        return set()
    return {node.index for node in draft.active if domain.holds(node)}


def _takes(draft: Draft, arc: Arc, event: Event, *, outside: bool) -> bool:
    if arc.excludes and any(node.id in arc.excludes for node in draft.active):
        return False
    draft.payload = event.data
    if outside and not _may_come(draft, arc, event):
        return False
    if not (outside and draft.asks and arc.guards):
        return _guards_agree(draft, arc)
    draft.in_place_of = represented(draft, arc, event)
    return _guards_agree(draft, arc) and _guards_agree_for_others(draft, arc, event)


def _guards_agree(draft: Draft, arc: Arc) -> bool:
    for name, guard in arc.guards:
        no = verdict(draft, name, guard)
        if no is not None:
            _object(draft, arc, no.code, no.reason, guard=name)
            return False
    return True


def _guards_agree_for_others(draft: Draft, arc: Arc, event: Event) -> bool:
    """Whether the guards also accept the people in whose place the sender acts."""
    sent, current, others = draft.event, draft.current, draft.in_place_of
    draft.in_place_of = ()
    try:
        for other in others:
            draft.event, draft.current = replace(sent, by=other), replace(event, by=other)
            if not _guards_agree(draft, arc):
                return False
    finally:
        draft.event, draft.current, draft.in_place_of = sent, current, others
    return True


def _may_come(draft: Draft, arc: Arc, event: Event) -> bool:
    """Whether an event from outside passes what comes before the guards; says why when it does not."""
    if arc.by and not may_fire(draft, arc, event):
        _object(draft, arc, "actor", not_for(draft, arc, event.by))
        return False
    if draft.asks and not _is_open_to(draft, arc, event):
        return False
    kind = arc.takes or (arc.form if event.data is not None else None)
    if kind is not None and not _fits(draft, arc, event, kind):
        return False
    if arc.duties and (reason := duty_objection(draft, arc, event)):
        _object(draft, arc, "duty", reason)
        return False
    return True


def may_fire(draft: Draft, arc: Arc, event: Event) -> bool:
    """Whether the sender may: by a role of the transition or of its escalated ask, or by delegation."""
    return bool(arc.by & event.by.roles) or any(True for _ in authorities(draft, arc, event.by))


def _is_open_to(draft: Draft, arc: Arc, event: Event) -> bool:
    """Whether the questions that a transition answers are still to be answered, and by this sender."""
    source = arc.source
    if is_overdue(draft, source.id) and any(node is source for node, _ in answered(draft, arc)):
        _object(draft, arc, "late", f"the deadline of {source.id} has passed")
        return False
    kept = held_against(draft, arc, event.by)
    if kept is not None:
        _object(draft, arc, kept.code, kept.reason)
    return kept is None


def _fits(draft: Draft, arc: Arc, event: Event, kind: DataType) -> bool:
    try:
        typed = kind.load({} if event.data is None else event.data)
    except Mismatch as error:
        draft.payload = event.data
        _object(draft, arc, "payload", str(error))
        return False
    draft.payload = draft.typed[arc.index] = typed
    return True


def verdict(draft: Draft, name: str, guard: object) -> Obstacle | None:
    """None when a guard says yes; its reason when it says no, or could not say."""
    if isinstance(guard, Expression):
        return _formula_verdict(draft, guard)
    try:
        answer = guard(draft.view)  # type: ignore[operator]  # a registered function
        if answer:
            return None
    except Exception as error:  # noqa: BLE001 - whatever a guard raises is a no, with its reason
        return Obstacle("fault", f"{name} failed: {draft.error_text(error)}")
    if isinstance(answer, No):
        return Obstacle("guard", str(answer.reason))
    said = (getattr(guard, "__doc__", None) or "").strip().partition("\n")[0]
    return Obstacle("guard", f"condition not met: {said}" if said else f"the guard {name} does not hold")


def _formula_verdict(draft: Draft, guard: Expression) -> Obstacle | None:
    try:
        holds = truthy(guard.evaluate(draft.view))
    except EvaluationError as error:
        if draft.chart.scripted:
            draft.internal.append(Event("error.execution", {"message": str(error)}))
        return Obstacle("fault", str(error))
    return None if holds else Obstacle("guard", f"{guard.text} does not hold")


def _object(draft: Draft, arc: Arc, code: Code, reason: str, *, guard: str = "") -> None:
    draft.objections.append(Objection(transition=arc.name, code=code, reason=reason, guard=guard))
