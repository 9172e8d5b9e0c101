"""`python -m bench [SUITE ...]`: measure the suites named, or all of them."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import report
from bench.harness import QUICK, Outcome, Plan, Suite, WrongResult, measure, rounds_in

# A suite is a module with a function `suite(plan) -> Suite`. It is imported only when it is run, so
# that a suite may need packages which the others do not.
SUITES = {
    "core": "bench.core",
    "engine": "bench.engine",
    "service": "bench.service",
    "task_runs": "bench.task_runs",
    "trust": "bench.trust",
}

_ROOT = Path(__file__).resolve().parent.parent
_RESULTS = _ROOT / "bench" / "results"
_PAGE = _ROOT / "docs" / "contributing" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when every subject did its work, 1 when one did not."""
    options = _parser().parse_args(arguments)
    console = Console()
    folder = options.output or (None if options.quick else _RESULTS)
    for name in options.suites or SUITES:
        suite: Suite = import_module(SUITES[name]).suite(QUICK if options.quick else None)
        try:
            outcome = _measure(suite, _plan(options, suite), console)
        except WrongResult as error:
            console.print(f"[red]{name}: {escape(str(error))}[/]")
            return 1
        report.show(suite, outcome, console)
        _keep(suite, outcome, folder, console)
        if options.write_docs:
            report.write_docs(suite, report.document(outcome), _PAGE)
            console.print(f"Updated {_shown(_PAGE)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Headway beside its peers.")
    parser.add_argument("suites", nargs="*", type=_suite_name, help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--rounds", type=_positive, help="rounds per subject (default: the suite's)")
    parser.add_argument("--output", type=Path, help="folder for the results (default bench/results)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="a smoke run; results kept only with --output")
    length.add_argument("--write-docs", action="store_true", help="put the measured tables into the docs")
    return parser


def _suite_name(text: str) -> str:
    if text not in SUITES:
        raise argparse.ArgumentTypeError(f"no suite {text!r}; there is {', '.join(SUITES)}")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _plan(options: argparse.Namespace, suite: Suite) -> Plan:
    plan = QUICK if options.quick else suite.plan
    return replace(plan, rounds=options.rounds) if options.rounds else plan


def _measure(suite: Suite, plan: Plan, console: Console) -> Outcome:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    # No auto-refresh: its thread would draw inside the timed rounds.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(suite.name, total=rounds_in(suite, plan))

        def progress(what: str, count: int) -> None:
            bar.update(task, advance=count, description=what, refresh=True)

        return measure(suite, plan, progress)


def _keep(suite: Suite, outcome: Outcome, folder: Path | None, console: Console) -> None:
    if folder is None:
        console.print("A quick run measures nothing worth keeping: results not written.")
        return
    path = folder / f"{suite.name}.json"
    report.write_results(report.document(outcome), path)
    console.print(f"Wrote {_shown(path)}")


def _shown(path: Path) -> Path:
    return path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path


if __name__ == "__main__":
    sys.exit(main())
