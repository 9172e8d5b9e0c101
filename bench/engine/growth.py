"""What does not change the cost of a send: a long history, and many children."""

from collections.abc import Callable
from itertools import cycle, repeat

from bench.engine.charts import TENANT
from bench.engine.places import Places
from bench.engine.sends import create, flood, one_by_one
from bench.harness import WrongResult
from headway.engine.engine import Engine
from headway.store.queries import InstanceQuery

MOVING = 1_000
"""Of many children, these are the ones that move."""


class OneInstance:
    """One sender to one instance, which has made so many steps before."""

    def __init__(self, places: Places, *, store: str, steps: int) -> None:
        self._places = places
        self._engine = places.open(places.place(store))
        self._next: Callable[[], str] = repeat("ring").__next__
        self._expected = steps + 1
        places.run(create(self._engine, "Ring", ["ring"]))
        places.run(flood(self._engine, ["ring"] * steps))

    def run(self, cycles: int) -> None:
        """Send that many events."""
        self._expected += cycles
        self._places.run(one_by_one(self._engine, self._next, cycles))

    def verify(self) -> None:
        """Every event is a step."""
        found = self._places.run(self._engine.get(TENANT, "ring")).seq
        if found != self._expected:
            raise WrongResult(f"step {found} instead of {self._expected}")


class Children:
    """One sender to the children of one parent, which hears of each change."""

    def __init__(self, places: Places, *, store: str, size: int) -> None:
        self._places, self._size = places, size
        self._engine = places.open(places.place(store))
        places.run(create(self._engine, "Family", ["family"]))
        places.run(flood(self._engine, ["family"] * size))
        names = places.run(_children(self._engine))
        self._next: Callable[[], str] = cycle(names).__next__

    def run(self, cycles: int) -> None:
        """Send that many events."""
        self._places.run(one_by_one(self._engine, self._next, cycles))

    def verify(self) -> None:
        """The parent knows of all its children."""
        found = self._places.run(self._engine.get(TENANT, "family")).children
        if sum(found.values()) != self._size:
            raise WrongResult(f"{found} instead of {self._size} children")


async def _children(engine: Engine) -> list[str]:
    rows = await engine.list(InstanceQuery(tenant=TENANT, parent="family", limit=MOVING))
    return [row.id for row in rows]
