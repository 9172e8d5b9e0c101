"""Runs many worlds, one after the other, until a guarantee does not hold."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from headway.engine.facts import Given
from headway.statechart.chart import Charted
from headway.testing.simulate.charts import CHARTS, NEWER
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.world import World
from headway.worker.handlers import Handlers

SHOWN = 60
TIDY_EVERY = 50


@dataclass(frozen=True)
class FailedSeed:
    """A seed whose world violates a guarantee, with the violations and the trace."""

    seed: int
    violations: tuple[str, ...]
    trace: tuple[str, ...]

    def __str__(self) -> str:
        """The violations, and the last lines of the trace."""
        left_out = len(self.trace) - SHOWN
        lines = [f"seed {self.seed}: {self.violations[0]}"]
        lines += [f"  also: {each}" for each in self.violations[1:5]]
        lines += [f"  … {left_out} lines before …"] * (left_out > 0)
        return "\n".join([*lines, *(f"  {line}" for line in self.trace[-SHOWN:])])


class GuaranteeError(AssertionError):
    """A guarantee does not hold; `finding` has the seed and the trace."""

    def __init__(self, finding: FailedSeed) -> None:
        self.finding = finding
        super().__init__(str(finding))


def simulate(
    *charts: Charted,
    seeds: Iterable[int] = range(100),
    handlers: Handlers | None = None,
    facts: Given | None = None,
    payloads: Mapping[str, Callable[[Random], Any]] | None = None,
    context: Callable[[Random], Any] | None = None,
    progress: Callable[[int], None] | None = None,
    **size: Any,
) -> int:
    """Run a world for each seed and return their number. Raises GuaranteeError at the first that fails.

    If a chart is given in several versions, the later ones are deployed while instances are live. Without
    `handlers`, generated ones do the work, and fail with the codes that the charts handle. `payloads` make
    the data of events by name, and `context` that of new instances, from a random generator; data of declared
    types is generated. `size`: processes, clients, calls, instances, seconds of a Scenario.
    """
    scenario = Scenario(
        charts or (*CHARTS, *NEWER),
        counted=not charts,
        handlers=handlers,
        facts=facts or {},
        payloads=payloads or {},
        context=context,
        **size,
    )
    number = 0
    for number, seed in enumerate(seeds, 1):
        if finding := explore(seed, scenario):
            raise GuaranteeError(finding)
        if progress is not None:
            progress(number)
    return number


def general() -> Scenario:
    """The scenario of all built-in charts."""
    return Scenario((*CHARTS, *NEWER), counted=True)


def explore(seed: int, scenario: Scenario) -> FailedSeed | None:
    """Run one world; None if all guarantees hold."""
    gc.disable()
    try:
        world = World(seed, scenario)
        world.run()
    finally:
        gc.enable()
    if seed % TIDY_EVERY == 0:
        gc.collect()
    if not world.violations:
        return None
    return FailedSeed(seed, tuple(world.violations), tuple(world.trace.lines))
