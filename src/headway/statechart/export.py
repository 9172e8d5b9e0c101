"""A chart as a JSON document, and back: functions and types by name, nothing in it is ever run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, get_origin

from headway.codec import decode, encode, fingerprint, from_data, json_schema, replace
from headway.errors import DefinitionError, DocumentError, InputError
from headway.statechart import model
from headway.statechart.authoring.declarations import Function, SourceLine
from headway.statechart.chart import Chart, Charted, chart_of, named_functions
from headway.statechart.types import DataType
from headway.statechart.validation.validate import problems_of

FORMAT = 1
SCHEMA_ID = f"urn:headway:chart:{FORMAT}"

LARGEST_TEXT = 5_000_000
MOST_VALUES = 1_000_000
DEEPEST = 200
WIDEST_INTEGER = 2**63
LONGEST_NAME = 200
MOST_STATES, MOST_TRANSITIONS = 10_000, 100_000
MOST_TARGETS = 64
MOST_UNNAMED = 5_000
MOST_ACTIVE = 1_000
MOST_ENTRIES = 5_000_000


def to_document(chart: Charted) -> dict[str, Any]:
    """The chart, or the class that declares it, as JSON data; raises InputError for what JSON cannot hold."""
    data: dict[str, Any] = decode(dict, encode(chart_of(chart).model))
    return {"$schema": SCHEMA_ID, "headway": FORMAT, **data}


def chart_hash(whole: model.Model) -> str:
    """A digest of what a chart does; it stays the same when a text that is for people only is mended."""
    states = tuple(replace(state, meaning="", waits_for="", says="") for state in whole.states)
    rows = tuple(replace(row, meaning="") for row in whole.transitions)
    facts = tuple(replace(fact, meaning="", example=None) for fact in whole.facts)
    schemas = {name: _without_texts(schema) for name, schema in whole.schemas.items()}
    bare = replace(
        whole,
        meaning="",
        states=states,
        transitions=rows,
        facts=facts,
        schemas=schemas,
        accepts=(),
        upgrades=(),  # how others come here is not what it does, and may be said later
    )
    return sha256(fingerprint(bare)).hexdigest()


SCHEMA_TEXTS = frozenset({"title", "description", "examples", "$comment"})
SCHEMA_NAMES = frozenset({"properties", "$defs", "patternProperties"})
SCHEMA_VALUES = frozenset({"const", "default", "enum"})


def _without_texts(schema: Any) -> Any:
    """A JSON Schema without what it says to people; a field may well be called `title`."""
    if isinstance(schema, list):
        return [_without_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    bare: dict[str, Any] = {}
    for word, value in schema.items():
        if word in SCHEMA_NAMES and isinstance(value, dict):
            bare[word] = {name: _without_texts(each) for name, each in value.items()}
        elif word in SCHEMA_VALUES:
            bare[word] = value
        elif word not in SCHEMA_TEXTS:
            bare[word] = _without_texts(value)
    return bare


def from_document(document: object, functions: Iterable[Any] = ()) -> Chart:
    """The chart of a document: JSON text, or the data in it.

    `functions` are the guards, actions and types the document names, or a mapping from those names; what
    is missing stays unbound. Raises DocumentError for what is no chart, DefinitionError for a wrong one.
    """
    whole = _model(_body(_data(document)))
    _bounded(whole)
    problems = problems_of(whole, {}, SourceLine())
    if problems:
        raise DefinitionError(whole.name, tuple(problems))
    calls, types = _bindings(functions)
    wanted = named_functions(whole) | {each.name for each in whole.invariants}
    return Chart(whole, {name: call for name, call in calls.items() if name in wanted}, types)


def document_schema() -> dict[str, Any]:
    """The JSON Schema of documents, as published beside this module."""
    schema: dict[str, Any] = decode(dict, encode(json_schema(model.Model)))
    definitions = schema["$defs"]
    whole = definitions.pop("Model")
    marks = {
        "$schema": {"const": SCHEMA_ID},
        "headway": {"description": "The version of this format.", "const": FORMAT},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **whole,
        "title": "Headway chart",
        "properties": marks | whole["properties"],
        "required": ["headway", *whole["required"]],
        "$defs": dict(sorted(definitions.items())),
    }


def _data(document: object) -> object:
    """The data of a document, checked to be JSON of a bearable size."""
    data = document
    if isinstance(document, (str, bytes)):
        if len(document) > LARGEST_TEXT:
            raise DocumentError(f"a document has at most {LARGEST_TEXT:,} characters, not {len(document):,}")
        try:
            data = decode(object, document)
        except (InputError, UnicodeError) as error:
            raise DocumentError(f"not JSON: {error.__cause__ or error}") from error
    _measure(data)
    return data


def _measure(data: object) -> None:
    """Refuses what JSON cannot hold, and what is too deep or too large; a cycle is too deep."""
    level: list[object] = [data]
    values, size = 0, 0
    for _ in range(DEEPEST):
        values += len(level)
        inner: list[object] = []
        for value in level:
            size += _size(value)
            inner += _parts(value)
            if values + len(inner) > MOST_VALUES or size > LARGEST_TEXT:
                raise DocumentError(
                    f"a document has at most {MOST_VALUES:,} values, {LARGEST_TEXT:,} characters"
                )
        if not inner:
            return
        level = inner
    raise DocumentError(f"a document is nested at most {DEEPEST} levels deep")


def _parts(value: object) -> Iterable[object]:
    if not isinstance(value, dict):
        return value if isinstance(value, (list, tuple)) else ()
    for key in value:
        if not isinstance(key, str):
            raise DocumentError(f"not JSON: {key!r} as a key")
    return (*value, *value.values())


def _size(value: object) -> int:
    measure = _SIZES.get(type(value))
    if measure is None:
        raise DocumentError(f"not JSON: a value of type {type(value).__name__}")
    return measure(value)


def _text_size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise DocumentError(f"not JSON: half of a surrogate pair in {text[:40]!r}") from error


def _number_size(number: float) -> int:
    if not math.isfinite(number) or abs(number) >= WIDEST_INTEGER:
        raise DocumentError("not a chart: a number that is not finite, or has more than 63 bits")
    return 1


def _one(_value: object) -> int:
    return 1


_SIZES: dict[type, Callable[[Any], int]] = {
    str: _text_size,
    int: _number_size,
    float: _number_size,
    **dict.fromkeys((dict, list, tuple, bool, type(None)), _one),
}


def _body(data: object) -> dict[str, Any]:
    """The model's part of a document whose format is known."""
    if not isinstance(data, dict):
        raise DocumentError(f"not a chart: expected an object, got {type(data).__name__}")
    said = data.get("headway")
    if said is not True and said == FORMAT and data.get("$schema", SCHEMA_ID) == SCHEMA_ID:
        return {key: value for key, value in data.items() if key not in {"headway", "$schema"}}
    raise DocumentError(f'not a chart of this format: it has no "headway": {FORMAT}, or another "$schema"')


def _model(body: dict[str, Any]) -> model.Model:
    try:
        return from_data(model.Model, body)
    except InputError as error:
        raise DocumentError(f"not a chart: {error.__cause__ or error}") from error


def _bounded(whole: model.Model) -> None:
    """Refuses a chart whose tables would grow faster than its document."""
    if len(whole.states) > MOST_STATES or len(whole.transitions) > MOST_TRANSITIONS:
        raise DocumentError(
            f"a chart has at most {MOST_STATES:,} states and {MOST_TRANSITIONS:,} transitions"
        )
    goals = [whole.initial, *(state.initial for state in whole.states)]
    goals += [each for row in whole.transitions for each in (row.targets, row.lands, row.excludes)]
    if max(map(len, goals)) > MOST_TARGETS:
        raise DocumentError(f"a transition names at most {MOST_TARGETS} states")
    unnamed = Counter(row.source for row in whole.transitions if not row.events or row.after is not None)
    if max(unnamed.values(), default=0) > MOST_UNNAMED:
        raise DocumentError(f"a state has at most {MOST_UNNAMED:,} transitions without an event")
    names = [whole.name, *(state.id for state in whole.states)]
    names += [name for row in whole.transitions for name in (row.name, *row.events)]
    if max(map(len, names)) > LONGEST_NAME:
        raise DocumentError(f"the name of a chart, state or event has at most {LONGEST_NAME} characters")
    active = _most_active(whole)
    if active > MOST_ACTIVE or active * sum(map(len, goals)) > MOST_ENTRIES:
        raise DocumentError("too many states would be active at once for this number of transitions")


def _most_active(whole: model.Model) -> int:
    """How many states can be active at once: all regions of a parallel state, the deepest child of others."""
    inside: dict[str | None, int] = {}
    parallel = {state.id for state in whole.states if state.kind == "parallel"}
    for state in reversed(whole.states):
        active = 1 + inside.get(state.id, 0)
        known = inside.get(state.parent, 0)
        inside[state.parent] = known + active if state.parent in parallel else max(known, active)
    return inside.get(None, 0)


def _bindings(given: Iterable[Any]) -> tuple[dict[str, Function], dict[str, DataType]]:
    """Functions and types by name; raises InputError."""
    calls: dict[str, Function] = {}
    types: dict[str, DataType] = {}
    named = given.items() if isinstance(given, Mapping) else [(_name(each), each) for each in given]
    for name, each in named:
        known = calls.get(name) or types.get(name)
        if known is not None and getattr(known, "kind", known) is not each:
            raise InputError(f"two different functions or types are called {name}")
        if isinstance(each, type) or get_origin(each) is not None:
            types[name] = _data_type(each)
        elif callable(each):
            calls[name] = each
        else:
            raise InputError(f"{name} is bound to something that is neither a function nor a type: {each!r}")
    return calls, types


def _name(each: object) -> str:
    name = getattr(each, "__name__", None)
    if isinstance(name, str):
        return name
    raise InputError(f"neither a function nor a type with a name: {each!r} (give it in a mapping)")


def _data_type(kind: object) -> DataType:
    try:
        return DataType(kind)
    except TypeError as error:
        raise InputError(str(error)) from error
