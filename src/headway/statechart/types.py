"""Types of payloads and contexts: pydantic models, dataclasses and typed dicts, seen one way."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar, get_args

import pydantic
from pydantic_core import core_schema

from headway.codec import encode
from headway.errors import HeadwayError, InputError

T = TypeVar("T")


class Mark:
    """Marks a type in its JSON Schema, where it stands."""

    def __get_pydantic_core_schema__(self, source: Any, handler: pydantic.GetCoreSchemaHandler) -> Any:
        """The type in a wrapper of its own: a mark on the type itself would be on it everywhere."""
        return core_schema.chain_schema([handler(source)])

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of what is marked, with the mark."""
        return {**handler(schema), "sensitive": True}

    def __repr__(self) -> str:
        """The same in every process: it may be a part of a type's name."""
        return "Sensitive"


Sensitive = Annotated[T, Mark()]
"""A field that is not told: `iban: Sensitive[str]` is hidden in history, messages, live events and logs."""


class Mismatch(HeadwayError):  # noqa: N818 - a verdict on data, which callers turn into a refusal
    """Data does not fit a type; the text names each place."""


class DataType:
    """A named type that checks plain data and describes itself as JSON Schema."""

    __slots__ = ("_adapter", "kind", "name")

    def __init__(self, kind: Any) -> None:
        """Raises TypeError when the type cannot describe JSON data."""
        self.kind = kind
        self.name: str = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
        try:
            self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(kind)
            self._adapter.json_schema()
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(f"{self.name} does not describe JSON data: {error.message}") from error

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the type."""
        return self._adapter.json_schema()

    def schemas(self) -> tuple[dict[str, Any], ...]:
        """The JSON Schema with each name that a field may have in data: its alias, and its own."""
        return self.schema(), self._adapter.json_schema(by_alias=False)

    def kept_schema(self) -> dict[str, Any]:
        """The JSON Schema of what `dump` gives: with computed fields; empty when it cannot be told."""
        try:
            return self._adapter.json_schema(mode="serialization")
        except pydantic.errors.PydanticUserError:
            return {}

    def load(self, data: object) -> Any:
        """The typed value of plain data (or of a value of the type); raises Mismatch."""
        try:
            if type(data) is self.kind and not isinstance(data, (dict, list, str, int, float)):
                return self._adapter.validate_python(data)
            # As JSON, so that a date may be a string but "1" is never a number.
            return self._adapter.validate_json(encode(data), strict=True)
        except pydantic.ValidationError as error:
            raise Mismatch(f"not a {self.name}: {_places(error)}") from error
        except (InputError, RecursionError, TypeError, ValueError) as error:
            raise Mismatch(f"not a {self.name}: {error}") from error

    def dump(self, value: object) -> Any:
        """Plain data of a typed value."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)

    def clean(self, data: object) -> Any:
        """Plain data, checked and with defaults filled in; raises Mismatch."""
        return self.dump(self.load(data))


def plain(value: object) -> Any:
    """A value of a payload type as plain data; anything else as it is."""
    if isinstance(value, pydantic.BaseModel) or is_dataclass(value):
        return DataType(type(value)).dump(value)
    return value


def _places(error: pydantic.ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'it'}: {item['msg'].lower()}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    )
