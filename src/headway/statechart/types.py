"""Types of payloads and contexts: pydantic models, dataclasses and typed dicts, seen one way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

import pydantic
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, core_schema

from headway.codec import encode, require_depth
from headway.errors import HeadwayError, InputError
from headway.statechart.redaction import ALIASES, has_mark, has_marked_keys, names_in

T = TypeVar("T")
MODES: tuple[Literal["validation", "serialization"], ...] = ("validation", "serialization")
FIXED = frozenset(get_args(core_schema.ErrorType)) - {"value_error", "assertion_error"}
"""The errors whose texts repeat nothing of what came in, but for those that have an own one."""
OWN_TEXTS = {"union_tag_invalid": "the tag is none of the expected ones: {expected_tags}"}


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
"""A field that is redacted: `iban: Sensitive[str]` is hidden in history, messages, live events and logs."""


class Mismatch(HeadwayError):  # noqa: N818 - a verdict on data, which callers turn into a refusal
    """Data does not fit a type; the text names each place."""


class Naming(GenerateJsonSchema):
    """JSON Schema that also has the other names of a field, and the types of mapping keys."""

    def model_field_schema(self, schema: Any) -> dict[str, Any]:
        """A field of a model."""
        return _named(schema, super().model_field_schema(schema))

    def dataclass_field_schema(self, schema: Any) -> dict[str, Any]:
        """A field of a dataclass."""
        return _named(schema, super().dataclass_field_schema(schema))

    def typed_dict_field_schema(self, schema: Any) -> dict[str, Any]:
        """A field of a typed dict."""
        return _named(schema, super().typed_dict_field_schema(schema))

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """A mapping."""
        made = super().dict_schema(schema)
        keys = schema.get("keys_schema")
        return made if keys is None else {**made, "propertyNames": self.generate_inner(keys)}


class Shyness(NamedTuple):
    """What an error must not repeat: any value of the type, and names other than these."""

    hides: bool
    names: frozenset[str] | None


class DataType:
    """A named type that checks plain data and describes itself as JSON Schema."""

    __slots__ = ("_adapter", "_shyness", "kind", "name")

    def __init__(self, kind: Any) -> None:
        """Raises TypeError when the type cannot describe JSON data."""
        self.kind = kind
        self._shyness: Shyness | None = None
        self.name: str = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
        try:
            self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(kind)
            self._adapter.json_schema()
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(f"{self.name} does not describe JSON data: {error.message}") from error

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the type."""
        return self._adapter.json_schema()

    def schemas(self) -> list[dict[str, Any]]:
        """The JSON Schema with each name that a field may have, in what comes in and in what `dump` gives."""
        found = []
        for mode, by_alias in product(MODES, (True, False)):
            try:
                made = self._adapter.json_schema(mode=mode, by_alias=by_alias, schema_generator=Naming)
            except pydantic.errors.PydanticUserError:
                continue
            found.append(made)
        return found

    def kept_schema(self) -> dict[str, Any]:
        """The JSON Schema of what `dump` gives: with computed fields; empty when it is not known."""
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
            text = encode(data)
            require_depth(text)
            return self._adapter.validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            raise Mismatch(f"not a {self.name}: {'; '.join(self._places(error))}") from error
        except (InputError, RecursionError) as error:
            raise Mismatch(f"not a {self.name}: {error}") from error
        except (TypeError, ValueError) as error:
            said = type(error).__name__ if self._shy().hides else error
            raise Mismatch(f"not a {self.name}: {said}") from error

    def dump(self, value: object) -> Any:
        """Plain data of a typed value."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)

    def clean(self, data: object) -> Any:
        """Plain data, checked and with defaults filled in; raises Mismatch."""
        return self.dump(self.load(data))

    def _places(self, error: pydantic.ValidationError) -> Iterator[str]:
        hides, names = self._shy()
        for item in error.errors(include_url=False):
            parts = [part for part in item["loc"] if names is None or isinstance(part, int) or part in names]
            text = item["type"].replace("_", " ") if hides and _repeats(item) else _text(item)
            yield f"{'.'.join(map(str, parts)) or 'it'}: {text.lower()}"

    def _shy(self) -> Shyness:
        """Computed at the first error."""
        if self._shyness is None:
            schemas = self.schemas()
            names = frozenset().union(*map(names_in, schemas)) if any(map(has_marked_keys, schemas)) else None
            self._shyness = Shyness(any(map(has_mark, schemas)), names)
        return self._shyness


def plain(value: object) -> Any:
    """A value of a payload type as plain data; anything else as it is."""
    if isinstance(value, pydantic.BaseModel) or is_dataclass(value):
        return DataType(type(value)).dump(value)
    return value


def _named(field: Any, made: dict[str, Any]) -> dict[str, Any]:
    alias = field.get("validation_alias")
    if not isinstance(alias, list):
        return made
    return {**made, ALIASES: alias if isinstance(alias[0], list) else [alias]}


def _text(item: ErrorDetails) -> str:
    own = OWN_TEXTS.get(item["type"])
    return item["msg"] if own is None else own.format_map(item["ctx"])


def _repeats(item: ErrorDetails) -> bool:
    """Whether an author's own text repeats something of what came in."""
    return item["type"] not in FIXED and any(text in item["msg"] for text in _texts(item["input"]))


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        for pair in data.items():
            yield from _texts(pair)
    elif isinstance(data, (list, tuple)):
        for each in data:
            yield from _texts(each)
    elif data is not None:
        yield str(data)
