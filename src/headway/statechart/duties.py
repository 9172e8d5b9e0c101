"""Duties of people: four eyes, quorum, countersignature, and what no agent may do."""

from __future__ import annotations

from headway.statechart.draft import Draft
from headway.statechart.snapshot import Event
from headway.statechart.tree import Arc

BY, COUNTERSIGN = "by", "countersign"


def duty_objection(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Why this sender may not fire the transition though the role would allow it."""
    row, actor = arc.model, event.by
    if row.no_agent and actor.kind == "agent":
        return f"{arc.name} is not for agents"
    for earlier in row.distinct_from:
        if actor.id in draft.acted.get(earlier, ()):
            return f"{actor.id} did {earlier}, and who does {arc.name} must be someone else"
    if needs_votes(arc):
        if actor.id in draft.votes.get(vote_key(arc), {}):
            return f"{actor.id} has voted for {arc.name} already"
        if _slot(draft, arc, event) is None:
            return f"{arc.name} needs no further vote of this kind"
    return None


def needs_votes(arc: Arc) -> bool:
    """Whether one person alone cannot fire the transition."""
    return arc.model.quorum > 1 or bool(arc.model.countersign)


def vote_key(arc: Arc) -> str:
    """Where the votes for a transition are kept while its state lasts."""
    return f"{arc.source.id}/{arc.name}"


def vote(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Count a vote; None when all are in, else what is still missing."""
    slot = _slot(draft, arc, event)
    assert slot is not None
    votes = dict(draft.votes.get(vote_key(arc), {}))
    votes[event.by.id] = slot
    cast = list(votes.values())
    missing = []
    if (short := arc.model.quorum - cast.count(BY)) > 0:
        missing.append(f"{short} more of {', '.join(arc.model.by) or 'anyone'}")
    missing += [role for role in arc.model.countersign if f"{COUNTERSIGN}:{role}" not in cast]
    if not missing:
        # A transition that stays would else find the votes of last time.
        draft.own("votes").pop(vote_key(arc), None)
        return None
    draft.own("votes")[vote_key(arc)] = votes
    return f"{len(votes)} voted; still needed: {', '.join(missing)}"


def _slot(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Which of the votes still missing this sender can give."""
    cast = list(draft.votes.get(vote_key(arc), {}).values())
    roles = event.by.roles
    for role in arc.model.countersign:
        if role in roles and f"{COUNTERSIGN}:{role}" not in cast:
            return f"{COUNTERSIGN}:{role}"
    # Whoever came past the check of roles without a countersigning role has one the transition is for.
    countersigns_only = (
        bool(arc.by) and not (arc.by & roles) and bool(roles.intersection(arc.model.countersign))
    )
    if not countersigns_only and cast.count(BY) < arc.model.quorum:
        return BY
    return None
