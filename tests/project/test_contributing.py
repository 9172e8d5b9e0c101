"""CONTRIBUTING says where code lives as it is now."""

import re
from pathlib import Path

import pytest

from scripts.layers import PAGE, exists, layers, purpose, written

ROOT = Path(__file__).resolve().parents[2]
TEXT = PAGE.read_text(encoding="utf-8")
NAMED = set(re.findall(r"`((?:src|docs|tests|scripts|examples)/[\w./-]+)`", TEXT))
SHORT = set(re.findall(r"`((?:statechart|store|engine|worker|outbox|api|telemetry|cli)/[\w./-]+)`", TEXT))
FILES = sorted(NAMED | {f"src/headway/{name}" for name in SHORT})


def test_the_table_of_layers_is_that_of_the_contract() -> None:
    """`python -m scripts.layers` writes it."""
    assert written(TEXT) == TEXT, "run: python -m scripts.layers"


def test_every_module_has_a_layer_and_a_purpose() -> None:
    """A newcomer finds each module of the package in the table."""
    found = {path.stem for path in (ROOT / "src/headway").iterdir() if exists(path.stem)}
    assert {name for names in layers() for name in names} == found
    assert [name for name in found if not purpose(name)] == []


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_named_exists(name: str) -> None:
    """A file that moves must be changed here, too."""
    assert (ROOT / name).exists()


def test_twelve_plausible_changes_have_their_place() -> None:
    """Whoever wants to change something finds the files without a search."""
    [section] = re.findall(r"^## Where a change goes\n(.*?)^## ", TEXT, re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^\| (?!change|---)", section, re.MULTILINE)) == 12
