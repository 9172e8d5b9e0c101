"""People that a chart names in the place of a role: `{owner}`, `{creator}`, `{field}`, `{event.by}`.

An entry in braces is resolved for one instance: to its owner, to who created it, to the ids in a field of its
context, or to who last sent an event. During a step, an entry that names the sender counts as one of the
sender's roles, so duties, delegation and escalation treat both alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from headway.codec import replace
from headway.statechart import model
from headway.statechart.identity import LONGEST_ID, normal_id, same_id
from headway.statechart.snapshot import Actor, OpenAsk

OWNER, CREATOR = "{owner}", "{creator}"
ENTRY = re.compile(r"\{(\w+)(\.by)?\}")
LONGEST_OWNER = 400
AUDIENCE = "@"
"""Begins the id of a person in the audience of an ask; no role begins with it."""


class Involved(Protocol):
    """What an instance knows of the people who have to do with it."""

    @property
    def owner(self) -> str | None: ...  # noqa: D102 - fields of a snapshot
    @property
    def creator(self) -> str | None: ...  # noqa: D102
    @property
    def context(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def acted(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102
    @property
    def asks(self) -> Mapping[str, OpenAsk]: ...  # noqa: D102


def is_person(entry: str) -> bool:
    """Whether an entry names a person rather than a role."""
    return entry.startswith("{")


def entries_of(whole: model.Model) -> frozenset[str]:
    """All entries of a chart that name people."""
    return frozenset(entry for _, entry in roles_and_people(whole) if is_person(entry))


def watched_events(whole: model.Model) -> frozenset[str]:
    """The events whose senders an instance must remember: for a duty, or for an entry that names them."""
    distinct = {event for row in whole.transitions for event in row.distinct_from}
    return frozenset(distinct.union(filter(None, map(sender_of, entries_of(whole)))))


def roles_and_people(whole: model.Model) -> Iterator[tuple[str, str]]:
    """Whom a chart names, roles and people alike, each with its place."""
    for state in whole.states:
        if state.ask is not None:
            escalated = (entry for each in state.ask.escalate for entry in each.roles)
            yield from ((state.id, entry) for entry in (*state.ask.roles, *escalated))
    for row in whole.transitions:
        yield from ((f"{row.name}@{row.source}", entry) for entry in (*row.by, *row.countersign))


def sender_of(entry: str) -> str | None:
    """The event whose sender an entry names; None if it names nobody by an event."""
    found = ENTRY.fullmatch(entry)
    return found[1] if found is not None and found[2] else None


def ids_of(entry: str, instance: Involved) -> tuple[str, ...]:
    """The ids that an entry resolves to; none when nobody has that part."""
    if entry == OWNER:
        return _ids(instance.owner)
    if entry == CREATOR:
        return _ids(instance.creator)
    event = sender_of(entry)
    if event is not None:
        return instance.acted.get(event, ())[-1:]
    return _ids(instance.context.get(entry[1:-1]))


def _ids(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, (list, tuple)) else (value,)
    texts = (str(each) for each in values if isinstance(each, (str, int)) and not isinstance(each, bool))
    found = (normal_id(text) for text in texts if len(text) <= LONGEST_ID)
    return tuple(dict.fromkeys(each for each in found if each))


def owner_of(template: str, instance: str, creator: str, context: Mapping[str, Any]) -> str | None:
    """The owner of an instance that begins with this context; None if the chart declares none."""
    return owner_text(template, {**context, "instance": instance, "creator": creator}) or None


def owner_text(template: str, known: Mapping[str, Any]) -> str:
    """A template of an owner, filled in: the ids of people in the form in which they are compared."""

    def fill(found: re.Match[str]) -> str:
        return " ".join(_ids(known.get(found[1])))

    return normal_id(model.FIELD.sub(fill, template))[:LONGEST_OWNER]


def senders(before: tuple[str, ...], *now: str) -> tuple[str, ...]:
    """Who has sent an event so far, each once, the last sender last."""
    return tuple(reversed(dict.fromkeys(reversed((*before, *now)))))


def with_entries(actor: Actor, entries: Iterable[str], instance: Involved) -> Actor:
    """An actor, their roles completed by the entries that name them."""
    named = [entry for entry in entries if names(entry, instance, actor)]
    return replace(actor, roles=actor.roles.union(named)) if named else actor


def names(entry: str, instance: Involved, actor: Actor) -> bool:
    """Whether an entry names somebody."""
    return any(same_id(each, actor.id) for each in ids_of(entry, instance))


def concerns(entries: Iterable[str], instance: Involved, actor: Actor) -> bool:
    """Whether an instance is somebody's: they own it, it names them, or an ask is delegated to them."""
    return (
        same_id(instance.owner, actor.id)
        or any(names(entry, instance, actor) for entry in entries)
        or any(same_id(ask.delegated_to, actor.id) for ask in instance.asks.values())
    )


def may_read(whole: model.Model, entries: Iterable[str], instance: Involved, actor: Actor) -> bool:
    """Whether somebody may read an instance of a chart: by a role, as its owner, or because it names them."""
    if not actor.own and (not whole.read_by or not actor.roles.isdisjoint(whole.read_by)):
        return True
    return concerns(entries, instance, actor)


def audience(entries: Iterable[str], instance: Involved) -> tuple[str, ...]:
    """The audience of an ask: its roles, and for its other entries the people, as `@id`."""
    found: dict[str, None] = {}
    for entry in entries:
        each = (AUDIENCE + who for who in ids_of(entry, instance)) if is_person(entry) else (entry,)
        found.update(dict.fromkeys(each))
    return tuple(found)


def split(entries: Iterable[str], instance: Involved) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The roles among entries, and the ids that the other entries resolve to."""
    known = audience(entries, instance)
    people = tuple(each.removeprefix(AUDIENCE) for each in known if each.startswith(AUDIENCE))
    return tuple(each for each in known if not each.startswith(AUDIENCE)), people


def part(entry: str) -> str:
    """What an entry stands for, in words."""
    event = sender_of(entry)
    if event is not None:
        return f"the sender of {event}"
    return f"the {entry[1:-1]}"


def spelled(entries: Iterable[str], between: str = ", ") -> str:
    """Roles by name, people by the part they have: `manager, the owner`."""
    return between.join(part(entry) if is_person(entry) else entry for entry in entries)


def wanted(entries: Iterable[str], instance: Involved) -> str:
    """Whom something is for, in words: `the role manager`, `ann (the owner)`."""
    roles = [entry for entry in entries if not is_person(entry)]
    words = [f"the role {' or '.join(roles)}"] if roles else []
    for entry in entries:
        if is_person(entry):
            ids = ids_of(entry, instance)
            words.append(f"{' or '.join(ids)} ({part(entry)})" if ids else f"{part(entry)}, which is nobody")
    return " or ".join(words)
