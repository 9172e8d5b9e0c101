"""A sender: begins lives and sends them events, each with a request id, until each is answered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain, count
from random import Random

from chaos.berth import TENANT, Berth, patiently
from chaos.charts import PARENTS, Errand
from headway import Event, Refusal, person
from headway.engine.engine import Engine
from headway.engine.orders import Answer
from headway.errors import EngineError, StoreError

LANES = 3
LONGEST_PAUSE = 0.15
REPEATS = 0.2
ORDERS = 0.25
LATE = 0.2
CLERK = person("ann", "clerk")


class Journey:
    """A life and what is sent to it: the same whoever takes it up again."""

    def __init__(self, name: str, random: Random) -> None:
        self.instance = name
        self.random = random
        is_order = random.random() < ORDERS
        self.chart = random.choice(PARENTS) if is_order else Errand
        self.events = [*_order(random)] if is_order else [*_errand(random)]


def _order(random: Random) -> Iterator[str]:
    yield from ("more",) * random.randrange(3)


def _errand(random: Random) -> Iterator[str]:
    yield from ("note",) * random.randrange(4)
    yield random.choices(("approve", "refuse", "nothing"), (8, 1, 1))[0]
    if random.random() < LATE:
        yield random.choice(("stop", "note", "approve"))


class Sender:
    """Takes journeys one after the other; what its predecessor left behind comes first."""

    def __init__(self, berth: Berth, engine: Engine) -> None:
        self._berth, self._engine = berth, engine
        self._numbers = chain(berth.setting.again, count(berth.setting.first))

    async def walk(self) -> None:
        """Take journeys until it is time to end; the last one is finished."""
        again = {*self._berth.setting.again}
        for number in self._numbers:
            if self._berth.control.ending and number not in again:
                return
            await self._travel(number)

    async def _travel(self, number: int) -> None:
        pen, name = self._berth.pen, f"{self._berth.setting.name}-{number}"
        journey = Journey(name, self._berth.random(number))
        pen.note("sets out", number=number)
        begin = lambda: self._engine.create(  # noqa: E731 - the call is made again until it is answered
            TENANT, name, journey.chart, by=CLERK, request_id=name
        )
        await self._ask(name, "start", begin, journey)
        for place, event in enumerate(journey.events):
            await asyncio.sleep(journey.random.uniform(0, LONGEST_PAUSE))
            await self._ask(f"{name}/{place}", event, self._sending(f"{name}/{place}", event, name), journey)
        pen.note("arrives", number=number)

    def _sending(self, request: str, event: str, name: str) -> Callable[[], Awaitable[Answer]]:
        sent = Event(event, {"request": request}, by=CLERK)
        return lambda: self._engine.send(TENANT, name, sent, request_id=request)

    async def _ask(
        self, request: str, event: str, call: Callable[[], Awaitable[Answer]], journey: Journey
    ) -> None:
        """Ask until there is an answer, and sometimes again."""
        pen = self._berth.pen
        for _ in range(1 + (journey.random.random() < REPEATS)):
            pen.note("asks", request=request, instance=journey.instance, event=event)
            try:
                told = _told(await patiently(lambda: self._doubting(request, call)))
            except EngineError as error:
                told = {"error": f"{type(error).__name__}: {error}"}
            pen.note("is told", request=request, **told)

    async def _doubting(self, request: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            return await call()
        except StoreError as error:
            self._berth.pen.note("doubts", request=request, error=type(error).__name__)
            raise


def _told(answer: Answer) -> dict[str, object]:
    if isinstance(answer, Refusal):
        return {"refused": answer.code}
    return {"seq": answer.seq, "states": [*answer.states]}


async def run(berth: Berth) -> None:
    """Send until it is time to end."""
    engine = await berth.engine()
    sender = Sender(berth, engine)
    await asyncio.gather(*(sender.walk() for _ in range(LANES)))
    await engine.close()
