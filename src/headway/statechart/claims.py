"""Who holds a question: whoever claimed it for a time, or the one it was delegated to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from headway.statechart.draft import Draft
from headway.statechart.refusal import Code
from headway.statechart.snapshot import Actor, OpenAsk
from headway.statechart.tree import Arc, Node


class Kept(NamedTuple):
    """Why a question is not for somebody."""

    code: Code
    reason: str


def is_claimed(ask: OpenAsk, now: datetime) -> bool:
    """Whether a claim of the question has not run out."""
    return ask.claimed_by is not None and ask.claimed_until is not None and now < ask.claimed_until


def holder(ask: OpenAsk, now: datetime) -> str | None:
    """Who alone may answer, when one alone may."""
    return ask.claimed_by if is_claimed(ask, now) else ask.delegated_to


def kept_from(state: str, ask: OpenAsk, actor: Actor, now: datetime) -> Kept | None:
    """Why somebody may not answer a question that another holds; None when nobody else does."""
    held_by = holder(ask, now)
    if held_by is None or held_by == actor.id:
        return None
    if is_claimed(ask, now):
        assert ask.claimed_until is not None
        return Kept("claimed", f"{state} is claimed by {held_by} until {ask.claimed_until.isoformat()}")
    return Kept("actor", f"{state} is delegated to {held_by}, and not to {actor.id}")


def may_answer(ask: OpenAsk, actor: Actor) -> bool:
    """Whether somebody is asked: by a role, or as the one to whom the question was delegated."""
    if ask.delegated_to is not None:
        return actor.id == ask.delegated_to
    return not actor.roles.isdisjoint(ask.roles)


def answered(draft: Draft, arc: Arc) -> Iterator[tuple[Node, OpenAsk]]:
    """The open questions that a transition answers when somebody outside fires it."""
    for state, ask in draft.asks.items():
        node = draft.chart.nodes[state]
        asked = node.model.ask
        assert asked is not None
        own = arc.source is node
        if (own and not arc.by) or ((own or arc.source.holds(node)) and arc.by.intersection(asked.roles)):
            yield node, ask


def held_against(draft: Draft, arc: Arc, actor: Actor) -> Kept | None:
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


def stands_in(draft: Draft, arc: Arc, actor: Actor) -> bool:
    """Whether somebody may fire a transition because the question it answers was delegated to them."""
    return any(ask.delegated_to == actor.id for _, ask in answered(draft, arc))


def only_for(draft: Draft, arc: Arc) -> str | None:
    """Who alone can fire a transition now, because they hold the question it answers."""
    for node, ask in answered(draft, arc):
        held_by = holder(ask, draft.now)
        if held_by is not None and (arc.source is node or arc.by.issubset(ask.roles)):
            return held_by
    return None
