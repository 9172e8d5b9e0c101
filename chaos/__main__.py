"""`python -m chaos [--minutes 5] [--seed 1] [--store all]`: storms on each kind of store, and their audit."""

import asyncio
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from chaos.places import place_of
from chaos.storm import Plan, Result, Storm

STORES = ("sqlite", "postgres")
MOST_SHOWN = 20
LARGEST_SEED = 10**6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when a guarantee does not hold."""
    options = _options(arguments)
    console = Console()
    stores = STORES if options.store == "all" else (options.store,)
    plan = Plan(seconds=60 * options.minutes / len(stores), seed=options.seed)
    results = [storm(store, plan, console) for store in stores]
    for result in results:
        show(result, console)
    return any(result.problems for result in results)


def _options(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m chaos", description="Kill everything, and see what is left.")
    parser.add_argument("--minutes", type=_positive, default=5.0, help="how long it storms in all (5)")
    parser.add_argument("--seed", type=int, help="what happens in which order (default: by chance)")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all", help="on which store (all)")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = SystemRandom().randrange(LARGEST_SEED)
    return options


def _positive(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise ArgumentTypeError("more than nothing")
    return number


def storm(store: str, plan: Plan, console: Console) -> Result:
    """One storm on a database of its own, with a bar that shows what happens."""
    columns = (TextColumn("{task.fields[store]:8}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="headway-chaos-") as folder,
        place_of(store, Path(folder)) as place,
        Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as bar,
    ):
        task = bar.add_task("starting", total=1.0, store=store)

        def said(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        return asyncio.run(Storm(place, Path(folder), plan, said).run())


def show(result: Result, console: Console) -> None:
    """What was done to whom, what came of it, and what is wrong."""
    table = Table(title=f"{result.kind}, seed {result.plan.seed}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for rows in (result.acts, result.counts):
        for name, number in rows.items():
            table.add_row(name, f"{number:,}")
        table.add_section()
    console.print(table)
    for act in result.left_out:
        console.print(f"[yellow]![/] left out: {act}: the SQLite of this Python cannot be made to fail")
    if not result.problems:
        console.print("[green]✓[/] nothing lost, nothing doubled, every instance has ended")
        return
    console.print(f"[red]✗ {len(result.problems)} times a guarantee does not hold[/]")
    for problem in result.problems[:MOST_SHOWN]:
        console.print(f"  [red]✗[/] {escape(problem)}", highlight=False)
    again = f"python -m chaos --store {result.kind} --seed {result.plan.seed}"
    console.print(f"The same acts in the same order: {again} --minutes {result.plan.seconds / 60:g}")


if __name__ == "__main__":
    sys.exit(main())
