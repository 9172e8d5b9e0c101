"""Duties of people: four eyes, quorum, countersignature, and what only a person may do."""

from __future__ import annotations

from hashlib import sha256

from headway.codec import fingerprint
from headway.statechart.claims import stands_in
from headway.statechart.draft import Draft
from headway.statechart.snapshot import Event
from headway.statechart.tree import Arc

BY = "by"
SUBJECT = "#"
"""Beside the voters stands what they voted for: a digest of the data."""


def duty_objection(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Why this sender may not fire the transition though the role would allow it."""
    row, actor = arc.model, event.by
    if row.no_agent and actor.kind != "person":
        return f"{arc.name} is for people, not for {actor.kind}s"
    for earlier in row.distinct_from:
        if actor.id in draft.acted.get(earlier, ()):
            return f"{actor.id} did {earlier}, and who does {arc.name} must be someone else"
    return _vote_objection(draft, arc, event) if needs_votes(arc) else None


def _vote_objection(draft: Draft, arc: Arc, event: Event) -> str | None:
    cast = draft.votes.get(arc.ballot, {})
    if event.by.id in cast or event.by.id == SUBJECT:
        return f"{event.by.id} has voted for {arc.name} already"
    if cast and cast[SUBJECT] != _subject(event):
        return f"the votes for {arc.name} so far are for other data"
    voters = voters_of(cast)
    if _missing(arc, {**voters, event.by.id: _slots(draft, arc, event)}) == _missing(arc, voters):
        return f"{arc.name} needs no further vote of this kind"
    return None


def needs_votes(arc: Arc) -> bool:
    """Whether one person alone cannot fire the transition."""
    return arc.model.quorum > 1 or bool(arc.model.countersign)


def vote(draft: Draft, arc: Arc, event: Event) -> str | None:
    """Count a vote; None when all are in, else what is still missing."""
    slots = _slots(draft, arc, event)
    cast = {SUBJECT: _subject(event), **draft.votes.get(arc.ballot, {}), event.by.id: slots}
    missing = _missing(arc, voters_of(cast))
    if missing:
        draft.own("votes")[arc.ballot] = cast
        return f"{len(cast) - 1} voted; still needed: {', '.join(missing)}"
    # A transition that stays would else find the votes of last time.
    draft.own("votes").pop(arc.ballot, None)
    acted = draft.own("acted")
    for name in arc.watched:
        acted[name] = tuple(dict.fromkeys((*acted.get(name, ()), *voters_of(cast))))
    return None


def voters_of(cast: dict[str, str]) -> dict[str, str]:
    """Who has voted, with the votes each of them could give."""
    return {who: slots for who, slots in cast.items() if who != SUBJECT}


def _subject(event: Event) -> str:
    return sha256(fingerprint(event.data)).hexdigest()[:16]


def _slots(draft: Draft, arc: Arc, event: Event) -> str:
    """Which votes a sender could give: for the transition itself, or as one of its countersigners."""
    roles = event.by.roles
    countersigns = [role for role in arc.model.countersign if role in roles]
    # Whoever came past the check of roles and cannot countersign has a role the transition is for.
    plain = not arc.by or bool(arc.by & roles) or not countersigns or stands_in(draft, arc, event.by)
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
