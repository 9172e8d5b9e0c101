"""`python -m bench.engine.memory ADDRESS SIZE SENDS`: the most memory that a process takes among sleepers."""

import asyncio
import json
import random
import sys
from pathlib import Path

from bench.engine.places import place_at
from bench.engine.sends import name_of, one_by_one
from headway.worker.timers import Timers

KIB_IN_MIB = 1_024


async def _visit(address: str, size: int, sends: int) -> None:
    some = iter(random.Random(2).sample(range(size), sends))
    async with place_at(address).engine() as engine:
        await one_by_one(engine, lambda: name_of("sleeper", next(some)), sends, word="memory")
        timers = Timers(engine)
        await timers.turn()
        await timers.stop()


def peak() -> float:
    """In MiB. What `getrusage` tells is not less than what the parent had when it started this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) / KIB_IN_MIB


if __name__ == "__main__":
    asyncio.run(_visit(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    print(json.dumps({"peak": peak()}))
