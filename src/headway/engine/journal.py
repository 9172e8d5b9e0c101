"""The journal: each line of an instance's history is chained to the one before it, and its row is sealed.

A hash says under which scheme it was made: which fields it covers, in which order. A new column is covered
by a new scheme; what was written under an older one still verifies. A hash without a number is of scheme 1.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from headway.codec import encode
from headway.store.rows import HistoryRow, InstanceRow

BEGINNING = ""
"""What the first line of an instance is chained to."""
SCHEME = 2
"""The scheme of what is written now."""
FIRST_LINE = (
    "tenant", "instance", "seq", "row", "at", "event", "transition", "before", "after", "actor", "reason",
    "attempt", "data", "version", "note",
)  # fmt: skip
LINES: dict[int, tuple[str, ...]] = {1: FIRST_LINE, 2: (*FIRST_LINE, "since")}
"""The fields of a line of history that its hash covers, by scheme."""
FIRST_SEAL = (
    "tenant", "id", "chart", "version", "seq", "status", "ended", "parent", "owner", "created_at",
    "updated_at", "journal",
)  # fmt: skip
SEALS: dict[int, tuple[str, ...]] = {1: FIRST_SEAL, 2: (*FIRST_SEAL, "states", "since")}
"""The fields of an instance's row that its seal covers beside the snapshot, by scheme."""


def chained(last: str, /, **fields: Any) -> HistoryRow:
    """A line of history, chained to the one with the hash `last`; its fields come in the order of LINES."""
    return HistoryRow(**fields, hash=_hash(SCHEME, last.encode() + encode([*fields.values()])))


def follows(line: HistoryRow, last: str) -> bool:
    """Whether a line is what was written after the hash `last`; no scheme follows a newer one."""
    scheme = _scheme(line.hash)
    if scheme not in LINES or scheme < _scheme(last):
        return False
    return line.hash == _hash(scheme, last.encode() + encode([getattr(line, name) for name in LINES[scheme]]))


def sealed(snapshot: bytes, /, **fields: Any) -> InstanceRow:
    """A row of an instance, sealed by a hash of all of it; its fields come in the order of SEALS."""
    seal = _hash(SCHEME, encode([*fields.values()]) + snapshot)
    return InstanceRow(**fields, snapshot=snapshot.decode(), seal=seal)


def is_sealed(row: InstanceRow) -> bool:
    """Whether a row is what was written under its seal."""
    scheme = _scheme(row.seal)
    if scheme not in SEALS:
        return False
    covered = encode([getattr(row, name) for name in SEALS[scheme]]) + row.snapshot.encode()
    return row.seal == _hash(scheme, covered)


def _hash(scheme: int, covered: bytes) -> str:
    digest = sha256(covered).hexdigest()
    return digest if scheme == 1 else f"{scheme}:{digest}"


def _scheme(hash_: str) -> int:
    number, separator, _ = hash_.partition(":")
    return 1 if not separator else int(number) if number.isdecimal() else 0
