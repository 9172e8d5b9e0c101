"""What must not be told: parts of payloads and contexts that their types mark, hidden where data leaves.

The step itself hides them in all it tells (lines of history, messages, what asks show), so that no host and
no reader of these can forget to. Guards, actions, the context and work see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headway.statechart.sensitive import HIDDEN, Place, Schema, has_mark, is_marked, meant, ready
from headway.statechart.tree import ANY, Arc, descriptor
from headway.statechart.types import DataType

MOST_NAMES = 1_024


class Secrets:
    """Hides what the types of a chart mark as sensitive."""

    def __init__(self, arcs: Iterable[Arc], context: DataType | None) -> None:
        typed = [(arc, arc.takes or arc.form) for arc in arcs]
        marked = {kind: _marked(kind) for _, kind in typed if kind is not None}
        self._events = [
            (descriptor(event), marked[kind])
            for arc, kind in typed
            for event in arc.model.events
            if kind is not None and marked[kind]
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

    def context(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """A context, or some fields of it, as it may be told."""
        told = _told(self._context, data)
        return dict.fromkeys(data, HIDDEN) if told is HIDDEN else told


def _concerns(own: str, name: str) -> bool:
    """Whether a descriptor matches an event; `answer` stands for the answers of all states."""
    return own in {ANY, name} or name.startswith(f"{own}.") or own.startswith(f"{name}.")


def _marked(kind: DataType) -> list[Place]:
    """The schemas of a type in which something is marked, by each name that a field may have."""
    return [(made, made.get("$defs", {})) for made in map(ready, kind.schemas()) if has_mark(made)]


def _told(places: Sequence[Place], data: Any) -> Any:
    if not places or data is None:
        return data
    found = list(meant(places))
    if any(is_marked(part) for part, _ in found):
        return HIDDEN
    hide = PARTS.get(type(data))
    return data if hide is None else hide(found, data)


def _told_fields(places: Sequence[Place], data: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: _told([*_of_field(places, name)], value) for name, value in data.items()}
    keys = [(part["propertyNames"], names) for part, names in places if "propertyNames" in part]
    if not any(is_marked(part) for part, _ in meant(keys)):
        return told
    fields = {name for part, _ in places for name in part.get("properties", ())}
    return {_told_key(name, at, fields): value for at, (name, value) in enumerate(told.items(), 1)}


def _told_key(name: str, at: int, fields: Iterable[str]) -> str:
    """One name for each, or what belongs to different keys would be one."""
    return name if name in fields else f"{HIDDEN} {at}"


def _of_field(places: Sequence[Place], name: str) -> Iterator[Place]:
    for part, names in places:
        if name in part.get("properties", {}):
            yield part["properties"][name], names
            continue
        # A tuple with names may come as a mapping, too.
        others = [
            part.get("additionalProperties"),
            *part.get("patternProperties", {}).values(),
            *_items(part),
        ]
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
