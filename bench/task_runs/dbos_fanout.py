"""DBOS: a workflow that puts many workflows into a queue and waits for all of them."""

from time import perf_counter

from dbos import DBOS

from bench.peers.dbos_drain import AT_ONCE, QUEUE


def fan_out(count: int, place: str) -> float:
    """Seconds from the start of the workflow until it has the results of all."""
    address = place.replace("postgresql://", "postgresql+psycopg://", 1)
    DBOS(config={"name": "fanout", "system_database_url": address, "log_level": "ERROR"})

    def nothing() -> None:
        """Do nothing."""

    no_op = DBOS.workflow(name="no_op")(nothing)

    def all_of_them() -> int:
        handles = [DBOS.enqueue_workflow(QUEUE, no_op) for _ in range(count)]
        return sum(handle.get_result() is None for handle in handles)

    everything = DBOS.workflow(name="all")(all_of_them)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=0.02)
    begin = perf_counter()
    found: int = everything()
    elapsed = perf_counter() - begin
    DBOS.destroy()
    if found != count:
        raise ValueError(f"{found} instead of {count}")
    return elapsed
