"""Show which tests prove each row of the contract, and the rows that no test proves."""

import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Column, Table

ROOT = Path(__file__).resolve().parent.parent
CONTRACT = Path("docs/reference/contract.md")
ROW = re.compile(r"^\|\s*([A-Z]{3}-\w+)\s*\|\s*(.+?)\s*\|$", re.MULTILINE)

Coverage = dict[str, Counter[str]]
"""The tests of each row, each with the number of its cases."""


def contract_rows(root: Path = ROOT) -> list[tuple[str, str]]:
    """The rows of the contract in their order: id and text."""
    return ROW.findall((root / CONTRACT).read_text(encoding="utf-8"))


def marked_rows(items: Iterable[pytest.Item]) -> Coverage:
    """The row ids that the tests name in their `mission` markers."""
    coverage: Coverage = {}
    for item in items:
        for row in {row for mark in item.iter_markers("mission") for row in mark.args}:
            coverage.setdefault(row, Counter())[item.nodeid.partition("[")[0]] += 1
    return coverage


@dataclass
class Collector:
    """A pytest plugin that keeps the tests pytest has found."""

    items: list[pytest.Item] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what was collected."""
        self.items = items


def collect(root: Path) -> Coverage:
    """Collect the tests below `root` without running them."""
    collector = Collector()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = pytest.main(["--collect-only", "--rootdir", str(root), str(root / "tests")], [collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"{output.getvalue()}\nThe tests could not be collected.")
    return marked_rows(collector.items)


def names(tests: Mapping[str, int]) -> str:
    """The tests of one row, a line for each file: `folder/test_file.py: test_one, test_two (3 cases)`."""
    files: dict[str, list[str]] = {}
    for test, cases in sorted(tests.items()):
        file, _, name = test.removeprefix("tests/").partition("::")
        files.setdefault(file, []).append(name if cases == 1 else f"{name} ({cases} cases)")
    return "\n".join(f"{file}: {', '.join(names)}" for file, names in files.items())


def table(rows: Iterable[str], coverage: Coverage) -> Table:
    """One line for each row: green when a test proves it, red when none does."""
    result = Table("row", Column("tests", justify="right"), Column("proved by", overflow="fold"), box=None)
    for row in rows:
        tests = coverage.get(row, Counter())
        style = "green" if tests else "red"
        result.add_row(f"[{style}]{row}", f"[{style}]{len(tests)}", names(tests) or "[red]no test")
    return result


def main(root: Path = ROOT) -> int:
    """Print the table, the rows without a test and a summary; 1 when a test names an unknown row."""
    rows = dict(contract_rows(root))
    coverage = collect(root)
    console = Console(highlight=False)
    console.print(table(rows, coverage))

    missing = [row for row in rows if row not in coverage]
    if missing:
        console.print("\n[red]Rows without a test:")
        for row in missing:
            console.print(f"  [red]{row}[/]  {rows[row]}", soft_wrap=True)
    console.print(f"\n{len(rows) - len(missing)} of {len(rows)} rows are proved by a test.")

    unknown = sorted(set(coverage) - set(rows))
    for row in unknown:
        console.print(f"[red]Unknown row {row!r}[/], named by:\n{names(coverage[row])}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
