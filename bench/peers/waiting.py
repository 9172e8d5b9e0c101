"""Waiting for what another process or thread does."""

from collections.abc import Callable
from time import perf_counter, sleep

LOOK_EVERY = 0.01
LONGEST = 300


def until(reached: Callable[[], bool]) -> None:
    """Look again and again; raises TimeoutError when it takes too long."""
    end = perf_counter() + LONGEST
    while not reached():
        if perf_counter() > end:
            raise TimeoutError(f"not reached within {LONGEST} s")
        sleep(LOOK_EVERY)
