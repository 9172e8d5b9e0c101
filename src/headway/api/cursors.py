"""Cursors of pages: opaque to callers, and told apart by what they are of."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

from headway.api.problems import Problem
from headway.api.seals import Seal
from headway.codec import decode, encode
from headway.errors import InputError

T = TypeVar("T")


def cursor_text(of: str, place: object) -> str:
    """A place in a list, as a caller gets it."""
    return urlsafe_b64encode(encode([of, place])).decode().rstrip("=")


def cursor_place(of: str, kind: type[T], text: str) -> T:
    """The place that a cursor of such a list names; raises Problem 422."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        named, place = decode(tuple[str, kind], raw)  # type: ignore[valid-type]
    except (ValueError, InputError) as error:
        raise Problem("cursor", "this is no cursor of this route") from error
    if named != of or cursor_text(of, place) != text:
        raise Problem("cursor", "this is no cursor of this route")
    return place


def position_text(of: str, position: int, seal: Seal) -> str:
    """A place in a list whose rows are counted for all tenants together."""
    return cursor_text(of, seal.close(of, position))


def position_of(of: str, text: str | None, seal: Seal) -> int:
    """The position that such a cursor names, 0 for none; raises Problem 422."""
    return 0 if text is None else seal.open(of, cursor_place(of, str, text))[0]
