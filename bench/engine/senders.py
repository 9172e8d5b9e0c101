"""Headway: one sender one at a time, and many senders at once, on instances of the smallest chart."""

import asyncio
from collections.abc import Callable
from itertools import cycle

from bench.engine.charts import GO, TENANT
from bench.engine.places import Places
from bench.engine.sends import REQUESTS, check, create, names_of, one_by_one
from bench.harness import WrongResult
from headway.engine.engine import Engine
from headway.store.queries import InstanceQuery


class OneSender:
    """Sends the next event when the last one is committed, to one instance after the other."""

    def __init__(self, places: Places, store: str, instances: int) -> None:
        self._places = places
        names = names_of("ring", instances)
        self._next: Callable[[], str] = cycle(names).__next__
        self._engine = places.open(places.place(store))
        self._sent = 0
        places.run(create(self._engine, "Ring", names))

    def run(self, cycles: int) -> None:
        """Send that many events."""
        self._sent += cycles
        self._places.run(one_by_one(self._engine, self._next, cycles))

    def verify(self) -> None:
        """Every event is a step of an instance."""
        _same(self._places.run(steps(self._engine)), self._sent)


class ManySenders:
    """Each sends the next event to its own instance when its last one is committed."""

    def __init__(self, places: Places, store: str, senders: int) -> None:
        self._places = places
        self._names = names_of("ring", senders)
        self._engine = places.open(places.place(store))
        self._sent = 0
        places.run(create(self._engine, "Ring", self._names))

    def run(self, cycles: int) -> None:
        """Let each sender send that many events."""
        self._sent += cycles * len(self._names)
        self._places.run(self._all(cycles))

    def verify(self) -> None:
        """Every event is a step of an instance."""
        _same(self._places.run(steps(self._engine)), self._sent)

    async def _all(self, cycles: int) -> None:
        await asyncio.gather(*(self._one(name, cycles) for name in self._names))

    async def _one(self, name: str, cycles: int) -> None:
        engine = self._engine
        for _ in range(cycles):
            check([await engine.send(TENANT, name, GO, request_id=f"request-{next(REQUESTS)}")])


async def steps(engine: Engine) -> int:
    """How many steps the instances have made since they were created."""
    made, after = 0, None
    while page := await engine.list(InstanceQuery(tenant=TENANT, after=after)):
        made += sum(row.seq - 1 for row in page)
        after = page[-1].id
    return made


def _same(found: int, expected: int) -> None:
    if found != expected:
        raise WrongResult(f"{found} steps instead of {expected}")
