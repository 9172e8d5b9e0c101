"""A plugin for pytest that records which functions of the project each test calls.

The modules of the project get one more statement at the start of each function, which notes its number: this
costs so little that tests take as long as without it. Calls in other processes are not seen.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

FILE = "MUTANTS_RECORD"
"""Names the environment variable with the file to write to."""
NOTE = "__mutants_note__"
"""Names the built-in function that notes a call."""

IS_FOR_TESTS = re.compile(r"tests\.|\w+\.testing\b")


class Functions(ast.NodeTransformer):
    """Makes each function of a module note its number when it is called."""

    def __init__(self, module: str, names: list[str]) -> None:
        self._scope, self._names = [module], names

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """A function, and those inside it; a docstring stays in its place."""
        self._inside(node)
        after = 1 if ast.get_docstring(node) is not None else 0
        note = ast.parse(f"{NOTE}({len(self._names)})").body[0]
        for each in ast.walk(note):
            ast.copy_location(each, node.body[0])
        node.body.insert(after, note)
        module, *scope = (*self._scope, node.name)
        self._names.append(f"{module}:{'.'.join(scope)}")
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class."""
        self._inside(node)
        return node

    def _inside(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scope.append(node.name)
        node.body = [self.visit(each) for each in node.body]
        self._scope.pop()


class Loader(SourceFileLoader):
    """Loads a module whose functions note that they are called."""

    names: list[str]
    root: str

    def path_stats(self, path: str) -> dict[str, Any]:
        """Nothing is known: so compiled code is neither read nor written."""
        raise OSError(path)

    def source_to_code(self, data: Any, path: Any, **_options: Any) -> CodeType:  # type: ignore[override]
        """The code, with a note in each function."""
        module = str(path).removeprefix(self.root)
        tree = Functions(module, self.names).visit(ast.parse(data, path))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules in the project's folder of sources."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self._root, self._names = f"{root / 'src'}/", names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module with another loader, or None for modules of others and those for tests.

        pytest itself rewrites the assertions in modules for tests.
        """
        if IS_FOR_TESTS.match(name) or (
            path is not None and not any(str(each).startswith(self._root) for each in path)
        ):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, SourceFileLoader) or spec.origin is None:
            return None
        if not spec.origin.startswith(self._root):
            return None
        spec.loader = Loader(name, spec.origin)
        spec.loader.names, spec.loader.root = self._names, self._root
        return spec


class Recorder:
    """Notes the functions that run while a test does, its fixtures included."""

    def __init__(self, root: Path, file: Path) -> None:
        self._file, self._names = file, list[str]()
        self._called, self._seconds = set[int](), dict[str, float]()
        self._calls: dict[str, set[int]] = defaultdict(set)
        self._failed: set[str] = set()
        setattr(builtins, NOTE, self._called.add)
        sys.meta_path.insert(0, Finder(root, self._names))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record one test."""
        self._called.clear()
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self._calls[item.nodeid] = set(self._called)
            self._seconds[item.nodeid] = round(time.perf_counter() - began, 3)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without a mutant tells nothing about one."""
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        tests = {
            test: [self._seconds[test], sorted(calls)]
            for test, calls in self._calls.items()
            if test not in self._failed
        }
        found = {"names": self._names, "tests": tests, "failed": sorted(self._failed)}
        self._file.write_text(json.dumps(found))


RECORDER = Recorder(Path.cwd(), Path(os.environ[FILE])) if FILE in os.environ else None
"""Made when pytest imports this, before the plugins that import the project."""


def pytest_configure(config: pytest.Config) -> None:
    """Begin to record."""
    if RECORDER is not None:
        config.pluginmanager.register(RECORDER)
