"""What it costs a send that each line of history is chained to the one before it."""

from time import process_time
from typing import Any
from unittest.mock import patch

from bench.engine.places import Places
from bench.engine.senders import ManySenders
from headway.engine import commit
from headway.engine.journal import chained
from headway.store.rows import HistoryRow


class Sending:
    """Many senders; what counts is the time of the processor, because that is what a hash takes.

    Without the chain lines get a constant instead of a hash: the engine itself has no such switch.
    """

    def __init__(self, places: Places, store: str, senders: int, *, chains: bool) -> None:
        self._senders = ManySenders(places, store, senders)
        self._chained = chained if chains else _unchained

    def run(self, cycles: int) -> float:
        """Let each sender send that many events."""
        with patch.object(commit, "chained", self._chained):
            begin = process_time()
            self._senders.run(cycles)
            return process_time() - begin

    def verify(self) -> None:
        """Every event is a step of an instance."""
        self._senders.verify()


def _unchained(_before: str, *fields: Any) -> HistoryRow:
    return HistoryRow(*(*fields, "0" * 64))
