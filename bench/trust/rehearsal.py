"""`python -m bench.trust.rehearsal ADDRESS`: rehearse an upgrade of all that lives there."""

import asyncio
import json
import sys
from time import perf_counter

from bench.engine.memory import peak
from bench.trust.rehearsing import engine_at
from headway.engine.upgrade.rehearsal import rehearse


async def _rehearse(address: str) -> dict[str, float]:
    async with engine_at(address) as engine:
        begin = perf_counter()
        found = await rehearse(engine, "Claim", 2)
        seconds = perf_counter() - begin
    return {"instances": found.instances, "seconds": seconds, "peak": peak()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_rehearse(sys.argv[1]))))
