"""Queries with filters: a statement for those that are set, so that each combination finds its index."""

from __future__ import annotations

from typing import Any

TIME = "coalesce({}::timestamptz, statement_timestamp())"
"""The database's time, unless a test brings its own as a parameter."""
NOW = TIME.format("$1")
"""The time, where the first parameter is the one for it."""


class Where:
    """Terms that all must hold, and the parameters they refer to."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._terms: list[str] = []

    def bind(self, value: Any) -> str:
        """A parameter with this value."""
        self.values.append(value)
        return f"${len(self.values)}"

    def bound(self, term: str, *values: Any) -> str:
        """A term whose parameters are there, for use elsewhere in the statement; {} for each value."""
        return term.format(*map(self.bind, values))

    def add(self, term: str, *values: Any) -> None:
        """A term, with {} for each value."""
        self._terms.append(self.bound(term, *values))

    def equal(self, **columns: Any) -> None:
        """Columns that must have a value, unless that is None."""
        for column, value in columns.items():
            if value is not None:
                self.add(f"{column} = {{}}", value)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._terms or ['true'])}"
