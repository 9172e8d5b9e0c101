"""How soon after its commit a follower of the live log has an event."""

from collections.abc import Sequence
from statistics import quantiles
from time import perf_counter

from bench.engine.charts import GO, TENANT
from bench.engine.places import Places
from bench.engine.sends import check, create
from bench.harness import Row, WrongResult
from headway.engine.engine import Engine
from headway.engine.nodes import Announcer
from headway.engine.tail import Follower, Tail
from headway.store.rows import EventRow

RING = "ring"
MICROSECONDS = 1_000_000


class Following:
    """One sender and one follower, in one node or in two; the next event when the last has been seen."""

    def __init__(self, places: Places, case: str, *, store: str, apart: bool) -> None:
        self._places, self._case = places, case
        self._commits: list[float] = []
        self._waits: list[float] = []
        place = places.place(store)
        self._sender = places.open(place)
        reader = places.open(place) if apart else self._sender
        self._follower = places.run(self._begin(reader, apart=apart))

    def run(self, cycles: int) -> None:
        """Send so many events, and see each."""
        self._places.run(self._see(cycles))

    def verify(self) -> None:
        """Each event was the one that was sent, or `run` would have said so."""

    def report(self) -> Sequence[Row]:
        """How long a send took, and how long after that the follower had its event."""
        return [*self._rows("commit", self._commits), *self._rows("commit to follower", self._waits)]

    async def _begin(self, reader: Engine, *, apart: bool) -> Follower:
        await create(self._sender, "Ring", [RING])
        tail = Tail(reader)
        if apart:
            await reader.store.listen(lambda _topic: tail.wake())
            announcer = Announcer(self._sender)
            await announcer.start()
            self._places.at_end(lambda: self._places.run(announcer.stop()))
        await tail.start()
        self._places.at_end(lambda: self._places.run(tail.stop()))
        return await tail.follow().open()

    async def _see(self, cycles: int) -> None:
        for _ in range(cycles):
            begin = perf_counter()
            receipt = await self._sender.send(TENANT, RING, GO)
            committed = perf_counter()
            check([receipt])
            event = await anext(self._follower)
            seen = perf_counter()
            if not isinstance(event, EventRow) or event.line.seq != receipt.seq:  # type: ignore[union-attr]  # checked above
                raise WrongResult(f"{event} was seen, another step was sent")
            self._commits.append(committed - begin)
            self._waits.append(seen - committed)

    def _rows(self, what: str, seconds: Sequence[float]) -> list[Row]:
        cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [seconds[0]] * 99
        spread = (cuts[74] - cuts[24]) / cuts[49]
        return [
            Row(self._case, f"{what}, p50", cuts[49] * MICROSECONDS, "us", spread),
            Row(self._case, f"{what}, p99", cuts[98] * MICROSECONDS, "us", 0.0),
        ]
