"""Sending events to an engine: what every case of the suite does in the end."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from bench.engine.charts import GO, TENANT
from bench.harness import WrongResult
from headway.engine.engine import Engine
from headway.engine.orders import Answer, Receipt

AT_ONCE = 512
REQUESTS = count()


async def create(engine: Engine, chart: str, names: Sequence[str]) -> None:
    """Create instances, many in a transaction."""
    for some in _pages(names):
        check(await asyncio.gather(*(engine.create(TENANT, name, chart) for name in some)))


async def flood(engine: Engine, names: Sequence[str]) -> None:
    """Send an event to each name, many in a transaction."""
    for some in _pages(names):
        check(await asyncio.gather(*(engine.send(TENANT, name, GO) for name in some)))


async def one_by_one(engine: Engine, pick: Callable[[], str], cycles: int, *, word: str = "request") -> None:
    """One sender, one event at a time, each with a request id of its own."""
    for _ in range(cycles):
        check([await engine.send(TENANT, pick(), GO, request_id=f"{word}-{next(REQUESTS)}")])


def check(answers: Sequence[Answer]) -> None:
    """Raise WrongResult unless every event went through."""
    for answer in answers:
        if not isinstance(answer, Receipt):
            raise WrongResult(f"refused: {answer}")


def name_of(word: str, number: int) -> str:
    """The name of an instance."""
    return f"{word}-{number:07}"


def names_of(word: str, number: int) -> list[str]:
    """Names of instances, from 0 on."""
    return [name_of(word, each) for each in range(number)]


def _pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), AT_ONCE):
        yield names[first : first + AT_ONCE]
