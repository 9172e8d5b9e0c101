"""A database for upgrades, and engines on it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from headway import Event
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.engine.upgrade.rehearsal import Rehearsal, rehearse
from headway.statechart.chart import Charted
from headway.store.address import store_at
from headway.testing import FakeClock
from tests.upgrade.lives import ANN, BOB, Expense

T = "acme"


class World:
    """A database, and engines on it that know some versions."""

    def __init__(self, address: str) -> None:
        self.address, self.clock = address, FakeClock()

    @asynccontextmanager
    async def engine(self, *charts: Charted) -> AsyncIterator[Engine]:
        """An engine that runs these charts."""
        async with Engine(store_at(self.address, clock=self.clock), charts) as engine:
            yield engine

    async def fill(self, count: int = 9, tenant: str = T) -> None:
        """Claims in draft, in review and in payment, a third each."""
        async with self.engine(Expense) as engine:
            for number in range(count):
                await went(engine.create(tenant, f"e{number}", "Expense"))
                if number % 3:
                    await went(engine.send(tenant, f"e{number}", Event("submit", by=ANN)))
                if number % 3 == 2:
                    await went(engine.send(tenant, f"e{number}", Event("approve", by=BOB)))

    async def rehearsal(self, chart: Charted, **options: Any) -> Rehearsal:
        """A rehearsal by a program that knows the new version alone."""
        engine = Engine(store_at(self.address, clock=self.clock))
        engine.charts.add(chart)
        await engine.store.open()
        try:
            return await rehearse(engine, chart.chart.name, chart.chart.version, **options)
        finally:
            await engine.store.close()


async def went(answer: Awaitable[object]) -> Receipt:
    """The receipt of a call that went through."""
    receipt = await answer
    assert isinstance(receipt, Receipt), receipt
    return receipt


Played = Callable[[Callable[[World], Awaitable[None]]], None]


def counts(rehearsal: Rehearsal) -> dict[str, int]:
    """How many instances are what."""
    return {name: tally.count for name, tally in rehearsal.fitness.items()}
