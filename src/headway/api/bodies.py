"""Bodies over HTTP: structs that are decoded, encoded, and described in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from headway.api.problems import Problem
from headway.codec import UNSET, Meta, Value, decode, from_data, is_struct
from headway.errors import InputError
from headway.statechart.identity import LONGEST_ID, require_id

T = TypeVar("T")
LARGEST_WHOLE = 2**53 - 1
"""The largest whole number in a request: JavaScript represents it exactly, and a column holds it."""
NO_NUL = r"^[^\x00]*$"
NO_CONTROL = r"\x00-\x1f\x7f-\x9f"
UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
MISSING = re.compile(r"Object missing required field `(.*)`")
INVALID_TAG = re.compile(r"Invalid value .*", re.DOTALL)
INVALID_CHOICE = re.compile(r"Invalid enum value .*", re.DOTALL)
NOT_WHOLE = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float`")
STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]")
UNIONS = frozenset({Union, UnionType})
ANY_KEY = "*"
"""The step of a place that leads to a value of an object with any keys."""


class Check:
    """A check of a field beside its type: the function raises ValueError."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function


class RequestBody(Value):
    """The body of a request: nothing is coerced, and no unknown field is accepted."""


class ResponseBody(Value, omit_defaults=False):
    """The body of an answer: all its fields, also those that are null."""


def _as_id(text: str) -> None:
    try:
        require_id("it", text)
    except InputError as error:
        raise ValueError(str(error)) from error


ActorId = Annotated[
    str,
    # The pattern is for readers of the schema: the check knows more, and says it in words.
    Meta(extra_json_schema={"pattern": rf"^[^\s{NO_CONTROL}]([^{NO_CONTROL}]*[^\s{NO_CONTROL}])?$"}),
    Meta(min_length=1, max_length=LONGEST_ID),
    Check(_as_id),
]
"""The id of an actor, a role or the name of a worker: see `headway.statechart.identity`."""
Ordinal = Annotated[int, Meta(ge=1, le=LARGEST_WHOLE)]
"""A number that counts from 1: an attempt, a version."""
Change = Annotated[int, Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
"""What is added to a counter, or subtracted from it."""
Duration = Annotated[
    str,
    Meta(
        pattern=r"^((0|[1-9][0-9]{0,4})(ms|s|m|h)|[1-9][0-9]{0,3}d)(?!\n)$",
        examples=["90s", "15m", "12h", "30d"],
    ),
]
"""A number and its unit; without it there is no end."""

RequestKey = Annotated[
    Annotated[str, Meta(pattern=r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?(?!\n)$")] | None,
    Meta(description="The same as the header `Idempotency-Key`: a repeat gets the first answer."),
]
"""The idempotency key as a field `request_id` of a body; `headway.api.route` finds it there."""


def decoded_again(kind: Any, body: bytes, error: InputError) -> Any:
    """The value of a body that the decoder refuses only because it writes whole numbers as 1.0.

    Raises Problem 400 when it is not JSON, 422 when it is not of this type.
    """
    _check_json(error, body)
    message, place = _message(error)
    if NOT_WHOLE.fullmatch(message):
        try:
            return _with_whole_numbers(kind, body)
        except InputError as remaining:
            message, place = _message(remaining)
    raise wrong(*_worded(kind, body, place, message)) from error


def wrong(place: str, message: str) -> Problem:
    """The problem of one place that is wrong."""
    return wrong_places([(place, message)])


def wrong_places(found: Collection[tuple[str, str]]) -> Problem:
    """The problem of places that are wrong, each with a message."""
    errors = [{"place": place, "message": message} for place, message in found]
    return Problem("invalid", "; ".join(f"{place}: {message}" for place, message in found), errors=errors)


def unknown_field(known: Sequence[str]) -> str:
    """The message for an unknown field."""
    return f"there is no such field; there are: {', '.join(known) or 'none'}"


def _check_json(error: InputError, body: bytes) -> None:
    """Raises Problem 400 for what is not JSON: a decoder that finds another mistake does not read on."""
    if not _is_about_value(error):
        raise Problem("malformed", _message(error)[0]) from error
    try:
        decode(object, body)
    except InputError as whole:
        if not _is_about_value(whole):
            raise Problem("malformed", _message(whole)[0]) from error


def _is_about_value(error: InputError) -> bool:
    return type(error.__cause__).__name__ == "ValidationError"


def _message(error: InputError) -> tuple[str, str]:
    """What is wrong, and where: `body.roles.0`."""
    text = str(error.__cause__ or error)
    message, _, place = text.partition(" - at `")
    return message, ".".join(["body", *_steps(place.rstrip("`"))])


def _steps(place: str) -> list[str]:
    return [(name or index).replace("...", ANY_KEY) for name, index in STEP.findall(place)]


def _worded(kind: object, body: bytes, place: str, message: str) -> tuple[str, str]:
    """A decoder's message in words of the service: place and message."""
    if (unknown := UNKNOWN.fullmatch(message)) is not None:
        known = dict.fromkeys(name for each in _structs_at(kind, place, body) for name in _names(each))
        return f"{place}.{unknown[1]}", unknown_field([*known])
    if (missing := MISSING.fullmatch(message)) is not None:
        return f"{place}.{missing[1]}", "it is required"
    if INVALID_CHOICE.fullmatch(message) is not None:
        return place, f"it is one of: {', '.join(_choices_at(kind, place, body))}"
    tags = [str(each.__struct_config__.tag) for each in _structs(kind) if each.__struct_config__.tag]
    if tags and INVALID_TAG.fullmatch(message) is not None:
        return place, f"it is one of: {', '.join(tags)}"
    return place, message


def _names(struct: Any) -> list[str]:
    config = struct.__struct_config__
    return [*([config.tag_field] if config.tag_field else []), *struct.__struct_fields__]


def _structs_at(kind: object, place: str, body: bytes) -> list[Any]:
    """The structs that stand at a place of a body."""
    found = _structs(kind)
    data = decode(object, body)
    tagged = [
        each
        for each in found
        if each.__struct_config__.tag is not None
        and isinstance(data, dict)
        and data.get(each.__struct_config__.tag_field) == each.__struct_config__.tag
    ]
    found = tagged or found
    for step in place.split(".")[1:]:
        if step != ANY_KEY and not step.isdigit():
            hints = [get_type_hints(each).get(step) for each in found]
            found = [struct for hint in hints for struct in _structs(hint)]
    return found


def _choices_at(kind: object, place: str, body: bytes) -> list[str]:
    """The values that a field with a choice of them accepts."""
    around, _, name = place.rpartition(".")
    if name.isdigit() or name == ANY_KEY:
        around, _, name = around.rpartition(".")
    hints = [get_type_hints(each).get(name) for each in _structs_at(kind, around, body)]
    return [str(value) for hint in hints for value in _literals(hint)]


def _literals(hint: object) -> Iterator[object]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for part in get_args(hint):
            yield from _literals(part)


def _structs(kind: object) -> list[Any]:
    """The structs that a type consists of."""
    if isinstance(kind, type) and is_struct(kind):
        return [kind]
    return [struct for part in get_args(kind) for struct in _structs(part)]


def _with_whole_numbers(kind: Any, body: bytes) -> Any:
    """The value of a body that writes whole numbers as 1.0; raises InputError for any other mistake."""
    data = decode(object, body)
    while True:
        try:
            return from_data(kind, data)
        except InputError as error:
            message, place = _message(error)
            if not NOT_WHOLE.fullmatch(message) or not _make_whole(data, place.split(".")[1:]):
                raise


def _make_whole(data: Any, steps: Sequence[str]) -> bool:
    """Make the number at a place whole; False when there is none to be made."""
    if steps[0] == ANY_KEY or steps[0].isdigit():  # all at once: one by one takes a time of n * n
        places = [*data] if isinstance(data, dict) else [*range(len(data))] if isinstance(data, list) else []
    else:
        places = [steps[0]] if isinstance(data, dict) and steps[0] in data else []
    if len(steps) > 1:
        made = [_make_whole(data[each], steps[1:]) for each in places]
        return any(made)
    whole = [each for each in places if isinstance(data[each], float) and data[each].is_integer()]
    for each in whole:
        data[each] = int(data[each])
    return bool(whole)


def is_body(hint: object) -> bool:
    """Whether a parameter of a route function with this hint is the body of the request."""
    return is_struct(hint)


def needs_checks(kind: object) -> bool:
    """Whether a struct of this type, or one in its fields, has a field with a `Check`."""
    return any(
        _has_check(hint) or needs_checks(hint)
        for struct in _structs(kind)
        for hint in get_type_hints(struct, include_extras=True).values()
    )


def checked(value: T) -> T:
    """The value of a body whose checks have passed; raises Problem 422 that names all that have not."""
    if failed := [*_failed_checks(type(value), value, "body")]:
        raise wrong_places(failed)
    return value


def _failed_checks(hint: Any, value: Any, place: str) -> Iterator[tuple[str, str]]:
    """The checks in a type that its value does not pass: place and message."""
    if value is None or value is UNSET:
        return
    for check in get_args(hint):
        if isinstance(check, Check):
            try:
                check.function(value)
            except ValueError as error:
                yield place, str(error)
    for part in _parts(hint, value, place):
        yield from _failed_checks(*part)


def _parts(hint: Any, value: Any, place: str) -> Iterator[tuple[Any, Any, str]]:
    """What a value of a type consists of: types, values and places."""
    origin, kinds = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield kinds[0], value, place
    elif origin in UNIONS:
        yield from ((each, value, place) for each in kinds)
    elif origin is list and isinstance(value, list):
        yield from ((kinds[0], item, f"{place}.{number}") for number, item in enumerate(value))
    elif origin is dict and isinstance(value, dict):
        yield from ((kinds[0], key, place) for key in value)
        yield from ((kinds[1], item, f"{place}.{key}") for key, item in value.items())
    elif isinstance(value, RequestBody) and hint is type(value):
        yield from ((each, getattr(value, name), f"{place}.{name}") for name, each in _hints(hint).items())


@cache
def _hints(struct: Any) -> dict[str, Any]:
    return get_type_hints(struct, include_extras=True)


def _has_check(hint: object) -> bool:
    return any(isinstance(part, Check) or _has_check(part) for part in get_args(hint))
