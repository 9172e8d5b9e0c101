"""Who may answer a question: those it asks, who claimed it, or the one it was delegated to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from headway.statechart.identity import same_id
from headway.statechart.refusal import Obstacle, roles_now, spoken
from headway.statechart.snapshot import Actor, OpenAsk
from headway.statechart.step.draft import Draft
from headway.statechart.tree import Arc, StateNode


def is_claimed(ask: OpenAsk, now: datetime) -> bool:
    """Whether a claim of the question has not run out."""
    return ask.claimed_by is not None and ask.claimed_until is not None and now < ask.claimed_until


def holder(ask: OpenAsk, now: datetime) -> str | None:
    """Who alone may answer, when one alone may."""
    return ask.claimed_by if is_claimed(ask, now) else ask.delegated_to


def kept_from(state: str, ask: OpenAsk, actor: Actor, now: datetime) -> Obstacle | None:
    """Why somebody may not answer a question that another holds; None when nobody else does."""
    held_by = holder(ask, now)
    if held_by is None or same_id(held_by, actor.id):
        return None
    if is_claimed(ask, now):
        assert ask.claimed_until is not None
        return Obstacle("claimed", f"{state} is claimed by {held_by} until {ask.claimed_until.isoformat()}")
    return Obstacle("actor", f"{state} is delegated to {held_by}, not to {actor.id}")


def answered(draft: Draft, arc: Arc) -> Iterator[tuple[StateNode, OpenAsk]]:
    """The open questions that a transition answers when somebody outside fires it."""
    for state, ask in draft.asks.items():
        node = draft.chart.nodes[state]
        asked = node.model.ask
        assert asked is not None
        own = arc.source is node
        if (own and not arc.by) or ((own or arc.source.holds(node)) and arc.by.intersection(asked.roles)):
            yield node, ask


def answering(draft: Draft, state: str) -> Iterator[Arc]:
    """The transitions by which somebody outside can answer an open question now."""
    node = draft.chart.nodes[state]
    active = {each.id for each in draft.active}
    for above in node.upward:
        for arc in {arc.index: arc for arcs in above.arcs.values() for arc in arcs}.values():
            from_outside = any(spoken(event) is not None for event in arc.model.events)
            answers = from_outside and any(each is node for each, _ in answered(draft, arc))
            if answers and not arc.excludes & active:
                yield arc


def held_against(draft: Draft, arc: Arc, actor: Actor) -> Obstacle | None:
    """Why somebody may not fire a transition: it answers a question that another holds.

    A transition of a state around the asking one may be for others too, who act in their own right.
    """
    for node, ask in answered(draft, arc):
        if arc.source is not node and not actor.roles.isdisjoint(arc.by.difference(ask.roles)):
            continue
        kept = kept_from(node.id, ask, actor, draft.now)
        if kept is not None:
            return kept
    return None


def only_for(draft: Draft, arc: Arc) -> str | None:
    """Who alone can fire a transition now, because they hold the question it answers."""
    for node, ask in answered(draft, arc):
        held_by = holder(ask, draft.now)
        if held_by is not None and (arc.source is node or arc.by.issubset(ask.roles)):
            return held_by
    return None


class Authority(NamedTuple):
    """The roles of a sender, and the people whose duties apply: the sender and those they act in place of."""

    roles: frozenset[str]
    people: tuple[Actor, ...]


def authorities(draft: Draft, arc: Arc, actor: Actor) -> Iterator[Authority]:
    """The rights by which somebody could fire a transition, their own first; none if it is not for them."""
    if has_role(draft, arc, actor.roles):
        yield Authority(actor.roles, (actor,))
    if not draft.asks:
        return
    for node, ask in answered(draft, arc):
        if stands_in(node, ask, actor):
            # A delegation is for this question: other roles of who delegated it are not lent.
            lent = {role for each in ask.delegated_by for role in each.roles}
            roles = frozenset(lent.intersection(ask.roles))
            if has_role(draft, arc, roles):
                yield Authority(roles, (actor, *ask.delegated_by))


def stands_in(node: StateNode, ask: OpenAsk, actor: Actor) -> bool:
    """Whether somebody may answer a question in the place of those who delegated it: the chart allows it."""
    declared = node.model.ask
    allowed = declared is not None and declared.delegate == "anyone"
    return allowed and bool(ask.delegated_by) and same_id(ask.delegated_to, actor.id)


def has_role(draft: Draft, arc: Arc, roles: frozenset[str]) -> bool:
    """Whether roles are enough to fire a transition: its own, its countersigners', those its ask adds."""
    if arc.by:
        return bool(arc.by & roles) or not roles.isdisjoint(roles_now(draft.chart, arc, draft.asks))
    ask = draft.asks.get(arc.source.id)
    by_form = any(event.startswith("answer.") for event in arc.model.events)
    return ask is None or not by_form or not roles.isdisjoint((*ask.roles, *arc.model.countersign))


def plain_role(draft: Draft, arc: Arc, roles: frozenset[str]) -> bool:
    """Whether roles are enough to fire a transition other than as a countersigner."""
    wanted = set(roles_now(draft.chart, arc, draft.asks)) - {*arc.model.countersign} | arc.by
    return not arc.by or not roles.isdisjoint(wanted)


def is_asked(draft: Draft, state: str, ask: OpenAsk, actor: Actor) -> bool:
    """Whether a question is put to somebody: by a role, or by a delegation that needs none."""
    if ask.delegated_to is not None and not same_id(ask.delegated_to, actor.id):
        return False
    return not actor.roles.isdisjoint(ask.roles) or stands_in(draft.chart.nodes[state], ask, actor)
