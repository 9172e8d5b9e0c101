"""DBOS: workflows are rows of PostgreSQL, taken from its queue by one process with many threads."""

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from dbos import DBOS, DBOSClient

from bench.peers.waiting import until

QUEUE = "bench"
SENDERS = 8
# Where its rate is best on two cores; by default it would start a thread for every workflow there is.
AT_ONCE = 50


def drain(count: int, place: str) -> float:
    """Seconds from the first workflow that runs until all have succeeded."""
    address = place.replace("postgresql://", "postgresql+psycopg://", 1)
    done: list[None] = []

    def no_op() -> None:
        done.append(None)

    DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})
    DBOS.workflow(name="no_op")(no_op)
    DBOS.launch()
    client = DBOSClient(system_database_url=address, application_name="bench")
    _fill(client, count)
    DBOS.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=0.02)
    until(lambda: bool(done))
    begin = perf_counter()
    until(lambda: len(done) == count and not client.list_queued_workflows(limit=1))
    elapsed = perf_counter() - begin
    client.destroy()
    DBOS.destroy()
    return elapsed


def _fill(client: DBOSClient, count: int) -> None:
    """Enqueue before anyone listens to the queue."""
    with ThreadPoolExecutor(SENDERS) as pool:
        for sent in [
            pool.submit(client.enqueue, {"queue_name": QUEUE, "workflow_name": "no_op"}) for _ in range(count)
        ]:
            sent.result()
