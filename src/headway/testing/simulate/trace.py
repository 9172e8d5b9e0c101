"""What happened in a simulation, in order: for people to read, and to compare two runs."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256


class Trace:
    """Lines with the virtual time and whose they are."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._lines: list[tuple[float, str, str]] = []

    def note(self, who: str, what: str) -> None:
        """Something has happened."""
        self._lines.append((self._time(), who, what))

    @property
    def lines(self) -> list[str]:
        """All lines as text."""
        return [f"{at:9.4f}  {who:10} {what}" for at, who, what in self._lines]

    @property
    def hash(self) -> str:
        """The same for two runs only if they are the same."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]
