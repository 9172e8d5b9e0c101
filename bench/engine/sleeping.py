"""What a send costs among sleeping instances, and how much memory the process takes that does it."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence

from bench.engine.crowd import Crowds
from bench.engine.places import Places
from bench.engine.sends import name_of, one_by_one
from bench.harness import Row, WrongResult

SENDS_FOR_MEMORY = 2_000
LONGEST = 120


class AmongSleepers:
    """One sender that touches sleepers here and there."""

    def __init__(self, places: Places, crowds: Crowds, case: str, *, store: str, size: int) -> None:
        self._places, self._case, self._size = places, case, size
        self._place = crowds.place(store, size)
        self._engine = places.open(self._place)
        numbers = random.Random(1)
        self._pick: Callable[[], str] = lambda: name_of("sleeper", numbers.randrange(size))

    def run(self, cycles: int) -> None:
        """Send that many events."""
        self._places.run(one_by_one(self._engine, self._pick, cycles))

    def verify(self) -> None:
        """Each answer was looked at."""

    def report(self) -> Sequence[Row]:
        """How much memory a process takes that does the same."""
        words = [self._place.address, str(self._size), str(min(self._size, SENDS_FOR_MEMORY))]
        done = subprocess.run(
            [sys.executable, "-m", "bench.engine.memory", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        if done.returncode:
            raise WrongResult(done.stderr[-1_000:])
        return [Row(self._case, "memory", json.loads(done.stdout)["peak"], "MiB", 0.0)]
