"""Values and their JSON: immutable structs that encode, decode and describe themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

import msgspec

from headway.errors import InputError

T = TypeVar("T")

replace = msgspec.structs.replace


@dataclass_transform(frozen_default=True)
class Value(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An immutable value: equal by content, encodable as JSON."""


class Plain(Value, gc=False):
    """A value of plain data alone: nothing in it leads back to it, so no collector has to look at it."""


class Scratch(msgspec.Struct):
    """A mutable record for the middle of a computation; it never leaves the function that made it."""


def encode(value: object) -> bytes:
    """The JSON text of a value; raises InputError for what JSON cannot hold."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InputError(f"not JSON: {error}") from error


def decode(kind: type[T], text: bytes | str) -> T:
    """The value of a type that a JSON text holds; raises InputError with the place that is wrong."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"not a {_name(kind)}: {error}") from error


def verbatim(text: str | None) -> object:
    """A JSON text as a part of a larger value that is encoded: it is not looked at again."""
    return None if text is None else msgspec.Raw(text)


def to_data(value: object) -> Any:
    """The value as plain dicts, lists, strings and numbers."""
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InputError(f"not JSON: {error}") from error


def from_data(kind: type[T], data: object) -> T:
    """The value of a type that plain data holds; raises InputError with the place that is wrong."""
    try:
        return msgspec.convert(data, kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InputError(f"not a {_name(kind)}: {error}") from error


def fingerprint(value: object) -> bytes:
    """The JSON text of a value, the same for equal values whatever order their sets and keys have."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InputError(f"not JSON: {error}") from error


def as_json(value: object) -> Any:
    """A value as JSON would bring it back; raises InputError for what JSON cannot hold."""
    text = encode(value)
    if b"null" in text:
        require_finite(value)
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise InputError(f"not JSON: {error}") from error


def require_finite(value: object) -> None:
    """Raises InputError for a number that JSON would make a null of."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise InputError("not JSON: a number that is not finite")
        if isinstance(item, Mapping):
            pending += item.values()
        elif isinstance(item, (list, tuple, set, frozenset)):
            pending += item


def is_json(data: object) -> bool:
    """Whether data is the same after it was written as JSON and read again."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(data)) == data)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return False


def json_schema(kind: object) -> dict[str, Any]:
    """The JSON Schema of a type."""
    return msgspec.json.schema(kind)


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
