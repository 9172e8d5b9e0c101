"""Random data of a JSON Schema: enough of it that forms are answered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

WORDS = ("a", "blue", "x1", "Łódź", "2026-01-01")
FORMATS = {
    "date-time": "2026-01-01T09:00:00Z",
    "date": "2026-01-01",
    "uuid": "12345678-1234-5678-1234-567812345678",
    "uri": "https://example.org/",
    "email": "ann@example.org",
}
MOST_DEPTH = 6


def sample(schema: dict[str, Any], random: Random) -> Any:
    """A value that a schema allows, or one that it nearly does."""
    return _sample(schema, random, schema.get("$defs", {}), 0)


def _sample(schema: dict[str, Any], random: Random, defs: dict[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return _sample(defs.get(schema["$ref"].rpartition("/")[2], {}), random, defs, depth + 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return _sample(random.choice(schema[choice]), random, defs, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    make = MAKERS.get(schema.get("type", "object"))
    return None if make is None or depth > MOST_DEPTH else make(schema, random, defs, depth)


def _object(schema: dict[str, Any], random: Random, defs: dict[str, Any], depth: int) -> Any:
    required = schema.get("required", ())
    return {
        name: _sample(inner, random, defs, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or random.random() < 0.5  # noqa: PLR2004 - half of what may be left out
    }


def _array(schema: dict[str, Any], random: Random, defs: dict[str, Any], depth: int) -> Any:
    if "prefixItems" in schema:
        return [_sample(inner, random, defs, depth + 1) for inner in schema["prefixItems"]]
    number = random.randint(schema.get("minItems", 0), schema.get("minItems", 0) + 2)
    return [_sample(schema.get("items", {}), random, defs, depth + 1) for _ in range(number)]


def _number(schema: dict[str, Any], random: Random, _defs: dict[str, Any], _depth: int) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = max(low, schema.get("maximum", schema.get("exclusiveMaximum", low + 11) - 1))
    return random.randint(int(low), int(high))


def _string(schema: dict[str, Any], random: Random, _defs: dict[str, Any], _depth: int) -> Any:
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    word = random.choice(WORDS)
    return word.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


MAKERS: dict[str, Callable[[dict[str, Any], Random, dict[str, Any], int], Any]] = {
    "object": _object,
    "array": _array,
    "integer": _number,
    "number": _number,
    "string": _string,
    "boolean": lambda _schema, random, _defs, _depth: random.random() < 0.5,  # noqa: PLR2004 - a coin
}
