"""The public modules and their names: what users import, and so what a release must not break."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

from scripts.python_reference import PUBLIC, reference
from tests.docs.pages import ROOT, blocks
from tests.docs.test_examples import PAGES

REFERENCE = ROOT / "docs/reference/python.md"
SERVICE = {"headway.http", "headway.client"}
"""Modules that need an extra."""
OPTIONAL = ("asyncpg", "confluent_kafka", "fastapi", "httpx", "hypothesis", "prometheus_client", "redis")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_module_lists_its_names(name: str) -> None:
    """`__all__` is complete, sorted as ruff sorts it, and every name in it is there."""
    module = import_module(name)
    assert module.__all__, name
    assert all(hasattr(module, each) for each in module.__all__)


def test_the_reference_lists_every_public_name() -> None:
    """The page is what `scripts/python_reference.py` writes: run it after a change, and look at the diff."""
    assert REFERENCE.read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize("name", [each for each in PUBLIC if each not in SERVICE])
def test_a_public_module_needs_no_optional_package(name: str) -> None:
    """Whoever installs `headway` without extras can import the module."""
    program = f"import sys\nfor name in {OPTIONAL!r}: sys.modules[name] = None\nimport {name}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def imported(source: str) -> Iterator[tuple[str, str]]:
    """The modules of Headway that a program imports, each with a name."""
    for node in ast.walk(ast.parse(dedent(source))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "headway":
            yield from ((str(node.module), each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.partition(".")[0] == "headway")


def problems(source: str) -> list[str]:
    """What a program imports that is not public."""
    return [
        f"{module}.{name}"
        for module, name in imported(source)
        if module not in PUBLIC
        or (name and name not in import_module(module).__all__ and f"{module}.{name}" not in PUBLIC)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_imports_only_public_names(page: Path) -> None:
    """What documentation shows is what a reader may rely on."""
    shown = [each for each in blocks(page.read_text(encoding="utf-8")) if each.language == "python"]
    assert [each for block in shown for each in problems(block.body)] == []


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/**/*.py")), ids=lambda file: file.parent.name)
def test_an_example_imports_only_public_names(file: Path) -> None:
    """So do the examples."""
    assert problems(file.read_text(encoding="utf-8")) == []
