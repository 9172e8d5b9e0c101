"""Redaction: parts of payloads and contexts that their types mark as sensitive are hidden where data leaves.

The step itself hides them in all that it reports (lines of history, messages, what asks show), so no host and
no reader can forget to. Guards, actions, the context and work see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from headway.statechart.model import ANY

MOST_NAMES = 1_024
ALIASES = "aliases"
"""Other paths to a field in data; only in schemas made for redaction."""
COMBINED = ("anyOf", "oneOf", "allOf")
HIDDEN = "[redacted]"
MARKS = ("sensitive", "writeOnly")

Schema = Mapping[str, Any]
Place = tuple[Schema, Schema]
"""A part of a schema, and the definitions it may refer to."""


class HasSchemas(Protocol):
    """A type that has JSON Schemas."""

    def schemas(self) -> Sequence[Schema]:
        """The JSON Schemas of the type, with each name that a field may have."""


class Secrets:
    """Hides what the types of a chart mark as sensitive; each event comes as a descriptor with its type."""

    def __init__(self, events: Iterable[tuple[str, HasSchemas]], context: HasSchemas | None) -> None:
        typed = list(events)
        marked = {kind: _marked(kind) for _, kind in typed}
        self._events = [(event, marked[kind]) for event, kind in typed if marked[kind]]
        self._context = [] if context is None else _marked(context)
        self._known: dict[str, Sequence[Place]] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return bool(self._events or self._context)

    def event(self, name: str, data: Any) -> Any:
        """The data of an event, redacted by the types of all transitions that could take it."""
        places = self._known.get(name)
        if places is None:
            places = [place for own, found in self._events if _concerns(own, name) for place in found]
            if len(self._known) < MOST_NAMES:
                self._known[name] = places
        return _redacted(places, data)

    def context(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """A context, or some fields of it, redacted."""
        redacted = _redacted(self._context, data)
        return dict.fromkeys(data, HIDDEN) if redacted is HIDDEN else redacted


def _concerns(own: str, name: str) -> bool:
    """Whether a descriptor matches an event; `answer` stands for the answers of all states."""
    return own in {ANY, name} or name.startswith(f"{own}.") or own.startswith(f"{name}.")


def _marked(kind: HasSchemas) -> list[Place]:
    """The schemas of a type in which something is marked, by each name that a field may have."""
    return [(made, made.get("$defs", {})) for made in map(ready, kind.schemas()) if has_mark(made)]


def _redacted(places: Sequence[Place], data: Any) -> Any:
    if not places or data is None:
        return data
    found = list(meant(places))
    if any(is_marked(part) for part, _ in found):
        return HIDDEN
    hide = PARTS.get(type(data))
    return data if hide is None else hide(found, data)


def _redacted_fields(places: Sequence[Place], data: Mapping[str, Any]) -> dict[str, Any]:
    redacted = {name: _redacted([*_of_field(places, name)], value) for name, value in data.items()}
    keys = [(part["propertyNames"], names) for part, names in places if "propertyNames" in part]
    if not any(is_marked(part) for part, _ in meant(keys)):
        return redacted
    fields = {name for part, _ in places for name in part.get("properties", ())}
    return {_redacted_key(name, at, fields): value for at, (name, value) in enumerate(redacted.items(), 1)}


def _redacted_key(name: str, at: int, fields: Iterable[str]) -> str:
    """A number for each key, so that the values of different keys stay apart."""
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


def _redacted_items(places: Sequence[Place], data: Iterable[Any]) -> list[Any]:
    inside = [(each, names) for part, names in places for each in _items(part)]
    return [_redacted(inside, value) for value in data]


def _items(part: Schema) -> Iterator[Schema]:
    yield from part.get("prefixItems", ())
    if isinstance(items := part.get("items"), Mapping):
        yield items


PARTS: dict[type, Callable[[Sequence[Place], Any], Any]] = {
    dict: _redacted_fields,
    list: _redacted_items,
    tuple: _redacted_items,
}


def is_marked(part: Schema) -> bool:
    """Whether all that a part describes is sensitive."""
    return any(part.get(mark) is True for mark in MARKS)


def has_mark(schema: object) -> bool:
    """Whether anything in a schema is marked."""
    return any(is_marked(part) for part in _parts(schema, {}))


def has_marked_keys(schema: Schema) -> bool:
    """Whether keys of some mapping in a schema are marked."""
    names = schema.get("$defs", {})
    return any(has_mark([*_parts(part.get("propertyNames"), names)]) for part in _parts(schema, {}))


def names_in(schema: object) -> set[str]:
    """The names of all fields in a schema, and those by which they may also come."""
    found: set[str] = set()
    for part in _parts(schema, {}):
        if isinstance(fields := part.get("properties"), Mapping):
            found.update(fields)
        found.update(str(step) for path in part.get(ALIASES, ()) for step in path)
    return found


def meant(places: Sequence[Place]) -> Iterator[Place]:
    """The places themselves, and all that they refer to or combine."""
    pending, seen = [*places], set()
    while pending:
        part, names = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part, names
        if isinstance(reference := part.get("$ref"), str):
            pending.append((_referred(reference, names), names))
        pending += [(each, names) for word in COMBINED for each in part.get(word, ())]


def ready(schema: Schema) -> dict[str, Any]:
    """A schema to redact by: every name of a field is a property, and a text with a marked part is marked."""
    made: dict[str, Any] = _ready(schema, schema.get("$defs", {}))
    return made


def redacted_error(error: Exception, *, hides: bool) -> str:
    """The text of an error; its class alone where the text could repeat a hidden value."""
    name = type(error).__name__
    return name if hides else f"{name}: {error}"


def _referred(reference: str, names: Schema) -> Schema:
    found: Schema = names.get(reference.rpartition("/")[2], {})
    return found


def _parts(schema: object, names: Schema) -> Iterator[Schema]:
    """All mappings in a schema, and in what it refers to by these names."""
    pending, seen = [schema], set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Mapping):
            yield part
            pending += part.values()
            if isinstance(reference := part.get("$ref"), str):
                pending.append(_referred(reference, names))
        elif isinstance(part, list):
            pending += part


def _ready(part: Any, names: Schema) -> Any:
    if isinstance(part, list):
        return [_ready(each, names) for each in part]
    if not isinstance(part, Mapping):
        return part
    made = {word: _ready(each, names) for word, each in part.items()}
    # A text is shown whole or not at all.
    if has_mark([*_parts(part.get("contentSchema"), names)]):
        made["sensitive"] = True
    if others := [*_other_ways(made.get("properties"))]:
        made["allOf"] = [*made.get("allOf", ()), *others]
    return made


def _other_ways(fields: object) -> Iterator[Schema]:
    if not isinstance(fields, Mapping):
        return
    for field in fields.values():
        for path in field.get(ALIASES, ()) if isinstance(field, Mapping) else ():
            yield _at(path, field)


def _at(path: Sequence[str | int], field: Schema) -> Schema:
    for step in reversed(path):
        field = {"properties": {step: field}} if isinstance(step, str) else {"items": field}
    return field
