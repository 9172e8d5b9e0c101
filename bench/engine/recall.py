"""What PostgreSQL's memory of instances saves: sends with it and without it, in turns.

usage: python -m bench.engine.recall [--rounds 7] [--seconds 3]

Without it, `NodeMemory.recall` never answers, so each unit reads before it decides, as for an instance that
the node does not know yet. Nothing else changes, and the store needs no setting for it.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from time import perf_counter
from unittest.mock import patch

from bench.engine.places import Places
from bench.engine.senders import ManySenders, OneSender
from headway.store.postgres.memory import NodeMemory

SENDERS = 256
INSTANCES = 64
Sender = OneSender | ManySenders


@contextmanager
def without_memory() -> Iterator[None]:
    """Let no unit decide on what the node remembers."""
    with patch.object(NodeMemory, "recall", lambda _memory, _wanted: None):
        yield


def rate(sender: Sender, cycles: int, senders: int) -> float:
    """Sends a second."""
    begun = perf_counter()
    sender.run(cycles)
    return cycles * senders / (perf_counter() - begun)


def compare(sender: Sender, senders: int, *, rounds: int, seconds: float) -> dict[str, list[float]]:
    """The rates of each round, with and without the memory; which comes first alternates."""
    sender.run(4)
    cycles = max(4, round(rate(sender, 4, senders) * seconds / senders))
    ways: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "with": nullcontext,
        "without": without_memory,
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in sorted(ways, reverse=bool(number % 2)):
            with ways[name]():
                rates[name].append(rate(sender, cycles, senders))
    sender.verify()
    return rates


def main() -> None:
    """Write the medians of all rounds, and their ranges."""
    parser = ArgumentParser(prog="python -m bench.engine.recall", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    asked = parser.parse_args()
    places = Places()
    try:
        for senders in (SENDERS, 1):
            sender: Sender = (
                OneSender(places, "postgres", INSTANCES)
                if senders == 1
                else ManySenders(places, "postgres", senders)
            )
            rates = compare(sender, senders, rounds=asked.rounds, seconds=asked.seconds)
            for name, each in rates.items():
                span = f"{min(each):,.0f} to {max(each):,.0f}"
                sys.stdout.write(f"{senders} senders, {name} memory: {median(each):,.0f}/s ({span})\n")
            gain = median(rates["with"]) / median(rates["without"])
            sys.stdout.write(f"{senders} senders: {gain:.2f} times as many\n")
    finally:
        places.close()


if __name__ == "__main__":
    main()
