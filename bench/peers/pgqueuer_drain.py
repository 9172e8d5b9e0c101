"""pgqueuer: jobs are rows of PostgreSQL, taken and deleted in batches."""

import asyncio
from time import perf_counter

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

# Where its rate is best on two cores; its default is 10.
BATCH = 500
INSERTED_AT_ONCE = 5_000


class Counted:
    """Counts the jobs that were run."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self, _job: Job) -> None:
        """Do nothing."""
        self.count += 1


def drain(count: int, place: str) -> float:
    """Seconds from the start of the worker until the queue is empty."""
    return asyncio.run(_drain(count, place))


async def _drain(count: int, address: str) -> float:
    async with asyncpg.create_pool(address, min_size=4, max_size=4) as pool:
        queue = PgQueuer(AsyncpgPoolDriver(pool))
        await queue.qm.queries.install()
        done = Counted()
        queue.entrypoint("no_op")(done.run)
        for first in range(0, count, INSERTED_AT_ONCE):
            many = min(INSERTED_AT_ONCE, count - first)
            await queue.qm.queries.enqueue(["no_op"] * many, [None] * many, [0] * many)
        begin = perf_counter()
        await queue.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
        elapsed = perf_counter() - begin
    if done.count != count:
        raise RuntimeError(f"{done.count} jobs of {count} were run")
    return elapsed
