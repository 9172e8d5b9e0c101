"""Draining work that does nothing: Headway's worker here, its peers each in a process of its own."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter

from bench.engine.places import Places
from bench.engine.sends import create, names_of
from bench.harness import Unavailable, WrongResult
from headway.engine.engine import Engine
from headway.store.unit import Changes
from headway.worker.handlers import Handlers
from headway.worker.work import Work
from headway.worker.worker import Worker

CAPACITY = 500
LONGEST = 120
CALM = 0.1
"""Seconds after which a worker that has nothing to do rests."""
INSTALL = "`make bench` gets it where it can"


async def no_op(_work: Work) -> None:
    """Do nothing."""


class Drain:
    """A worker with many items at a time; the end of each is a transition with all that belongs to it."""

    def __init__(self, places: Places, store: str) -> None:
        self._places, self._store = places, store
        self._handlers = Handlers()
        self._handlers.add("no_op", no_op)

    def run(self, cycles: int) -> float:
        """Drain that many items of a new database; the seconds from the start of the worker to the last."""
        place = self._places.place(self._store)
        return self._places.run(self._drain(place.engine(), cycles))

    def verify(self) -> None:
        """The clock stopped when all had ended."""

    async def _drain(self, engine: Engine, count: int) -> float:
        async with engine:
            await create(engine, "Errand", names_of("errand", count))
            ends = Ends(count)
            engine.watch(ends.see)
            worker = Worker(engine, self._handlers, capacity=CAPACITY)
            begin = perf_counter()
            await worker.start()
            await asyncio.wait_for(ends.all.wait(), LONGEST)
            elapsed = perf_counter() - begin
            await worker.settled()
            await asyncio.sleep(CALM)
            await worker.stop()
        if worker.tally["done"] != count:
            raise WrongResult(f"{worker.tally} instead of {count} done")
        return elapsed


class Ends:
    """Counts instances that end."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.all = asyncio.Event()

    def see(self, changes: Changes) -> None:
        """Look at what was committed."""
        self.left -= sum(row.ended for row in changes.updated)
        if self.left == 0:
            self.all.set()


class Peer:
    """Another system in a process of its own; it gets a new place in each round, and tells its time."""

    module, longest = "bench.peers", LONGEST

    def __init__(self, name: str, new_place: Callable[[], str], program: str | None = None) -> None:
        if find_spec(name) is None:
            raise Unavailable(f"the package is not installed; {INSTALL}")
        if program is not None and shutil.which(program) is None:
            raise Unavailable(f"{program} is not on this machine; {INSTALL}")
        self._name, self._new_place = name, new_place
        new_place()

    def run(self, cycles: int) -> float:
        """Do that many jobs."""
        words = [sys.executable, "-m", self.module, self._name, str(cycles), self._new_place()]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=self.longest, env=_environment()
        )
        if done.returncode:
            raise WrongResult(done.stderr[-1_000:])
        return float(json.loads(done.stdout.splitlines()[-1])["seconds"])

    def verify(self) -> None:
        """It has raised an error unless all jobs were done."""


def _environment() -> dict[str, str]:
    """No colours, no progress bars, no warnings about whom the benchmark runs as."""
    return {**os.environ, "PYTHONWARNINGS": "ignore", "C_FORCE_ROOT": "1"}
