"""Duties of people: four eyes, quorum, countersignature, and what only a person may do."""

from __future__ import annotations

from hashlib import sha256

from headway.codec import fingerprint
from headway.statechart.identity import same_id
from headway.statechart.people import is_person, senders, wanted
from headway.statechart.refusal import Code, Obstacle, roles_now
from headway.statechart.snapshot import Actor, Event
from headway.statechart.step.authority import Authority, answering, authorities, plain_role
from headway.statechart.step.draft import Draft
from headway.statechart.tree import Arc

BY = "by"
SUBJECT = "#"
"""Beside the voters stands what they voted for: a digest of the data."""
NO_PLACE = ""
"""The places of a person for whom somebody else has voted: none."""


def duty_objection(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Why this sender may not fire the transition though the role would allow it."""
    return _chosen(draft, arc, event)[1]


def objection_to(draft: Draft, arc: Arc, actor: Actor, *, alone: bool = False) -> Obstacle | None:
    """Why somebody could not fire a transition, whatever data they send; None when they could."""
    rights = [each for each in authorities(draft, arc, actor) if not alone or len(each.people) == 1]
    reasons = [_objection(draft, arc, authority) for authority in rights]
    if not reasons:
        return Obstacle("actor", not_for(draft, arc, actor))
    return None if None in reasons else Obstacle("duty", reasons[0] or "")


def not_for(draft: Draft, arc: Arc, actor: Actor) -> str:
    """The reason why an actor may not send a transition, by role or by name."""
    entries = roles_now(draft.chart, arc, draft.asks)
    has = ", ".join(sorted(role for role in actor.roles if not is_person(role))) or "no role"
    verb = "needs" if any(not is_person(entry) for entry in entries) else "is for"
    return f"{arc.name} {verb} {wanted(entries, draft)}; {actor.id} has {has}"


def kept_from_all(draft: Draft, state: str, actor: Actor, *, alone: bool = False) -> Obstacle | None:
    """Why somebody can give no answer to a question, by roles and duties; None when they can give one.

    `alone` is without the right to stand in for who delegated it.
    """
    objections = [objection_to(draft, arc, actor, alone=alone) for arc in answering(draft, state)]
    if None in objections:
        return None
    known = [each for each in objections if each is not None]
    if not known:
        return Obstacle("illegal", f"no transition of {state} takes an answer")
    code: Code = "duty" if any(each.code == "duty" for each in known) else "actor"
    reasons = dict.fromkeys(each.reason for each in known if each.code == code)
    return Obstacle(code, "; ".join(reasons))


def represented(draft: Draft, arc: Arc, event: Event) -> tuple[Actor, ...]:
    """Those in whose place the sender would fire a transition; nobody if it is their own right."""
    authority = _chosen(draft, arc, event)[0] if draft.asks else None
    return () if authority is None else authority.people[1:]


def _chosen(draft: Draft, arc: Arc, event: Event) -> tuple[Authority | None, str | None]:
    """The right by which an event is taken; the first one, with its objection, when there is no better."""
    first: tuple[Authority | None, str | None] = (None, None)
    for authority in authorities(draft, arc, event.by):
        reason = _objection(draft, arc, authority, event)
        if reason is None:
            return authority, None
        if first[0] is None:
            first = authority, reason
    return first


def _objection(draft: Draft, arc: Arc, authority: Authority, event: Event | None = None) -> str | None:
    """Which duty forbids somebody to act by a right; without an event whatever its data would be."""
    for actor in authority.people:
        said = f"{actor.id} " if actor is authority.people[0] else f"{actor.id}, who delegated it, "
        if arc.model.no_agent and actor.kind != "person":
            return (
                f"only a person may send {arc.name}, and {actor.id} is of kind {actor.kind}:"
                " send it as a person (with an API key made with `--kind person`)"
            )
        for earlier in arc.model.distinct_from:
            if any(same_id(actor.id, who) for who in draft.acted.get(earlier, ())):
                return f"{said}sent {earlier}, so someone else must send {arc.name}"
    return _vote_objection(draft, arc, authority, event) if needs_votes(arc) else None


def _vote_objection(draft: Draft, arc: Arc, authority: Authority, event: Event | None) -> str | None:
    cast = draft.votes.get(arc.ballot, {})
    voters = voters_of(cast)
    for actor in authority.people:
        if same_id(actor.id, SUBJECT) or any(same_id(actor.id, who) for who in voters):
            return f"{actor.id} has already voted for {arc.name}"
    if event is not None and cast and cast[SUBJECT] != _subject(event):
        return f"the earlier votes for {arc.name} are for different data"
    slots = _slots(draft, arc, authority)
    if _missing(arc, {**voters, authority.people[0].id: slots}) == _missing(arc, voters):
        return f"{arc.name} needs no more votes from these roles"
    return None


def needs_votes(arc: Arc) -> bool:
    """Whether one person alone cannot fire the transition."""
    return arc.model.quorum > 1 or bool(arc.model.countersign)


def vote(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Count a vote; None when all are in, else what is still missing."""
    authority = _chosen(draft, arc, event)[0] or Authority(event.by.roles, (event.by,))
    voter, *others = authority.people
    # Those in whose place the voter acts count as voted without a place: a vote is one person's.
    bound = {each.id: NO_PLACE for each in others} | {voter.id: _slots(draft, arc, authority)}
    cast = {SUBJECT: _subject(event), **draft.votes.get(arc.ballot, {}), **bound}
    missing = _missing(arc, voters_of(cast))
    if missing:
        draft.own("votes")[arc.ballot] = cast
        return f"{votes_in(cast)} voted; still needed: {', '.join(missing)}"
    # A transition that stays would else find the votes of last time.
    draft.own("votes").pop(arc.ballot, None)
    acted = draft.own("acted")
    for name in arc.watched:
        acted[name] = senders(acted.get(name, ()), *voters_of(cast), voter.id)
    return None


def voters_of(cast: dict[str, str]) -> dict[str, str]:
    """Who has voted, or was stood in for by who has, with the places that each of them could fill."""
    return {who: slots for who, slots in cast.items() if who != SUBJECT}


def votes_in(cast: dict[str, str]) -> int:
    """How many votes are in."""
    return sum(slots != NO_PLACE for slots in voters_of(cast).values())


def _subject(event: Event) -> str:
    return sha256(fingerprint(event.data)).hexdigest()[:16]


def _slots(draft: Draft, arc: Arc, authority: Authority) -> str:
    """Which places a vote could fill: for the transition itself, or as one of its countersigners."""
    countersigns = [role for role in arc.model.countersign if role in authority.roles]
    plain = plain_role(draft, arc, authority.roles) or not countersigns
    return "|".join([BY] * plain + countersigns)


def _missing(arc: Arc, voters: dict[str, str]) -> list[str]:
    """The votes nobody gives yet, when everyone gives the one that helps most."""
    wanted = [BY] * arc.model.quorum + list(arc.model.countersign)
    given: dict[int, str] = {}
    for who in voters:
        _place(who, wanted, voters, given, tried=set())
    missing = [slot for index, slot in enumerate(wanted) if index not in given]
    plain = [f"{missing.count(BY)} more of {', '.join(arc.model.by) or 'anyone'}"] if BY in missing else []
    return plain + [slot for slot in missing if slot != BY]


def _place(
    who: str, wanted: list[str], voters: dict[str, str], given: dict[int, str], *, tried: set[int]
) -> bool:
    """Give a voter a vote, moving others to another of theirs where that makes room."""
    for index, slot in enumerate(wanted):
        if index in tried or slot not in voters[who].split("|"):
            continue
        tried.add(index)
        if index not in given or _place(given[index], wanted, voters, given, tried=tried):
            given[index] = who
            return True
    return False
