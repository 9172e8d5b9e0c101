"""A class name has one meaning in the whole project: a reader who knows one class knows them all."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src/headway"

SAME_NOUN = {
    "store/postgres": "the stores",
    "store/sqlite": "the stores",
    "testing/memory": "the stores",
    "statechart/authoring": "the chart language",
    "statechart/model.py": "the chart language",
    "api/asks.py": "the answers of the service",
    "api/instances.py": "the answers of the service",
    "api/workers.py": "the answers of the service",
    "client/answers.py": "the answers of the service",
}
"""One noun, one name: implementations of one port, a word of a chart with its form as data, an answer as the
service sends it and as its client reads it."""

LIFECYCLES = "lifecycles/"
"""Each lifecycle is a package of its own, with the words of its domain; they count among themselves only."""


def places() -> dict[str, set[str]]:
    """The names of classes, each with the places where it is defined."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        place = file.relative_to(SOURCE).as_posix()
        scope = "/".join(place.split("/")[:2]) + ":" if place.startswith(LIFECYCLES) else ""
        same = next((noun for start, noun in SAME_NOUN.items() if place.startswith(start)), place)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[scope + node.name].add(same)
    return found


def test_a_class_name_has_one_meaning() -> None:
    """No class takes a name that another class has."""
    assert {name: sorted(where) for name, where in places().items() if len(where) > 1} == {}
