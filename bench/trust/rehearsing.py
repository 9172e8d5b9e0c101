"""How long the rehearsal of an upgrade takes, and how much memory, by the number of instances that live."""

import json
import subprocess
import sys
from collections.abc import Sequence

from bench.engine.places import Places
from bench.engine.sends import create, flood, names_of
from bench.harness import Row, WrongResult
from bench.trust.charts import AFTER, BEFORE
from headway.engine.engine import Engine
from headway.store.postgres.store import PostgresStore
from headway.store.sqlite.store import SqliteStore

LONGEST = 600


def engine_at(address: str) -> Engine:
    """An engine that knows both versions."""
    store = PostgresStore(address) if "://" in address else SqliteStore(address)
    return Engine(store, (BEFORE, AFTER))


class Rehearsing:
    """A process that rehearses an upgrade of so many instances, each with two lines of history."""

    def __init__(self, places: Places, case: str, *, store: str, size: int) -> None:
        self._case, self._size = case, size
        self._address = places.place(store).address
        self._found: dict[str, float] = {}
        places.run(self._fill())

    def run(self, _cycles: int) -> float:
        """Rehearse; how long it took is what the process says."""
        done = subprocess.run(
            [sys.executable, "-m", "bench.trust.rehearsal", self._address],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        if done.returncode:
            raise WrongResult(done.stderr[-1_000:])
        self._found = json.loads(done.stdout)
        return self._found["seconds"]

    def verify(self) -> None:
        """All were tried."""
        if self._found["instances"] != self._size:
            raise WrongResult(f"{self._found['instances']} instances instead of {self._size}")

    def report(self) -> Sequence[Row]:
        """The most memory that the process took."""
        return [Row(self._case, "memory", self._found["peak"], "MiB", 0.0)]

    async def _fill(self) -> None:
        store = engine_at(self._address).store
        names = names_of("claim", self._size)
        async with Engine(store, (BEFORE,)) as engine:
            await create(engine, "Claim", names)
            await flood(engine, names)
