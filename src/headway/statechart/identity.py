"""Ids of actors: which texts are one, and when two of them name the same actor."""

from __future__ import annotations

from functools import lru_cache
from unicodedata import normalize

from headway.errors import InputError, shown

LONGEST_ID = 200
STANDS_FOR_A_PERSON = ("{", "@")
"""How a text begins that stands for a person where a role could stand."""
INVISIBLE = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0x1D159, 0x1D159),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
"""Letters, marks and symbols that show nothing: fillers, joiners, variation selectors."""


@lru_cache(4_096)
def normal_id(text: str) -> str:
    """The form in which ids are compared: NFKC, nothing invisible, single spaces, none at the ends."""
    if text.isascii() and text.isprintable():
        return text if "  " not in text and text == text.strip() else " ".join(text.split())
    visible = "".join(each for each in normalize("NFKC", text) if each.isspace() or _shows(each))
    return " ".join(normalize("NFKC", visible).split())


def same_id(one: str | None, other: str | None) -> bool:
    """Whether two ids name the same actor."""
    if one is None or other is None:
        return False
    return one == other or normal_id(one) == normal_id(other)


def require_id(what: str, text: object) -> None:
    """Raises InputError for a text that is no id, or that could be taken for another one."""
    if not isinstance(text, str) or not text:
        raise InputError(f"{what} must be a string that is not empty, not {shown(text)}")
    if len(text) > LONGEST_ID:
        raise InputError(f"{what} must have at most {LONGEST_ID} characters")
    if normal_id(text) != text:
        raise InputError(f"{what} {_trouble(text)}")


def require_role(text: object) -> None:
    """Raises InputError for a text that is no role: those that begin with `{` or `@` stand for people."""
    require_id("a role", text)
    if str(text)[0] in STANDS_FOR_A_PERSON:
        raise InputError(f"a role must not begin with {str(text)[0]}, which stands for a person: {text!a}")


def _trouble(text: str) -> str:
    if text != text.strip():
        return f"must not begin or end with white space: {text!a}"
    hidden = next((each for each in text if each != " " and not _shows(each)), None)
    if hidden is not None:
        return f"must not contain the character U+{ord(hidden):04X}: {text!a}"
    if "  " in text:
        return f"must not contain two spaces in a row: {text!a}"
    return f"must be in Unicode form NFKC: write {normal_id(text)!r} instead of {text!a}"


def _shows(character: str) -> bool:
    return character.isprintable() and character not in INVISIBLE
