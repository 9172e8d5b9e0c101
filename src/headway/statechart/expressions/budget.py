"""How much the expressions of one step may evaluate: counted in operations, so that it is always the same.

A node of an expression counts one; looking through a value counts by its size. Outside a step nothing is
counted: a single expression is bounded by its length and the sizes of values.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from headway.errors import HeadwayError

MOST_EVALUATED: Final = 500_000
_PARTS = 2
"""Items or fields of a value that cost as much as one node."""
_CHARACTERS = 1_000
"""Characters copied or compared that cost as much as one node."""


class ExhaustedError(HeadwayError):
    """The expressions of a step have evaluated more than one step may."""


class _Budget:
    """What is left of one step's operations."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_EVALUATED


_BUDGET: ContextVar[_Budget | None] = ContextVar("_BUDGET", default=None)


class Limited:
    """Within this block expressions may evaluate as much as one step may; raises ExhaustedError then."""

    def __enter__(self) -> None:
        """Start to count."""
        _BUDGET.set(_Budget())

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        _BUDGET.set(None)


LIMITED: Final = Limited()


def spend(amount: int) -> None:
    """Count evaluated nodes; raises ExhaustedError when the step has evaluated too many."""
    budget = _BUDGET.get()
    if budget is None:
        return
    budget.left -= amount
    if budget.left < 0:
        raise ExhaustedError(f"the expressions of one step take more than {MOST_EVALUATED:,} operations")


def spend_parts(number: int) -> None:
    """Count parts of a value that are looked at; raises as `spend` does."""
    spend(1 + number // _PARTS)


def spend_text(length: int) -> None:
    """Count characters that are copied or compared; raises as `spend` does."""
    spend(1 + length // _CHARACTERS)
