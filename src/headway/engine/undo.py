"""Undo: what one call of a batch has changed so far, so that a call that fails leaves no trace."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from headway.store.unit import Changes

MISSING = object()
NOTHING = Changes()
lists_of = attrgetter(*(name for name in Changes.__struct_fields__ if getattr(NOTHING, name) == []))
"""Every list of rows that a unit can change."""


class Undo:
    """What an order has changed so far, so that a bad one leaves no trace."""

    __slots__ = ("_lengths", "_replaced", "_written")

    def __init__(self, written: Changes) -> None:
        self._written = written
        self._lengths = [*map(len, lists_of(written))]
        self._replaced: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, mapping: dict[Any, Any], key: object, value: object) -> None:
        """Set a key of a mapping, keeping what it was."""
        self._replaced.append((mapping, key, mapping.get(key, MISSING)))
        mapping[key] = value

    def take(self, mapping: dict[Any, Any], key: object) -> Any:
        """Take a key out of a mapping, keeping what it was."""
        value = mapping.pop(key)
        self._replaced.append((mapping, key, value))
        return value

    def all(self) -> None:
        """Take everything back; what is taken back already stays so."""
        for rows, length in zip(lists_of(self._written), self._lengths, strict=True):
            del rows[length:]
        for mapping, key, value in reversed(self._replaced):
            if value is MISSING:
                del mapping[key]
            else:
                mapping[key] = value
        self._replaced.clear()
