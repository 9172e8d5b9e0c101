"""Handlers for a simulation: invented ones that fail, hang and are slow, or a team's own, under watch."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from headway.statechart.chart import Chart
from headway.statechart.explore.events import error_codes
from headway.testing.simulate.witness import Witness
from headway.worker.attempt import Again, Fail
from headway.worker.handlers import Handlers
from headway.worker.work import Work

Looking = Callable[[Work, Callable[[], None]], Any]
"""A handler that lets the witness look now and then."""


class Fortune:
    """How well invented handlers do: each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.hangs = 0.0

    def calm(self) -> None:
        """All goes well from now on."""
        self.fails = self.hangs = 0.0


def watched(
    charts: Iterable[Chart],
    own: Handlers | None,
    *,
    fortune: Fortune,
    witness: Witness,
    time: Callable[[], float],
) -> Handlers:
    """A handler for every name that the charts run, each under watch."""
    handlers = Handlers()
    given = {handler.name: handler.function for handler in own or ()}
    codes: dict[str, set[str]] = {}
    for chart in charts:
        for node in chart.order:
            if node.model.run is not None:
                codes.setdefault(node.model.run.handler, set()).update(error_codes(chart, node))
    for name in sorted({*codes, *given}):
        function = _given(given[name]) if name in given else _invented(sorted(codes[name]), fortune)
        handlers.add(name, _watched(function, witness, time))
    return handlers


def _given(function: Callable[[Work], Any]) -> Looking:
    """A team's own handler; one that is not async runs at once, for there are no threads."""

    async def given(work: Work, _look: Callable[[], None]) -> Any:
        outcome = function(work)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return given


def _watched(function: Looking, witness: Witness, time: Callable[[], float]) -> Callable[[Work], Any]:
    async def handle(work: Work) -> Any:
        run = witness.begins(work, time)
        try:
            outcome = await function(work, lambda: witness.looks(run))
            witness.looks(run)
            return outcome
        finally:
            if run in witness.runs:
                witness.ends(run)

    return handle


def _invented(codes: list[str], fortune: Fortune) -> Looking:
    """A handler that does nothing, in several steps and not always well."""

    async def invented(work: Work, look: Callable[[], None]) -> Any:
        random = fortune.random
        for step in range(random.randint(0, 3)):
            await asyncio.sleep(random.random() * 0.8)
            chance = random.random()
            if chance < 0.3:  # noqa: PLR2004 - three in ten
                work.progress(step / 4, steps=1)
            elif chance < 0.5:  # noqa: PLR2004 - two in ten
                await work.checkpoint({"step": step})
            look()
        if random.random() < fortune.hangs:
            for _ in range(8):
                await asyncio.sleep(random.random() * 2)
                look()
        if random.random() < fortune.fails:
            return _failure(random, codes)
        return None

    return invented


def _failure(random: Random, codes: list[str]) -> Any:
    chance = random.random()
    if chance < 0.2:  # noqa: PLR2004 - two in ten
        return Again(after=random.random())
    if chance < 0.3:  # noqa: PLR2004 - one in ten
        raise ValueError("what nobody has thought of")
    return Fail(random.choice(codes))
