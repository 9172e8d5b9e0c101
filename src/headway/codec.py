"""Values and their JSON: immutable structs that encode, decode and describe themselves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, dataclass_transform, get_args

import msgspec

from headway.errors import InputError, TooDeepError

__all__ = [
    "Plain",
    "Value",
    "as_json",
    "decode",
    "encode",
    "from_data",
    "replace",
    "to_data",
]

T = TypeVar("T")
DEEPEST = 100
"""How many levels of lists and objects JSON from outside may have.

Pydantic reads 200 and writes 250. The difference is for the objects that are put around what is stored.
"""
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
BRACKETS = bytes.maketrans(b"[]{}", b"()()")
NO_BRACKETS = bytes({*range(256)} - {*b"[]{}"})

replace, as_dict = msgspec.structs.replace, msgspec.structs.asdict
Meta = msgspec.Meta
"""What holds for a value beside its type, and what it means: `Annotated[str, Meta(max_length=9)]`."""
UNSET = msgspec.UNSET
"""The value of a field that was left out, where that differs from null."""
UnsetType: TypeAlias = msgspec.UnsetType


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
    require_depth(text)
    if b"null" in text:
        require_finite(value)
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise InputError(f"not JSON: {error}") from error


def require_depth(text: bytes, most: int = DEEPEST) -> None:
    """Raises TooDeepError for a JSON text whose lists and objects are nested in more levels."""
    if len(text) <= 2 * most or text.count(b"[") + text.count(b"{") <= most:
        return
    nested = TEXT.sub(b"", text).translate(BRACKETS, NO_BRACKETS)
    for _ in range(most):
        nested = nested.replace(b"()", b"")  # the innermost level
        if not nested:
            return
    raise TooDeepError(f"JSON nested more than {DEEPEST} levels deep")


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
    """Whether data is JSON that can be stored: the same after it was written and read again, not too deep."""
    try:
        text = msgspec.json.encode(data)
        require_depth(text)
        return bool(msgspec.json.decode(text) == data)
    except (InputError, TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return False


def json_schemas(kinds: Iterable[object], ref: str) -> tuple[Sequence[dict[str, Any]], dict[str, Any]]:
    """The JSON Schema of each type, and those of all structs in them by name; `ref` is where `{name}` is."""
    schemas, components = msgspec.json.schema_components(kinds, ref_template=ref)
    return schemas, components


def is_struct(kind: object) -> bool:
    """Whether a type is a struct, or may be one."""
    if isinstance(kind, type):
        return issubclass(kind, msgspec.Struct)
    return any(map(is_struct, get_args(kind)))


def json_schema(kind: object) -> dict[str, Any]:
    """The JSON Schema of a type."""
    return msgspec.json.schema(kind)


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
