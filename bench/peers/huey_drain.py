"""huey: jobs are rows of SQLite, taken one by one; as durable as Headway (`fsync`)."""

from pathlib import Path
from threading import Event
from time import perf_counter

from huey import SqliteHuey

# One writer at a time is all that SQLite knows: more workers only wait for each other.
WORKERS = 1


class Counted:
    """Counts the jobs that were run, and tells when all are done."""

    def __init__(self, total: int) -> None:
        self.left = total
        self.done = Event()

    def run(self) -> None:
        """Do nothing."""
        self.left -= 1
        if self.left == 0:
            self.done.set()


def drain(count: int, place: str) -> float:
    """Seconds from the start of the consumer until the last job is done."""
    path = str(Path(place) / "huey.db")
    counted = Counted(count)
    _fill(path, count, counted)
    huey = SqliteHuey("bench", filename=path, fsync=True)
    huey.task(name="no_op")(counted.run)
    consumer = huey.create_consumer(workers=WORKERS, initial_delay=0.001, periodic=False)
    begin = perf_counter()
    consumer.start()
    counted.done.wait()
    elapsed = perf_counter() - begin
    consumer.stop(graceful=True)
    return elapsed


def _fill(path: str, count: int, counted: Counted) -> None:
    """Enqueue without waiting for the disk: this is not measured."""
    huey = SqliteHuey("bench", filename=path, fsync=False)
    task = huey.task(name="no_op")(counted.run)
    for _ in range(count):
        task()
    huey.storage.close()
