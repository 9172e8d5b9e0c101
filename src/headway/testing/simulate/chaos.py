"""Faults and deployments: what happens to the processes of a world, their database and their receivers."""

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
from headway.testing.simulate.database import ConnectionFaults, DatabaseClock
from headway.testing.simulate.loop import Loop
from headway.testing.simulate.process import HandlerFaults, Process
from headway.testing.simulate.receivers import ReceiverFaults
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.witness import Trace, Witness

MOST_STEPS = 60
LONGEST_JUMP = 8.0
LONGEST_LEAP = 120.0
PATIENCE = 60
MOST_STEPS_OF_UPGRADE = 50
Run = Callable[[Engine, str, int], Awaitable[Any]]


class FaultTargets(Protocol):
    """The parts of a world in which faults happen."""

    loop: Loop
    clock: DatabaseClock
    connection_faults: ConnectionFaults
    handler_faults: HandlerFaults
    receiver_faults: list[ReceiverFaults]
    witness: Witness
    trace: Trace
    processes: dict[int, Process | None]

    def crash(self, number: int) -> None:
        """Kill a process."""

    async def begin(self, number: int) -> None:
        """Start a process if none runs."""

    async def shut(self, number: int) -> None:
        """Shut a process down."""


class Chaos:
    """Each run has a random selection of the faults, because too many faults at once hide bugs."""

    def __init__(self, targets: FaultTargets, random: Random) -> None:
        self._targets, self._random = targets, random
        self._over = False
        faults: dict[str, Callable[[], Awaitable[None]]] = {
            "crash": self._crash,
            "crash soon": self._crash_soon,
            "restart": self._restart,
            "freeze": self._freeze,
            "suspend": self._suspend,
            "outage": self._outage,
            "jump": self._jump,
            "jump back": self._jump_back,
            "receiver": self._receiver,
        }
        self._faults = [fault for name, fault in faults.items() if self._has(name, 0.5)]
        connection_faults, handler_faults = targets.connection_faults, targets.handler_faults
        connection_faults.fails = 0.05 * random.random() if self._has("store fails", 0.5) else 0.0
        connection_faults.slow = 0.1 * random.random() if self._has("store slow", 0.3) else 0.0
        connection_faults.starts_over = 0.1 if self._has("units start over", 0.3) else 0.0
        connection_faults.hints_lost = 0.3 if self._has("hints lost", 0.5) else 0.0
        handler_faults.fails = random.random() if self._has("work fails", 0.6) else 0.0
        handler_faults.hangs = 0.3 * random.random() if self._has("work hangs", 0.4) else 0.0
        for faulty in targets.receiver_faults:
            faulty.fails = 0.5 * random.random() if self._has("receiver fails", 0.5) else 0.0
            faulty.slow = 0.3 if self._has("receiver slow", 0.2) else 0.0
            faulty.poison = 0.05 if self._has("poison", 0.2) else 0.0

    def _has(self, name: str, probability: float) -> bool:
        chosen = self._random.random() < probability
        if chosen:
            self._targets.trace.note("faults", f"include: {name}")
        return chosen

    async def run(self, seconds: float) -> None:
        """Cause faults for the given time, then end them all."""
        loop, random = self._targets.loop, self._random
        until = loop.now + seconds
        running: list[asyncio.Task[None]] = []
        while self._faults and loop.now < until:
            await asyncio.sleep(random.random() * 2.0)
            running.append(asyncio.create_task(self._do(random.choice(self._faults))))
        await asyncio.sleep(max(0.0, until - loop.now))
        self._over = True
        if running:
            await asyncio.wait(running)
        self._targets.connection_faults.stop()
        self._targets.handler_faults.stop()
        for faulty in self._targets.receiver_faults:
            faulty.stop()
        self._targets.trace.note("faults", "end")

    async def _do(self, fault: Callable[[], Awaitable[None]]) -> None:
        await fault()

    def _victim(self) -> tuple[int, Process] | None:
        alive = [(number, each) for number, each in self._targets.processes.items() if each is not None]
        return self._random.choice(alive) if alive else None

    async def _pause(self, longest: float) -> None:
        await asyncio.sleep(self._random.random() * longest)

    async def _crash(self) -> None:
        if victim := self._victim():
            self._targets.crash(victim[0])
            await self._pause(4.0)
            await self._targets.begin(victim[0])

    async def _crash_soon(self) -> None:
        """Kill a process between any two of its awaits."""
        if victim := self._victim():
            number, process = victim
            gone = asyncio.Event()

            def crash() -> None:
                if self._targets.processes[number] is process:
                    self._targets.crash(number)
                gone.set()

            self._targets.loop.kill_after(process.name, self._random.randint(1, MOST_STEPS), crash)
            try:
                await asyncio.wait_for(gone.wait(), 3.0)
            except TimeoutError:
                self._targets.loop.cancel_kill(process.name)
                return
            await self._pause(2.0)
            await self._targets.begin(number)

    async def _restart(self) -> None:
        if victim := self._victim():
            await self._targets.shut(victim[0])
            await self._pause(1.0)
            await self._targets.begin(victim[0])

    async def _freeze(self) -> None:
        if victim := self._victim():
            await self._frozen(victim[1], 7.0)

    async def _suspend(self) -> None:
        """Suspend a process with its clock, as a sleeping machine does."""
        if victim := self._victim():
            self._targets.witness.clocks_agree = False
            await self._frozen(victim[1], 7.0, suspended=True)

    async def _frozen(self, process: Process, longest: float, *, suspended: bool = False) -> None:
        seconds = self._random.random() * longest
        self._targets.trace.note(process.name, f"{'sleeps' if suspended else 'freezes'} for {seconds:.3f} s")
        self._targets.loop.freeze(process.name)
        await asyncio.sleep(seconds)
        self._targets.loop.thaw(process.name, lag=seconds if suspended else 0.0)
        self._targets.trace.note(process.name, "continues")

    async def _outage(self) -> None:
        self._targets.connection_faults.down = True
        self._targets.trace.note("database", "is down")
        await self._pause(3.0)
        self._targets.connection_faults.down = False
        self._targets.trace.note("database", "is back")

    async def _jump(self) -> None:
        far = self._random.random() < 0.15  # noqa: PLR2004 - not often
        seconds = self._random.random() * (LONGEST_LEAP if far else LONGEST_JUMP)
        self._targets.witness.clocks_agree = False
        self._targets.trace.note("database", f"sets its clock forward by {seconds:.3f} s")
        self._targets.clock.jump(seconds)

    async def _jump_back(self) -> None:
        """Leases and timers only last longer, so `clocks_agree` stays true."""
        far = self._random.random() < 0.15  # noqa: PLR2004 - not often
        seconds = self._random.random() * (LONGEST_LEAP if far else LONGEST_JUMP)
        self._targets.trace.note("database", f"sets its clock back by {seconds:.3f} s")
        self._targets.clock.jump(-seconds)

    async def _receiver(self) -> None:
        if self._targets.receiver_faults:
            faulty = self._random.choice(self._targets.receiver_faults)
            faulty.down = True
            await self._pause(4.0)
            faulty.down = False


class Site(Protocol):
    """The parts of a world to which versions are deployed."""

    scenario: Scenario
    loop: Loop
    trace: Trace
    processes: dict[int, Process | None]
    deployed: set[int]
    forgetful: set[int]

    def crash(self, number: int) -> None:
        """Kill a process."""

    async def begin(self, number: int) -> None:
        """Start a process if none runs, with the versions that are deployed to it."""

    async def shut(self, number: int) -> None:
        """Shut a process down."""

    def violated(self, what: str) -> None:
        """Report that a guarantee does not hold."""


class Deploy:
    """Deploys new versions, in some runs in a bad order: upgrades before all processes have the new version.

    Some processes drop the old versions while live instances still use them; the first never does.
    """

    def __init__(self, site: Site, random: Random) -> None:
        self._site, self._random = site, random
        self._finishes = False
        self._keeps_all = -1
        self._upgrades_early = random.random() < 0.3  # noqa: PLR2004 - three in ten
        self._undoes = random.random() < 0.5  # noqa: PLR2004 - every other one
        self._upgrades_again = random.random() < 0.7  # noqa: PLR2004 - seven in ten

    async def go(self, seconds: float) -> None:
        """Deploy to all processes at a random time, and upgrade live instances."""
        await self._pause(seconds)
        numbers = [*self._site.processes]
        self._random.shuffle(numbers)
        self._keeps_all = numbers[0]
        await self._replace(numbers[0])
        if not self._upgrades_early:
            await self._replace(*numbers[1:])
        await self._upgrade_all()
        if self._undoes:
            await self._pause(0.1)
            await self._each(undo, tries=2)
        await self._replace(*numbers[1:] if self._upgrades_early else ())

    async def finish(self) -> None:
        """Without faults, upgrade all instances that can be upgraded."""
        if self._undoes and not self._upgrades_again:
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
                self._site.violated(f"the upgrade of {name} is incomplete: {report}, {left.fitness}")

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
            self._site.trace.note("deploy", f"process {number} has the new version{alone} from now on")
            await self._site.begin(number)
            await self._pause(1.0)

    async def _upgrade_all(self) -> None:
        await self._each(rehearse, tries=1)
        await self._each(upgrade, tries=3)

    async def _each(self, run: Run, tries: int) -> None:
        for name, to in self._site.scenario.newest.items():
            await self._run(run, name, to, tries)

    async def _run(self, run: Run, name: str, to: int, tries: int) -> Any:
        """Run a call in a process that has the new version, and again after an interruption."""
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
            raise ConnectionError("no process runs")
        number, process = self._random.choice(alive)
        if not self._finishes and self._random.random() < 0.4:  # noqa: PLR2004 - four in ten
            kill = partial(self._kill, number, process)
            self._site.loop.kill_after(process.name, self._random.randint(1, MOST_STEPS_OF_UPGRADE), kill)
        try:
            return await process.serve(call)
        finally:
            self._site.loop.cancel_kill(process.name)
            await self._site.begin(number)

    def _kill(self, number: int, process: Process) -> None:
        if self._site.processes[number] is process:
            self._site.crash(number)

    async def _pause(self, longest: float) -> None:
        await asyncio.sleep(self._random.random() * longest)


def _short(done: Upgraded | Rehearsal) -> str:
    if isinstance(done, Rehearsal):
        return ", ".join(f"{tally.count} {kind}" for kind, tally in sorted(done.fitness.items()))
    return f"{done.done} done, {done.passed} passed, {done.failed} failed {done.failures or ''}"
