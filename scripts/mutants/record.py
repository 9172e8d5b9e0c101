"""Which tests call which function: recorded once for each file of tests, and again when that file changes."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from scripts.mutants.code import Mutant
from scripts.mutants.recorder import FILE, IS_FOR_TESTS
from scripts.mutants.tree import Tree

PLUGIN = ("-p", "scripts.mutants.recorder")
HOURS = 4 * 3600.0
AT_ONCE = 2
"""How many files of tests are recorded at once."""


class Record:
    """The tests of a project, how long each takes, and what it calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds: dict[str, float] = {}
        self._tests: dict[str, set[str]] = defaultdict(set)
        self.failed: list[str] = []

    def make(self, tree: Tree, files: Iterable[str]) -> None:
        """Read what is recorded of files of tests, after recording what is not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = {
            file: self._folder / f"{file.replace('/', '.')}.{digest_of(tree.root, file)}.json"
            for file in files
        }
        missing = [file for file, at in kept.items() if not at.exists()]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda file: tree.run([file], HOURS, *PLUGIN, **{FILE: str(kept[file])}), missing))
        for file, at in kept.items():
            if not at.exists():
                raise RuntimeError(f"the tests in {file} could not be recorded")
            self._read(at)

    def _read(self, kept: Path) -> None:
        found = json.loads(kept.read_text())
        self.failed += found["failed"]
        for test, (seconds, calls) in found["tests"].items():
            self._seconds[test] = seconds
            for number in calls:
                self._tests[found["names"][number]].add(test)

    def tests_for(
        self, mutant: Mutant, importers: dict[str, set[str]], most_seconds: float
    ) -> dict[str, float]:
        """The tests that run what a mutant changes with their seconds, the quick ones of each file first.

        After the tests that call the function come the others of their files: what a function gives can be
        kept from an earlier test. Code outside of functions, and a function that no test is known to call,
        runs with its module: then they are those that call anything in it, and after them those that call
        anything in a module that imports it.
        """
        module = mutant.path.removeprefix("src/")
        own = self._tests.get(f"{module}:{mutant.function}", set())
        if own:
            near = self._of_files({_file_of(test) for test in own})
        else:
            own, near = self._of_modules({module}), self._of_modules(importers.get(module, set()))
        chosen: dict[str, float] = {}
        for test in [*self._in_turn(own), *self._in_turn(near - own)]:
            if sum(chosen.values()) > most_seconds:
                break
            chosen[test] = self._seconds[test]
        return chosen

    def _of_files(self, files: set[str]) -> set[str]:
        return {test for test in self._seconds if _file_of(test) in files}

    def _of_modules(self, modules: set[str]) -> set[str]:
        named = (tests for name, tests in self._tests.items() if name.partition(":")[0] in modules)
        return {test for tests in named for test in tests}

    def _in_turn(self, tests: set[str]) -> list[str]:
        """Tests of all files, as if each file had the same share of the time; the quick ones of it first."""
        spent: dict[str, float] = defaultdict(float)
        turns: dict[str, float] = {}
        for test in sorted(tests, key=lambda test: (self._seconds[test], test)):
            spent[_file_of(test)] += self._seconds[test]
            turns[test] = spent[_file_of(test)]
        return sorted(turns, key=turns.__getitem__)


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def digest_of(root: Path, file: str) -> str:
    """Changes when a file of tests does, or a module for tests that it imports, itself or through others."""
    files, seen = [root / file], set[Path]()
    while files:
        each = files.pop()
        if each not in seen:
            seen.add(each)
            files += [
                found for name in _imported(each) if IS_FOR_TESTS.match(name) for found in _at(root, name)
            ]
    return sha256(b"".join(each.read_bytes() for each in sorted(seen))).hexdigest()[:16]


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _at(root: Path, name: str) -> list[Path]:
    path = f"{name.replace('.', '/')}.py"
    return [found for found in (root / path, root / "src" / path) if found.exists()]


def importers_of(source: Path) -> dict[str, set[str]]:
    """The modules that import a module, by their paths."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in sorted(source.rglob("*.py")):
        for name in _imported(file):
            path = f"{name.replace('.', '/')}.py"
            if (source / path).exists():
                found[path].add(str(file.relative_to(source)))
    return found
