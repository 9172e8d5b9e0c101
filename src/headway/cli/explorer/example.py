"""A first value for an editor: the smallest data that a JSON Schema lets through, as far as it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DEEPEST = 6
FORMATS = {
    "date-time": "2026-01-01T12:00:00Z",
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "duration": "PT1M",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

Schema = Mapping[str, Any]


def example(schema: Schema) -> Any:
    """A value for a schema: its default, or the least it asks for."""
    return _example(schema, schema, DEEPEST)


def _example(schema: Schema, whole: Schema, depth: int) -> Any:
    for fixed in ("default", "const"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("examples") or schema.get("enum"):
        return (schema.get("examples") or schema["enum"])[0]
    if depth == 0:
        return None
    if "$ref" in schema:
        return _example(_definition(schema["$ref"], whole), whole, depth - 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return _example(schema[choice][0], whole, depth - 1)
    return _BY_TYPE.get(schema.get("type", ""), _nothing)(schema, whole, depth)


def _definition(reference: str, whole: Schema) -> Schema:
    found: Any = whole.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return found if isinstance(found, Mapping) else {}


def _nothing(_schema: Schema, _whole: Schema, _depth: int) -> None:
    return None


def _object(schema: Schema, whole: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: _example(part, whole, depth - 1) for name, part in properties.items()}


def _array(schema: Schema, whole: Schema, depth: int) -> list[Any]:
    return [_example(schema.get("items", {}), whole, depth - 1)] * min(schema.get("minItems", 0), 10)


def _string(schema: Schema, _whole: Schema, _depth: int) -> str:
    least: str = "x" * min(schema.get("minLength", 0), 100)
    return FORMATS.get(str(schema.get("format")), least)


def _number(schema: Schema, _whole: Schema, _depth: int) -> Any:
    return schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else schema.get("minimum", 0)


def _boolean(_schema: Schema, _whole: Schema, _depth: int) -> bool:
    return False


_BY_TYPE: dict[str, Callable[[Schema, Schema, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
}
