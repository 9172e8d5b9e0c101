"""A plugin for pytest that writes down the first test that fails, and interrupts a test that hangs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMITS = "MUTANTS_LIMITS"
"""Names the environment variable with the file of the seconds that each test may take."""
REPORT = "MUTANTS_REPORT"
"""Names the environment variable with the file to write to."""


class Watcher:
    """Writes `failed` or `timeout` and the test, for the first one."""

    def __init__(self, limits: dict[str, float], report: Path) -> None:
        self._limits, self._report = limits, report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Bound one test."""

        def interrupt(_number: int, _frame: object) -> None:
            self._write("timeout", item.nodeid)
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, self._limits[item.nodeid])
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self._write("failed", report.nodeid)

    def _write(self, verdict: str, test: str) -> None:
        if not self._report.exists():
            self._report.write_text(f"{verdict} {test}")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    limits = json.loads(Path(os.environ[LIMITS]).read_text())
    config.pluginmanager.register(Watcher(limits, Path(os.environ[REPORT])))
