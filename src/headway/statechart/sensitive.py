"""What must not be told: parts of payloads and contexts that their types mark, hidden where data leaves.

The step itself hides them in all it tells (lines of history, messages, what asks show), so that no host and
no reader of these can forget to. Guards, actions, the context and work see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headway.statechart.tree import ANY, Arc, descriptor
from headway.statechart.types import DataType

HIDDEN = "[redacted]"
MARKS = ("sensitive", "writeOnly")
COMBINED = ("anyOf", "oneOf", "allOf")
MOST_NAMES = 1_024

Schema = Mapping[str, Any]
Place = tuple[Schema, Schema]
"""A part of a schema, and the definitions it may refer to."""


class Secrets:
    """Hides what the types of a chart mark as sensitive."""

    def __init__(self, arcs: Iterable[Arc], context: DataType | None) -> None:
        typed = [(arc, arc.takes or arc.form) for arc in arcs]
        self._events = [
            (descriptor(event), places)
            for arc, kind in typed
            for event in arc.model.events
            if kind is not None and (places := _marked(kind))
        ]
        self._context = [] if context is None else _marked(context)
        self._known: dict[str, Sequence[Place]] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return bool(self._events or self._context)

    def event(self, name: str, data: Any) -> Any:
        """What an event carries, as it may be told: any transition's type that could take it counts."""
        places = self._known.get(name)
        if places is None:
            places = [place for own, found in self._events if _concerns(own, name) for place in found]
            if len(self._known) < MOST_NAMES:
                self._known[name] = places
        return _told(places, data)

    def context(self, data: Any) -> Any:
        """A context, or some fields of it, as it may be told."""
        return _told(self._context, data)


def _concerns(own: str, name: str) -> bool:
    """Whether a descriptor matches an event; `answer` stands for the answers of all states."""
    return own in {ANY, name} or name.startswith(f"{own}.") or own.startswith(f"{name}.")


def _marked(kind: DataType) -> list[Place]:
    """The schemas of a type in which something is marked: by the names it has, and by those it may have."""
    return [(schema, schema.get("$defs", {})) for schema in kind.schemas() if _has_mark(schema)]


def _has_mark(schema: object) -> bool:
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            if _is_marked(part):
                return True
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return False


def _is_marked(part: Schema) -> bool:
    return any(part.get(mark) is True for mark in MARKS)


def _told(places: Sequence[Place], data: Any) -> Any:
    if not places or data is None:
        return data
    meant = list(_meant(places))
    if any(_is_marked(part) for part, _ in meant):
        return HIDDEN
    hide = PARTS.get(type(data))
    return data if hide is None else hide(meant, data)


def _meant(places: Sequence[Place]) -> Iterator[Place]:
    """The places themselves, and all that they refer to or combine."""
    pending, seen = [*places], set()
    while pending:
        part, names = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part, names
        if isinstance(reference := part.get("$ref"), str):
            pending.append((names.get(reference.rpartition("/")[2], {}), names))
        pending += [(each, names) for word in COMBINED for each in part.get(word, ())]


def _told_fields(places: Sequence[Place], data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _told([*_of_field(places, name)], value) for name, value in data.items()}


def _of_field(places: Sequence[Place], name: str) -> Iterator[Place]:
    for part, names in places:
        if name in part.get("properties", {}):
            yield part["properties"][name], names
            continue
        others = [part.get("additionalProperties"), *part.get("patternProperties", {}).values()]
        yield from ((other, names) for other in others if isinstance(other, Mapping))


def _told_items(places: Sequence[Place], data: Iterable[Any]) -> list[Any]:
    inside = [(each, names) for part, names in places for each in _items(part)]
    return [_told(inside, value) for value in data]


def _items(part: Schema) -> Iterator[Schema]:
    yield from part.get("prefixItems", ())
    if isinstance(items := part.get("items"), Mapping):
        yield items


PARTS: dict[type, Callable[[Sequence[Place], Any], Any]] = {
    dict: _told_fields,
    list: _told_items,
    tuple: _told_items,
}
