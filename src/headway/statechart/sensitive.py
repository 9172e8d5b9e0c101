"""Marks of what is sensitive, in the JSON Schemas of types: where they stand, and what they cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ALIASES = "aliases"
"""The other ways by which a field is found in data, as paths; only in schemas made for hiding."""
COMBINED = ("anyOf", "oneOf", "allOf")
HIDDEN = "[redacted]"
MARKS = ("sensitive", "writeOnly")

Schema = Mapping[str, Any]
Place = tuple[Schema, Schema]
"""A part of a schema, and the definitions it may refer to."""


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
    """A schema to hide by: every name of a field is a property, and a text that holds a mark is marked."""
    made: dict[str, Any] = _ready(schema, schema.get("$defs", {}))
    return made


def told_error(error: Exception, *, hides: bool) -> str:
    """An error in words; its class alone where its text could repeat what must be hidden."""
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
    # A text is told whole or not at all: nobody looks into it.
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
