"""A relay with messages in the outbox, until it has delivered all of them."""

from collections.abc import Callable
from time import perf_counter

from bench.engine.places import Places
from bench.harness import WrongResult
from bench.trust.messages import publish, sample
from headway.outbox.destination import Destination
from headway.outbox.relay import Relay

FEW = 100


class Relaying:
    """Reads the outbox, delivers, and writes how far it is: the clock runs from first to last."""

    def __init__(self, places: Places, store: str, destination: Callable[[], Destination]) -> None:
        self._places = places
        self._engine = places.open(places.place(store))
        self._row = places.run(sample(self._engine))
        self._relay = Relay(self._engine, destination())
        places.at_end(lambda: places.run(self._relay.stop()))
        self._expected = 1
        self.run(FEW)  # the first delivery connects

    def run(self, cycles: int) -> float:
        """Deliver so many messages."""
        self._places.run(publish(self._engine, self._row, cycles))
        self._expected += cycles
        return self._places.run(self._deliver())

    def verify(self) -> None:
        """All have arrived, each once."""
        delivered, tried = self._relay.tally["delivered"], self._relay.tally["tried"]
        if (delivered, tried) != (self._expected, self._expected):
            raise WrongResult(f"{delivered} of {self._expected} messages, tried {tried} times")

    async def _deliver(self) -> float:
        begin = perf_counter()
        while await self._relay.turn():
            pass
        return perf_counter() - begin
