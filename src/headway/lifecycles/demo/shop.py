"""The shop of the demo: the handler that orders, the simulated people who buy, and the lifecycle."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from random import Random

from headway import person
from headway.errors import EngineError, RefusedError
from headway.lifecycle import Lifecycle
from headway.lifecycles.demo.chart import Purchase
from headway.node import Service, Tenant
from headway.worker import Fail, Handlers, Work

SLOWEST = 1.5
BUSY_SHARE = 6
ITEMS = ("chair", "laptop", "lamp", "book", "monitor", "keyboard", "desk", "headset", "plant", "train ticket")
PEOPLE = ("ann", "ben", "cleo", "dan", "eve")
MANAGERS = (person("mia", "manager"), person("noah", "manager"))
LEFT_FOR_YOU = 5
"""Questions that the simulated managers leave open, so that you can answer them."""

handlers = Handlers()


@handlers
async def place_order(work: Work) -> str | Fail:
    """Order at a shop that is slow, and sometimes busy."""
    luck = int.from_bytes(sha256(f"{work.id}:{work.attempt}".encode()).digest()[:4])
    for part in range(1, 4):
        await asyncio.sleep(SLOWEST / 3 * luck / 2**32)
        work.progress(part / 3)
    if luck % BUSY_SHARE == 0:
        return Fail("SHOP_BUSY", "the shop is busy")
    return f"order {luck % 100_000:05d}"


class Traffic(Service):
    """Creates a purchase now and then, and answers the oldest open questions."""

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
        except (EngineError, RefusedError):
            self.tally["too late"] += 1


lifecycle = Lifecycle([Purchase], handlers)
