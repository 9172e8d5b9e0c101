"""The raw limit: the next state looked up in a dict, with no guard, action, snapshot or effect."""

from collections.abc import Sequence


class DictRing:
    """A flat ring as a dict from (state, event) to state."""

    def __init__(self, size: int) -> None:
        self._table = {(f"s{number}", "go"): f"s{(number + 1) % size}" for number in range(size)}
        self._state = "s0"

    def run(self, events: Sequence[str], cycles: int) -> None:
        """Send the events in order, that many times over."""
        table, state = self._table, self._state
        for _ in range(cycles):
            for event in events:
                state = table[state, event]
        self._state = state

    def leafs(self) -> frozenset[str]:
        """The name of the current state."""
        return frozenset({self._state})

    def count(self) -> int:
        """Always 0: a bare look-up has no action."""
        return 0
