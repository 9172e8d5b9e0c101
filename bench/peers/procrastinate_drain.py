"""procrastinate: jobs are rows of PostgreSQL, fetched one by one by concurrent tasks of one worker."""

import asyncio
from time import perf_counter

from procrastinate import App, PsycopgConnector

# Where its rate stops growing on two cores; the pool has a connection for each job that runs.
CONCURRENCY = 5


async def no_op() -> None:
    """Do nothing."""


def drain(count: int, place: str) -> float:
    """Seconds from the start of the worker until it has caught up with the queue."""
    return asyncio.run(_drain(count, place))


async def _drain(count: int, address: str) -> float:
    app = App(connector=PsycopgConnector(conninfo=address, min_size=CONCURRENCY, max_size=CONCURRENCY + 2))
    task = app.task(no_op)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*({} for _ in range(count)))
        begin = perf_counter()
        await app.run_worker_async(wait=False, concurrency=CONCURRENCY, install_signal_handlers=False)
        elapsed = perf_counter() - begin
        left = await app.job_manager.list_jobs_async(status="todo")
    if left:
        raise RuntimeError("the worker has left jobs undone")
    return elapsed
