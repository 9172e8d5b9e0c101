"""A copy of the project in which mutants live: the checkout itself is never touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.mutants.code import Mutant
from scripts.mutants.watcher import LIMITS, REPORT

NOT_COPIED = shutil.ignore_patterns(".venv", ".git", "__pycache__", "node_modules", ".*_cache", ".mutants")
PYTEST = ("-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider")
TOOL = Path(__file__).resolve().parents[2]
WATCHED = ("-x", "-p", "scripts.mutants.watcher")
NO_TESTS = 5
"""The exit code of pytest when it has found no test."""
PATIENCE = 30.0
"""Seconds more than three times as long as without a mutant, after which a test hangs."""
GRACE = 20
"""Seconds in which a run that hangs may clean up."""


class Tree:
    """A copy of a project, its packages in `src` and its tests beside them."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._folder, self.root = folder, folder / "tree"
        shutil.copytree(project, self.root, ignore=NOT_COPIED, symlinks=True)

    def require_own_code(self, package: str) -> None:
        """Raises RuntimeError when the tests would import another copy of the package."""
        code = f"import {package}; print({package}.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.root,
            env=self._env(),
            capture_output=True,
            text=True,
            check=True,
        )
        if not Path(done.stdout.strip()).is_relative_to(self.root):
            raise RuntimeError(f"the tests would run {done.stdout.strip()}, not the copy in {self.root}")

    def run(self, tests: Sequence[str], seconds: float, *options: str, **env: str) -> int | None:
        """Run tests; answers pytest's exit code, or None when they did not end in time."""
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".txt") as listed:
            listed.write("\n".join(tests))
            listed.flush()
            process = subprocess.Popen(
                [sys.executable, *PYTEST, *options, f"@{listed.name}"],
                cwd=self.root,
                env=self._env() | env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end(process)

    def verdict(self, mutant: Mutant, tests: Mapping[str, float]) -> tuple[str, str]:
        """What tests, with the seconds of each, say of a mutant: killed, timeout or survived, and by which.

        A test that fails must fail again alone: else it is unsteady, or depends on the tests before it.
        What no test notices may be refused by the type checker, as a change that does not compile.
        """
        with self._changed(mutant):
            rest = dict(tests)
            while rest:
                found, test = self._first_failure(rest)
                if found != "failed":
                    return found, test
                if self._first_failure({test: rest[test]})[0] != "survived":
                    return "killed", test
                names = list(rest)
                rest = {name: rest[name] for name in names[names.index(test) + 1 :]}
            return ("survived", "") if self._has_right_types(mutant.path) else ("refused", "mypy")

    def _has_right_types(self, path: str) -> bool:
        """Whether the type checker accepts a file; so does a project without one."""
        settings = self.root / "pyproject.toml"
        if not settings.exists() or "[tool.mypy]" not in settings.read_text():
            return True
        command = [sys.executable, "-m", "mypy", f"--cache-dir={self._folder / 'types'}", path]
        return not subprocess.run(command, cwd=self.root, capture_output=True, check=False).returncode

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        file = self.root / mutant.path
        source, times = file.read_text(), file.stat()
        file.write_text(mutant.applied(source))
        os.utime(file, (times.st_atime, times.st_mtime + 10))  # compiled code of the original does not fit
        try:
            yield
        finally:
            file.write_text(source)
            os.utime(file, (times.st_atime, times.st_mtime))

    def _first_failure(self, tests: Mapping[str, float]) -> tuple[str, str]:
        limits = {test: 3 * seconds + PATIENCE for test, seconds in tests.items()}
        report, file = self._folder / "report.txt", self._folder / "limits.json"
        report.unlink(missing_ok=True)
        file.write_text(json.dumps(limits))
        files = {LIMITS: str(file), REPORT: str(report)}
        limit = 3 * sum(tests.values()) + 2 * PATIENCE
        code = self.run(list(tests), limit, *WATCHED, PYTHONDONTWRITEBYTECODE="1", **files)
        if report.exists():
            found, test = report.read_text().split(" ", 1)
            return found, test
        if code == NO_TESTS:
            raise RuntimeError("the tests that were recorded do not exist")
        verdicts: dict[int | None, str] = {None: "timeout", 0: "survived"}
        return verdicts.get(code, "killed"), "no test can begin" if code else ""

    def _env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": f"{self.root / 'src'}{os.pathsep}{TOOL}"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a run that hangs clean up, and end it and all it has started if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
