"""The page of guarantees: each rests on code that is there, and is shown by tests that are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:tests|src)/[\w/]+\.py)::(\w+)`")
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
    named = NAMED.findall(text.split("- Shown by: ")[1])
    assert named
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(path)]
    assert not missing


def test_the_page_says_what_is_not_guaranteed() -> None:
    """Both halves are there."""
    assert len(GUARANTEES) > 20
    assert PAGE.count("\n- **") > 8
