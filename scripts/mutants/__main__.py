"""Change the code at random places, one at a time, and see whether the tests notice: `make mutants`.

Each mutant is made in a copy of the project and run against the tests that call what it changes. What
survives is printed with its difference: a test is missing there, or the code has no effect.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from scripts.mutants.code import Mutant, mutants_of
from scripts.mutants.record import Record, importers_of
from scripts.mutants.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "store", "worker", "outbox", "api")
FOLDERS = ("store", "engine", "upgrade", "worker", "outbox", "api", "telemetry", "testing")
"""The folders of tests that run against mutants."""
DEAD = ("killed", "timeout", "refused")
"""The verdicts on mutants that do not survive."""


def main(arguments: list[str] | None = None) -> int:
    """Run a sample of mutants; 1 when more survive than are allowed."""
    given = _parser().parse_args(arguments)
    project = given.project = given.project.resolve()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [Tree(project, Path(folder) / str(number)) for number in range(given.jobs)]
        for tree in trees:
            tree.require_own_code(given.package)
        record = Record(project / ".mutants")
        record.make(trees[0], _test_files(project, given.tests))
        for test in record.failed:
            _say(f"fails without a mutant, and is left out: {test}")
        return _report(_run(trees, record, given), project, given)


def _test_files(root: Path, names: list[str]) -> list[str]:
    """The test files of folders, and those that are named themselves."""
    places = [root / "tests" / name for name in names]
    files = [file for at in places for file in ([at] if at.is_file() else sorted(at.rglob("test_*.py")))]
    return [str(file.relative_to(root)) for file in files]


def _run(trees: list[Tree], record: Record, given: argparse.Namespace) -> list[tuple[str, Mutant]]:
    drawn = draw(given.project, given.package, given.parts, given.seed)[: given.count]
    importers = importers_of(given.project / "src")
    until = time.monotonic() + 60 * given.minutes
    free = SimpleQueue[Tree]()
    for tree in trees:
        free.put(tree)

    def run(mutant: Mutant) -> tuple[str, Mutant] | None:
        if time.monotonic() > until:
            return None
        tests = record.tests_for(mutant, importers, given.most_seconds)
        tree = free.get()
        began = time.monotonic()
        try:
            verdict, test = tree.verdict(mutant, tests)
        finally:
            free.put(tree)
        took = f"{len(tests)} tests, {time.monotonic() - began:.0f} s"
        _say(f"{verdict:8}  {mutant.path}:{mutant.line}  {mutant.kind}  ({took})  {test}")
        return verdict, mutant

    with ThreadPoolExecutor(len(trees)) as pool:
        results = [each for each in pool.map(run, drawn) if each is not None]
    if len(results) < len(drawn):
        _say(f"the time is over: {len(results)} of {len(drawn)} mutants were run")
    return results


def draw(root: Path, package: str, parts: list[str], seed: int) -> list[Mutant]:
    """All mutants of some parts of a package, in an order that the seed decides: each is as likely."""
    found = []
    for part in parts:
        for file in sorted((root / "src" / package / part).rglob("*.py")):
            found += mutants_of(str(file.relative_to(root)), file.read_text())
    random.Random(seed).shuffle(found)  # noqa: S311 - it chooses, and keeps no secret
    return found


def _report(results: list[tuple[str, Mutant]], project: Path, given: argparse.Namespace) -> int:
    survivors = [mutant for verdict, mutant in results if verdict == "survived"]
    for mutant in survivors:
        _say(f"\n{difference(mutant, (project / mutant.path).read_text())}")
    counts = Counter(verdict for verdict, _ in results)
    dead = sum(counts[verdict] for verdict in DEAD)
    share = 100 * dead / max(1, len(results))
    _say(f"\nseed {given.seed}: {len(results)} mutants, {share:.0f} % noticed")
    _say(", ".join(f"{counts[verdict]} {verdict}" for verdict in (*DEAD, "survived")))
    return int(given.most is not None and len(survivors) > given.most)


def difference(mutant: Mutant, source: str) -> str:
    """What a mutant changes, as a diff."""
    before, after = source.splitlines(), mutant.applied(source).splitlines()
    lines = difflib.unified_diff(
        before, after, mutant.path, f"{mutant.path} ({mutant.kind})", n=1, lineterm=""
    )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="decides which mutants are drawn")
    parser.add_argument("--count", type=int, default=40, help="how many are drawn")
    parser.add_argument("--minutes", type=float, default=60, help="no mutant is begun after this time")
    parser.add_argument("--most", type=int, help="fail when more than so many survive")
    parser.add_argument("--most-seconds", type=float, default=120, help="of tests for each mutant")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants are run at once")
    parser.add_argument("--parts", nargs="+", default=list(PACKAGES), help="which parts of the package")
    parser.add_argument("--tests", nargs="+", default=list(FOLDERS), help="which folders and files of tests")
    parser.add_argument("--package", default="headway")
    parser.add_argument("--project", type=Path, default=ROOT)
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
