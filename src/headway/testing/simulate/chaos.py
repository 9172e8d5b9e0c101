"""Fate: ends processes, freezes them, cuts the way to the database, moves its clock, and stops in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from headway.testing.simulate.database import DatabaseClock, Weather
from headway.testing.simulate.loop import Loop
from headway.testing.simulate.process import Fortune, Process
from headway.testing.simulate.receivers import Mood
from headway.testing.simulate.witness import Trace, Witness

MOST_STEPS = 60
LONGEST_JUMP = 8.0
LONGEST_LEAP = 120.0


class Sky(Protocol):
    """What fate has power over."""

    loop: Loop
    clock: DatabaseClock
    weather: Weather
    fortune: Fortune
    moods: list[Mood]
    witness: Witness
    trace: Trace
    processes: dict[int, Process | None]

    def crash(self, number: int) -> None:
        """A process is gone from one moment to the next."""

    async def begin(self, number: int) -> None:
        """A process begins where none is."""

    async def shut(self, number: int) -> None:
        """A process ends in good order."""


class Chaos:
    """Of all faults each run has some: bugs hide behind other bugs, and behind too much of everything."""

    def __init__(self, sky: Sky, random: Random) -> None:
        self._sky, self._random = sky, random
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
        weather, fortune = sky.weather, sky.fortune
        weather.fails = 0.05 * random.random() if self._has("store fails", 0.5) else 0.0
        weather.slow = 0.1 * random.random() if self._has("store slow", 0.3) else 0.0
        weather.starts_over = 0.1 if self._has("units start over", 0.3) else 0.0
        weather.hints_lost = 0.3 if self._has("hints lost", 0.5) else 0.0
        fortune.fails = random.random() if self._has("work fails", 0.6) else 0.0
        fortune.hangs = 0.3 * random.random() if self._has("work hangs", 0.4) else 0.0
        for mood in sky.moods:
            mood.fails = 0.5 * random.random() if self._has("receiver fails", 0.5) else 0.0
            mood.slow = 0.3 if self._has("receiver slow", 0.2) else 0.0
            mood.poison = 0.05 if self._has("poison", 0.2) else 0.0

    def _has(self, name: str, probability: float) -> bool:
        chosen = self._random.random() < probability
        if chosen:
            self._sky.trace.note("fate", f"has {name}")
        return chosen

    async def reign(self, seconds: float) -> None:
        """Do harm for a while, then let all be well."""
        loop, random = self._sky.loop, self._random
        until = loop.now + seconds
        harm: list[asyncio.Task[None]] = []
        while self._faults and loop.now < until:
            await asyncio.sleep(random.random() * 2.0)
            harm.append(asyncio.create_task(self._do(random.choice(self._faults))))
        await asyncio.sleep(max(0.0, until - loop.now))
        self._over = True
        if harm:
            await asyncio.wait(harm)
        self._sky.weather.calm()
        self._sky.fortune.calm()
        for mood in self._sky.moods:
            mood.calm()
        self._sky.trace.note("fate", "leaves")

    async def _do(self, fault: Callable[[], Awaitable[None]]) -> None:
        await fault()

    def _victim(self) -> tuple[int, Process] | None:
        alive = [(number, each) for number, each in self._sky.processes.items() if each is not None]
        return self._random.choice(alive) if alive else None

    async def _pause(self, longest: float) -> None:
        await asyncio.sleep(self._random.random() * longest)

    async def _crash(self) -> None:
        if victim := self._victim():
            self._sky.crash(victim[0])
            await self._pause(4.0)
            await self._sky.begin(victim[0])

    async def _crash_soon(self) -> None:
        """After any step: between any two awaits."""
        if victim := self._victim():
            number, process = victim
            gone = asyncio.Event()

            def crash() -> None:
                if self._sky.processes[number] is process:
                    self._sky.crash(number)
                gone.set()

            self._sky.loop.doom(process.name, self._random.randint(1, MOST_STEPS), crash)
            try:
                await asyncio.wait_for(gone.wait(), 3.0)
            except TimeoutError:
                self._sky.loop.spare(process.name)
                return
            await self._pause(2.0)
            await self._sky.begin(number)

    async def _restart(self) -> None:
        if victim := self._victim():
            await self._sky.shut(victim[0])
            await self._pause(1.0)
            await self._sky.begin(victim[0])

    async def _freeze(self) -> None:
        if victim := self._victim():
            await self._frozen(victim[1], 7.0)

    async def _suspend(self) -> None:
        """As a machine that sleeps: its clock sleeps too."""
        if victim := self._victim():
            self._sky.witness.clocks_agree = False
            await self._frozen(victim[1], 7.0, suspended=True)

    async def _frozen(self, process: Process, longest: float, *, suspended: bool = False) -> None:
        seconds = self._random.random() * longest
        self._sky.trace.note(process.name, f"{'sleeps' if suspended else 'freezes'} for {seconds:.3f} s")
        self._sky.loop.freeze(process.name)
        await asyncio.sleep(seconds)
        self._sky.loop.thaw(process.name, lag=seconds if suspended else 0.0)
        self._sky.trace.note(process.name, "goes on")

    async def _outage(self) -> None:
        self._sky.weather.down = True
        self._sky.trace.note("database", "is down")
        await self._pause(3.0)
        self._sky.weather.down = False
        self._sky.trace.note("database", "is back")

    async def _jump(self) -> None:
        far = self._random.random() < 0.15  # noqa: PLR2004 - not often
        seconds = self._random.random() * (LONGEST_LEAP if far else LONGEST_JUMP)
        self._sky.witness.clocks_agree = False
        self._sky.trace.note("database", f"sets its clock forward by {seconds:.3f} s")
        self._sky.clock.jump(seconds)

    async def _jump_back(self) -> None:
        """Leases and timers only last longer then: what rests on them holds all the same."""
        far = self._random.random() < 0.15  # noqa: PLR2004 - not often
        seconds = self._random.random() * (LONGEST_LEAP if far else LONGEST_JUMP)
        self._sky.trace.note("database", f"sets its clock back by {seconds:.3f} s")
        self._sky.clock.jump(-seconds)

    async def _receiver(self) -> None:
        if self._sky.moods:
            mood = self._random.choice(self._sky.moods)
            mood.down = True
            await self._pause(4.0)
            mood.down = False
