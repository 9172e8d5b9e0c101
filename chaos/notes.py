"""What processes note down for the auditor: a line each, in a pipe that outlives them."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple


class Note(NamedTuple):
    """Something that a process saw at a time that all processes of a machine agree on."""

    at: int
    who: str
    what: str
    facts: dict[str, Any]


class Pen:
    """Writes the notes of one process; whatever kills it, a note is whole or not there."""

    def __init__(self, who: str, pipe: int = 1) -> None:
        self._who, self._pipe = who, pipe

    def note(self, what: str, **facts: Any) -> None:
        """Note something down, now."""
        line = json.dumps((time.monotonic_ns(), self._who, what, facts)) + "\n"
        os.write(self._pipe, line.encode())


def read(line: bytes) -> Note:
    """A note as it was written."""
    return Note(*json.loads(line))


class Notes(list[Note]):
    """All notes of a run."""

    def of(self, *kinds: str) -> list[Note]:
        """The notes of some kinds, in the order in which they were made."""
        return sorted((note for note in self if note.what in kinds), key=lambda note: note.at)

    def by(self, fact: str, *kinds: str) -> dict[Any, list[Note]]:
        """The notes of some kinds, by one of their facts."""
        return grouped(self.of(*kinds), fact)


def grouped(notes: Iterable[Note], fact: str) -> dict[Any, list[Note]]:
    """Notes by one of their facts."""
    groups = defaultdict(list)
    for note in notes:
        groups[note.facts[fact]].append(note)
    return dict(groups)
