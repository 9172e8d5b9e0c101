"""What it costs a send that each line of history is chained to the one before it, and each row sealed."""

from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import NamedTuple
from unittest.mock import patch

from bench.engine.places import Places
from bench.engine.senders import ManySenders
from bench.harness import Row
from headway.codec import replace
from headway.engine import commit
from headway.engine.journal import chained, sealed
from headway.store.rows import HistoryRow, InstanceRow

SENDS = "sends/s of processor time"
WITH, WITHOUT = "sends, chained", "sends, not chained"
NO_HASH = "0" * 64


class Sending:
    """Many senders; what counts is the time of the processor, because that is what a hash takes.

    They send in turns with the chain and without it, on the same instances: a machine that grows slower or
    quicker meanwhile does so for both. Without the chain lines and rows get a constant instead of a hash: the
    engine itself has no such switch.
    """

    def __init__(self, places: Places, store: str, senders: int) -> None:
        self._case, self._count = f"{store}, chain", senders
        self._senders = ManySenders(places, store, senders)
        self._bare: list[float] = []

    def run(self, cycles: int) -> float:
        """Let each sender send that many events in either way; the seconds that the chained ones take.

        A turn counts as much as the median one: what else happens in a turn is no matter of hashes.
        """
        turns: dict[Way, list[float]] = {HASHED: [], BARE: []}
        for turn in range(cycles):
            for way in (HASHED, BARE) if turn % 2 else (BARE, HASHED):
                with patch.multiple(commit, chained=way.chained, sealed=way.sealed):
                    begin = process_time()
                    self._senders.run(1)
                    turns[way].append(process_time() - begin)
        self._bare.append(self._count / median(turns[BARE]))
        return cycles * median(turns[HASHED])

    def verify(self) -> None:
        """Every event is a step of an instance."""
        self._senders.verify()

    def report(self) -> Sequence[Row]:
        """The rate of those that were not chained."""
        rate = median(self._bare)
        return [Row(self._case, WITHOUT, rate, SENDS, (max(self._bare) - min(self._bare)) / rate)]


def _unchained(_last: str, line: HistoryRow) -> HistoryRow:
    return replace(line, hash=NO_HASH)


def _unsealed(row: InstanceRow) -> InstanceRow:
    return replace(row, seal=NO_HASH)


class Way(NamedTuple):
    """How lines and rows are made."""

    chained: Callable[[str, HistoryRow], HistoryRow]
    sealed: Callable[[InstanceRow], InstanceRow]


HASHED, BARE = Way(chained, sealed), Way(_unchained, _unsealed)
