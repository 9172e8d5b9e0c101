"""Celery on Redis: a worker of several processes, and a Redis that keeps the jobs in memory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from celery import Celery
from redis import Redis

from bench.peers.waiting import until

# As its guide says for many short tasks: a large prefetch, and no results to keep.
WORKER = (
    "--pool=prefork",
    "--concurrency=2",
    "--prefetch-multiplier=128",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
    "--loglevel=ERROR",
)

app = Celery("bench")
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)


def no_op() -> None:
    """Do nothing."""


task = app.task(no_op, name="no_op")


def drain(count: int, place: str) -> float:
    """Seconds from the first job that is taken until none is left, neither waiting nor under way."""
    socket = str(Path(place) / "redis.sock")
    with _redis(socket) as redis:
        app.conf.broker_url = f"redis+socket://{socket}"
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(count):
                task.apply_async(producer=producer)
        with _worker(app.conf.broker_url):
            return _watch(redis, count)


@contextmanager
def _redis(socket: str) -> Iterator[Redis]:
    words = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            redis = Redis(unix_socket_path=socket)
            until(lambda: Path(socket).exists() and bool(redis.ping()))
            yield redis
        finally:
            server.terminate()


@contextmanager
def _worker(broker: str) -> Iterator[None]:
    words = [sys.executable, "-m", "celery", "-A", __name__, "-b", broker, "worker", *WORKER]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as worker:
        try:
            yield
        finally:
            worker.terminate()


def _watch(redis: Redis, count: int) -> float:
    until(lambda: _left(redis) < count or _taken(redis) > 0)
    begin = perf_counter()
    until(lambda: _left(redis) + _taken(redis) == 0)
    return perf_counter() - begin


def _left(redis: Redis) -> int:
    return int(redis.llen("celery"))


def _taken(redis: Redis) -> int:
    return int(redis.hlen("unacked"))
