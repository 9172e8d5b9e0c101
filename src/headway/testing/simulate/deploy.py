"""A new version in the middle: deployed to one process after the other, and living instances brought to it.

The operator goes by the book: rehearses, upgrades, runs the upgrade again when it was interrupted, and
sometimes thinks better of it. The upgrade itself runs in a process, which may be killed at any step of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Protocol

from headway.engine.engine import Engine
from headway.engine.upgrade.rehearsal import Rehearsal, rehearse
from headway.engine.upgrade.upgrade import Upgraded, undo, upgrade
from headway.errors import EngineError, StoreError
from headway.testing.simulate.loop import Loop
from headway.testing.simulate.process import Process
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.witness import Trace

PATIENCE = 60
MOST_STEPS = 50
Run = Callable[[Engine, str, int], Awaitable[Any]]


class Site(Protocol):
    """Where versions are deployed."""

    scenario: Scenario
    loop: Loop
    trace: Trace
    processes: dict[int, Process | None]
    deployed: set[int]
    forgetful: set[int]

    def crash(self, number: int) -> None:
        """A process is gone from one moment to the next."""

    async def begin(self, number: int) -> None:
        """A process begins where none is, with the versions that are deployed there."""

    async def shut(self, number: int) -> None:
        """A process ends in good order."""

    def violated(self, what: str) -> None:
        """A guarantee does not hold."""


class Deploy:
    """Some come in bad order: living instances are upgraded before all processes know how.

    Some processes forget the old versions while instances live by them; the first never does.
    """

    def __init__(self, site: Site, random: Random) -> None:
        self._site, self._random = site, random
        self._finishes = False
        self._keeps_all = -1
        self._hasty = random.random() < 0.3  # noqa: PLR2004 - three in ten
        self._wavers = random.random() < 0.5  # noqa: PLR2004 - every other one
        self._resolute = random.random() < 0.7  # noqa: PLR2004 - seven in ten

    async def go(self, seconds: float) -> None:
        """Deploy everywhere at some time, and bring what lives along."""
        await self._pause(seconds)
        numbers = [*self._site.processes]
        self._random.shuffle(numbers)
        self._keeps_all = numbers[0]
        await self._replace(numbers[0])
        if not self._hasty:
            await self._replace(*numbers[1:])
        await self._upgrade_all()
        if self._wavers:
            await self._pause(0.1)
            await self._each(undo, tries=2)
        await self._replace(*numbers[1:] if self._hasty else ())

    async def finish(self) -> None:
        """When nothing stands in the way any more, all that can be upgraded are."""
        if self._wavers and not self._resolute:
            return
        self._finishes = True
        for name, to in self._site.scenario.newest.items():
            report: Upgraded | None = await self._run(upgrade, name, to, PATIENCE)
            left: Rehearsal | None = await self._run(rehearse, name, to, PATIENCE)
            if report is None or left is None:
                self._site.violated(f"{name} could not be upgraded")
                return
            able = [kind for kind in ("same", "mapped") if kind in left.fitness]
            if able or (report.failed and not left.fitness):
                self._site.violated(f"the upgrade of {name} was left undone: {report}, {left.fitness}")

    async def _replace(self, *numbers: int) -> None:
        for number in numbers:
            self._site.deployed.add(number)
            if number != self._keeps_all and self._random.random() < 0.3:  # noqa: PLR2004 - three in ten
                self._site.forgetful.add(number)
            if self._random.random() < 0.2:  # noqa: PLR2004 - two in ten
                self._site.crash(number)
            else:
                await self._site.shut(number)
            alone = " alone" if number in self._site.forgetful else ""
            self._site.trace.note("deploy", f"process {number} knows the new version{alone} from now on")
            await self._site.begin(number)
            await self._pause(1.0)

    async def _upgrade_all(self) -> None:
        await self._each(rehearse, tries=1)
        await self._each(upgrade, tries=3)

    async def _each(self, run: Run, tries: int) -> None:
        for name, to in self._site.scenario.newest.items():
            await self._run(run, name, to, tries)

    async def _run(self, run: Run, name: str, to: int, tries: int) -> Any:
        """Run something in a process that knows the new version; what is interrupted is run again."""
        what = f"{getattr(run, '__name__', run)} {name} to {to}"
        for _ in range(tries):
            try:
                done = await self._serve(lambda engine: run(engine, name, to))
            except (ConnectionError, StoreError, EngineError) as error:
                self._site.trace.note("operator", f"{what}: {error!r}")
                await self._pause(1.0)
            else:
                self._site.trace.note("operator", f"{what}: {_short(done)}")
                return done
        return None

    async def _serve(self, call: Callable[[Engine], Awaitable[Any]]) -> Any:
        able = [(number, self._site.processes[number]) for number in sorted(self._site.deployed)]
        alive = [(number, process) for number, process in able if process is not None]
        if not alive:
            raise ConnectionError("nobody is there")
        number, process = self._random.choice(alive)
        if not self._finishes and self._random.random() < 0.4:  # noqa: PLR2004 - four in ten
            kill = partial(self._kill, number, process)
            self._site.loop.doom(process.name, self._random.randint(1, MOST_STEPS), kill)
        try:
            return await process.serve(call)
        finally:
            self._site.loop.spare(process.name)
            await self._site.begin(number)

    def _kill(self, number: int, process: Process) -> None:
        if self._site.processes[number] is process:
            self._site.crash(number)

    async def _pause(self, longest: float) -> None:
        await asyncio.sleep(self._random.random() * longest)


def _short(done: Upgraded | Rehearsal) -> str:
    if isinstance(done, Rehearsal):
        return ", ".join(f"{tally.count} {kind}" for kind, tally in sorted(done.fitness.items()))
    return f"{done.done} done, {done.passed} passed, {done.failed} failed {done.told or ''}"
