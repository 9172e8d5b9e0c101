"""How fast timers fire that are due together, and how late those are that come one after the other."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter

from bench.engine.crowd import Crowds
from bench.engine.places import Places
from bench.engine.sends import name_of
from bench.harness import Row, WrongResult
from headway.store.unit import Changes
from headway.worker.timers import Timers

LONGEST = 60
LEAD = 0.5
PER_TIMER = 0.000_2
"""Seconds in which the timers are set before the first is due; else the setting would count as lateness."""


class Firing:
    """Wakes sleepers whose timers come due within so many seconds; 0 is all together."""

    def __init__(
        self, places: Places, crowds: Crowds, case: str, *, store: str, size: int, spread: float
    ) -> None:
        self._places, self._crowds, self._case = places, crowds, case
        self._store, self._spread = store, spread
        self._place = crowds.place(store, size)
        self._engine = places.open(self._place)
        # The first sleeper is the model of all others and sleeps on; the two kinds begin at opposite ends.
        self._numbers = iter(range(size - 1, 0, -1) if spread else range(1, size))
        self._timers = places.run(_on_the_loop(lambda: Timers(self._engine)))
        self._expected = 0

    def run(self, cycles: int) -> float:
        """Fire that many; the seconds from when the first is due until all have fired."""
        self._expected += cycles
        lead = LEAD + PER_TIMER * cycles
        begin = datetime.fromtimestamp(time.time() + lead, UTC)
        step = timedelta(seconds=self._spread / cycles)
        names = [name_of("sleeper", next(self._numbers)) for _ in range(cycles)]
        dues = [(begin + step * number, name) for number, name in enumerate(names)]
        self._crowds.make_due(self._store, self._place, dues)
        left = begin.timestamp() - time.time()
        if left < 0:
            raise WrongResult(f"setting the timers took {lead - left:.1f} s: they would all seem to be late")
        return self._places.run(self._fire(left))

    def verify(self) -> None:
        """Each has fired once."""
        if self._timers.tally["fired"] != self._expected:
            raise WrongResult(f"{self._timers.tally} instead of {self._expected} fired")

    def report(self) -> Sequence[Row]:
        """How late the timers were when they were read."""
        return [
            Row(self._case, f"late, p{round(share * 100)}", self._timers.late_by(share) * 1_000, "ms", 0.0)
            for share in (0.5, 0.99)
        ]

    async def _fire(self, left: float) -> float:
        begin = perf_counter() + left
        if self._spread:
            await self._serve()
        else:
            await asyncio.sleep(left)
            while await self._timers.turn():
                pass
        elapsed = perf_counter() - begin
        await self._timers.stop()
        return elapsed

    async def _serve(self) -> None:
        """Let the service run by itself until all have fired."""
        left, all_fired = self._expected - self._timers.tally["fired"], asyncio.Event()

        def see(changes: Changes) -> None:
            nonlocal left
            left -= len(changes.timers_gone)
            if left <= 0:
                all_fired.set()

        self._engine.watch(see)
        async with self._timers:
            await asyncio.wait_for(all_fired.wait(), LONGEST)
            await asyncio.sleep(0)  # the service counts what it has fired
        self._engine.unwatch(see)


async def _on_the_loop(make: Callable[[], Timers]) -> Timers:
    return make()
