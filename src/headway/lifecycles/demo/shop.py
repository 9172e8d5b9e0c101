"""The shop: the demo's one handler, and the lifecycle as a whole."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from headway.lifecycle import Lifecycle
from headway.lifecycles.demo.chart import Purchase
from headway.worker import Fail, Handlers, Work

SLOWEST = 1.5
BUSY_SHARE = 6

handlers = Handlers()


@handlers
async def place_order(work: Work) -> str | Fail:
    """Order at a shop that takes its time, and now and then has none."""
    luck = int.from_bytes(sha256(f"{work.id}:{work.attempt}".encode()).digest()[:4])
    for part in range(1, 4):
        await asyncio.sleep(SLOWEST / 3 * luck / 2**32)
        work.progress(part / 3)
    if luck % BUSY_SHARE == 0:
        return Fail("SHOP_BUSY", "the shop is busy")
    return f"order {luck % 100_000:05d}"


lifecycle = Lifecycle([Purchase], handlers)
