"""Traffic for the demo: people who wish for things, and managers who mostly say yes."""

from __future__ import annotations

from random import Random

from headway import person
from headway.errors import EngineError
from headway.lifecycles.demo.chart import Purchase
from headway.node import Service, Tenant

ITEMS = ("chair", "laptop", "lamp", "book", "monitor", "keyboard", "desk", "headset", "plant", "train ticket")
PEOPLE = ("ann", "ben", "cleo", "dan", "eve")
MANAGERS = (person("mia", "manager"), person("noah", "manager"))
LEFT_FOR_YOU = 5
"""So many questions are left open, for whoever looks at the demo to answer."""


class Traffic(Service):
    """Begins a purchase now and then, and answers those that have waited for longest."""

    name = "demo traffic"
    longest_rest = 1.0

    def __init__(self, tenant: Tenant, *, seed: int = 1) -> None:
        super().__init__()
        self._tenant = tenant
        # Nobody has to guess it: it makes up wishes.
        self._random = Random(seed)  # noqa: S311 - see above

    async def turn(self) -> bool:
        """One wish, and perhaps an answer."""
        await self._wish()
        await self._decide()
        return False

    async def rest(self) -> float:
        """People do not come at regular times."""
        return self._random.uniform(0.3, self.longest_rest)

    async def _wish(self) -> None:
        employee = self._random.choice(PEOPLE)
        wanted = {
            "item": self._random.choice(ITEMS),
            "price": self._random.choice((15, 40, 80, 120, 300, 900)),
            "employee": employee,
        }
        self.tally["wishes"] += 1
        await self._tenant.create(Purchase, context=wanted, by=person(employee, "employee"))

    async def _decide(self) -> None:
        manager = self._random.choice(MANAGERS)
        asks = await self._tenant.inbox(manager, limit=LEFT_FOR_YOU + 1)
        if len(asks) <= LEFT_FOR_YOU:
            return
        answer = "approve" if self._random.random() < 0.8 else "reject"  # noqa: PLR2004 - four in five
        self.tally[answer] += 1
        try:
            await self._tenant.answer(asks[0].id, answer, by=manager)
        except EngineError:
            self.tally["too late"] += 1
