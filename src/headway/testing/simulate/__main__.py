"""`python -m headway.testing.simulate`: run many worlds, or one of them again with its full trace.

usage: python -m headway.testing.simulate [--seeds 5000] [--from 0] [--jobs 2] [--seed 7] [module:Chart ...]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

from headway.testing.simulate.runs import FailedSeed, explore, general
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.world import World

SHARE = 25


def main(given: Sequence[str] | None = None) -> int:
    """The command; returns 1 when a guarantee does not hold."""
    asked = _arguments(given)
    if asked.seed is not None:
        return _one(asked.seed, _scenario(asked.charts))
    return _many(range(asked.first, asked.first + asked.seeds), asked.charts, asked.jobs)


def _arguments(given: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m headway.testing.simulate", description="Simulate lifecycles.")
    parser.add_argument("charts", nargs="*", help="module:Chart, all charts that belong together")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many worlds (1000)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=1, help="how many worlds at the same time (1)")
    parser.add_argument("--seed", type=int, help="run one world, and print its full trace")
    asked = parser.parse_args(given)
    for spelled in asked.charts:
        try:
            _chart(spelled)
        except (ImportError, AttributeError, ValueError) as error:
            parser.error(f"there is no chart {spelled}, spelled module:Chart: {error}")
    return asked


def _chart(spelled: str) -> Any:
    sys.path.insert(0, str(Path.cwd()))
    module, _, name = spelled.partition(":")
    return getattr(import_module(module), name)


def _one(seed: int, scenario: Scenario) -> int:
    world = World(seed, scenario)
    world.run()
    _say("\n".join(world.trace.lines))
    _say(f"seed {seed}, trace {world.trace.hash}: " + ("; ".join(world.violations) or "all guarantees hold"))
    return bool(world.violations)


def _many(seeds: range, charts: Sequence[str], jobs: int) -> int:
    begun, number = perf_counter(), 0
    for lived, finding in _shares(seeds, charts, jobs):
        if finding is not None:
            return _found(finding, charts)
        number += lived
        if sys.stderr.isatty():
            rate = number / (perf_counter() - begun) * 60
            sys.stderr.write(f"\r{number:,} of {len(seeds):,} worlds, {rate:,.0f} a minute ")
    took = perf_counter() - begun
    _say(f"\n{number:,} worlds of {_scenario(charts).name} in {took:.1f} s: all guarantees hold")
    return 0


def _shares(seeds: range, charts: Sequence[str], jobs: int) -> Iterator[tuple[int, FailedSeed | None]]:
    """Run the worlds in shares; for each share their number, and the first that fails."""
    shares = [seeds[start : start + SHARE] for start in range(0, len(seeds), SHARE)]
    if jobs == 1:
        scenario = _scenario(charts)
        yield from ((len(share), _search(share, scenario)) for share in shares)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_share, shares, repeat(charts))


def _share(seeds: range, charts: Sequence[str]) -> tuple[int, FailedSeed | None]:
    return len(seeds), _search(seeds, _scenario(charts))


def _search(seeds: range, scenario: Scenario) -> FailedSeed | None:
    return next(filter(None, (explore(seed, scenario) for seed in seeds)), None)


def _scenario(charts: Sequence[str]) -> Scenario:
    return Scenario([*map(_chart, charts)]) if charts else general()


def _found(finding: FailedSeed, charts: Sequence[str]) -> int:
    again = " ".join(["python -m headway.testing.simulate --seed", str(finding.seed), *charts])
    _say(f"\n{finding}\nagain, in full: {again}")
    return 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
