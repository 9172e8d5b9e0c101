"""Guarantees, and what happens when: each rests on code and on tests that are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:tests|src)/[\w/]+\.py)::(\w+)`")
FAILURES = (ROOT / "docs" / "how-to" / "high-availability.md").read_text(encoding="utf-8")
GUARANTEES = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests of a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, functions))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_each_guarantee_is_shown_by_tests_that_exist(guarantee: str) -> None:
    """A test that is renamed or removed must be so here, too."""
    text = GUARANTEES[guarantee]
    assert "- Rests on: " in text
    assert "](../../src/headway/" in text
    assert not missing(text.split("- Shown by: ")[1])


def missing(text: str) -> list[str]:
    """The tests that a text names, which are not there; it names at least one."""
    named = NAMED.findall(text)
    assert named, text
    return [f"{path}::{name}" for path, name in named if name not in names_in(path)]


def test_each_row_of_what_happens_when_names_tests_that_exist() -> None:
    """As with guarantees."""
    table = FAILURES.split("\n## What happens when\n")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [name for row in rows for name in missing(row)] == []
    assert missing(FAILURES) == []


def test_the_page_says_what_is_not_guaranteed() -> None:
    """Both halves are there."""
    assert len(GUARANTEES) > 20
    assert PAGE.count("\n- **") > 8
