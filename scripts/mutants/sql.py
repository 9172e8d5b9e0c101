"""Mutants of SQL: boundaries, filters, nulls and orders in the texts of statements.

Hints for the planner, locks and limits of a page are left alone: what they change is speed, or a race that a
test cannot force.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Change = tuple[int, int, str]
"""From where to where in a text, and what stands there instead."""

IS_SQL = re.compile(r"\b(SELECT|UPDATE|DELETE FROM|INSERT INTO|WHERE|AND|ORDER BY|ON CONFLICT|UNION)\b")
VALUE = r"(?:\{[^{}]*\}|[\w.:$?@*']+(?:\([^()]*\))?)"
TERM = re.compile(rf"(?:(?<=WHERE )|(?<=AND ))({VALUE} (?:=|<>|<=|>=|<|>) {VALUE})(?=[\s\"')]|$)")
SWAPS = [
    (re.compile(r"(?<= )<=(?= )"), "<"),
    (re.compile(r"(?<= )<(?= )"), "<="),
    (re.compile(r"(?<= )>=(?= )"), ">"),
    (re.compile(r"(?<= )>(?= )"), ">="),
    (re.compile(r"(?<= )<>(?= )"), "="),
    (re.compile(r"\bIS NOT NULL\b"), "IS NULL"),
    (re.compile(r"\bIS NULL\b"), "IS NOT NULL"),
    (re.compile(r"\bNOT EXISTS\b"), "EXISTS"),
    (re.compile(r"\bmin\((?=\w)"), "max("),
    (re.compile(r"\bmax\((?=\w)"), "min("),
    (re.compile(r" DESC\b"), ""),
]


def changes_of(text: str) -> Iterator[Change]:
    """What can be changed in a text, if it is SQL."""
    if not IS_SQL.search(text):
        return
    for pattern, new in SWAPS:
        for found in pattern.finditer(text):
            yield found.start(), found.end(), new
    for found in TERM.finditer(text):
        # Always true, with the same parameters of the same types.
        yield found.start(1), found.end(1), f"(({found[1]}) IS NULL OR true)"
