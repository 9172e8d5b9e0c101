"""Celery: a chord on Redis, whose callback runs when all tasks of its group have ended."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from celery import Celery, chord

from bench.peers.celery_drain import WORKER, _redis
from bench.peers.waiting import until

LONGEST = 200
app = Celery("fanout")
app.conf.update(broker_connection_retry_on_startup=True, result_chord_join_timeout=LONGEST)


def no_op() -> None:
    """Do nothing."""


def count_all(results: list[None]) -> int:
    """What the callback of the chord brings out."""
    return len(results)


task = app.task(no_op, name="nothing")
callback = app.task(count_all, name="count_all")


def fan_out(count: int, place: str) -> float:
    """Seconds from the call of the chord until its callback has ended; the worker runs before."""
    socket = str(Path(place) / "redis.sock")
    with _redis(socket):
        app.conf.broker_url = f"redis+socket://{socket}"
        app.conf.result_backend = f"redis+socket://{socket}"
        with _worker(socket):
            until(lambda: bool(app.control.ping(timeout=0.2)))
            begin = perf_counter()
            last = chord([task.s() for _ in range(count)])(callback.s())
            # Propagating asks for the state of every task of the group again and again while it waits.
            found = last.get(timeout=LONGEST, propagate=False)
            elapsed = perf_counter() - begin
    if found != count:
        raise ValueError(f"{found} instead of {count}")
    return elapsed


@contextmanager
def _worker(socket: str) -> Iterator[None]:
    url = f"redis+socket://{socket}"
    words = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        __name__,
        "-b",
        url,
        "--result-backend",
        url,
        "worker",
        *WORKER,
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as worker:
        try:
            yield
        finally:
            worker.terminate()
