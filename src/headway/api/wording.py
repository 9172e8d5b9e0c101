"""What is wrong with a request, in words of the service rather than in those of its validator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

Found = Mapping[str, Any]
Told = tuple[str, str]
"""A place, and what is wrong there."""


def worded(found: Found, body: object) -> Told:
    """What a validator has found, as a place and a message; `body` is the type that the route takes."""
    return WORDS.get(found["type"], _as_found)(found, body)


def unknown_field(known: Sequence[str]) -> str:
    """What is told of a field that there is not."""
    return f"there is no such field; there are: {', '.join(known) or 'none'}"


def _as_found(found: Found, _: object) -> Told:
    return _place(found), str(found["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _extra(found: Found, body: object) -> Told:
    return _place(found), unknown_field(_known_beside(found["loc"], body))


def _missing(found: Found, _: object) -> Told:
    return _place(found), "it is required"


def _other_tag(found: Found, _: object) -> Told:
    place, told = _tag_place(found), found["ctx"]["expected_tags"]
    return place, f"it is one of: {told.replace(chr(39), '')}"


def _no_tag(found: Found, _: object) -> Told:
    return _tag_place(found), "it is required"


WORDS: dict[str, Callable[[Found, object], Told]] = {
    "extra_forbidden": _extra,
    "missing": _missing,
    "union_tag_invalid": _other_tag,
    "union_tag_not_found": _no_tag,
}


def _place(found: Found) -> str:
    return ".".join(map(str, found["loc"]))


def _tag_place(found: Found) -> str:
    return f"{_place(found)}.{found['ctx']['discriminator'].strip(chr(39))}"


def _known_beside(location: Sequence[object], body: object) -> list[str]:
    """The fields that there are where an unknown one was found."""
    models = _models(body)
    for step in location[1:-1]:
        fields = [model.model_fields[step] for model in models if step in model.model_fields]
        if fields:
            models = [model for field in fields for model in _models(field.annotation)]
        elif isinstance(step, str):
            models = [model for model in models if _is_tagged(model, step)]
    return [*dict.fromkeys(name for model in models for name in model.model_fields)]


def _models(kind: object) -> list[type[BaseModel]]:
    """The models that a type consists of."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for part in get_args(kind) for model in _models(part)]


def _is_tagged(model: type[BaseModel], tag: str) -> bool:
    return any(tag in get_args(field.annotation) for field in model.model_fields.values())
