"""The journal: each line of an instance's history is chained to the one before it, and its row is sealed.

A hash says under which scheme it was made: which fields it covers, in which order. A new column is covered
by a new scheme; what was written under an older one still verifies. A hash without a number is of scheme 1.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from operator import attrgetter

from headway.codec import encode, replace
from headway.store.rows import HistoryRow, InstanceRow

BEGINNING = ""
"""What the first line of an instance is chained to."""
SCHEME = 2
"""The scheme of what is written now."""
FIRST_LINE = (
    "tenant", "instance", "seq", "row", "at", "event", "transition", "before", "after", "actor", "reason",
    "attempt", "data", "version", "note",
)  # fmt: skip
LINES: dict[int, Callable[[HistoryRow], object]] = {
    1: attrgetter(*FIRST_LINE),
    2: attrgetter(*FIRST_LINE, "since"),
}
"""The fields of a line of history that its hash covers, by scheme."""
FIRST_SEAL = (
    "tenant", "id", "chart", "version", "seq", "status", "ended", "parent", "owner", "created_at",
    "updated_at", "journal",
)  # fmt: skip
SEALS: dict[int, Callable[[InstanceRow], object]] = {
    1: attrgetter(*FIRST_SEAL),
    2: attrgetter(*FIRST_SEAL, "states", "since"),
}
"""The fields of an instance's row that its seal covers beside the snapshot, by scheme."""


def chained(last: str, line: HistoryRow) -> HistoryRow:
    """A line of history with its hash: chained to the line with the hash `last`."""
    return replace(line, hash=_line_hash(SCHEME, last, line))


def follows(line: HistoryRow, last: str) -> bool:
    """Whether a line is what was written after the hash `last`; no scheme follows a newer one."""
    scheme = _scheme(line.hash)
    if scheme not in LINES or scheme < _scheme(last):
        return False
    return line.hash == _line_hash(scheme, last, line)


def sealed(row: InstanceRow) -> InstanceRow:
    """A row of an instance with its seal: a hash of all of it."""
    return replace(row, seal=_seal(SCHEME, row))


def is_sealed(row: InstanceRow) -> bool:
    """Whether a row is what was written under its seal."""
    scheme = _scheme(row.seal)
    return scheme in SEALS and row.seal == _seal(scheme, row)


def _line_hash(scheme: int, last: str, line: HistoryRow) -> str:
    return _hash(scheme, last.encode() + encode(LINES[scheme](line)))


def _seal(scheme: int, row: InstanceRow) -> str:
    return _hash(scheme, encode(SEALS[scheme](row)) + row.snapshot.encode())


def _hash(scheme: int, covered: bytes) -> str:
    digest = sha256(covered).hexdigest()
    return digest if scheme == 1 else f"{scheme}:{digest}"


def _scheme(hash_: str) -> int:
    number, separator, _ = hash_.partition(":")
    return 1 if not separator else int(number) if number.isdecimal() else 0
