"""The journal: each line of an instance's history is chained to the one before it, and its row is sealed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from headway.codec import encode
from headway.store.rows import HistoryRow, InstanceRow

BEGINNING = ""
"""What the first line of an instance is chained to."""
CHAINED = HistoryRow.__struct_fields__[: HistoryRow.__struct_fields__.index("hash")]
"""The fields of a line that its hash covers: all but the hash itself and the place in the log."""
SEALED = InstanceRow.__struct_fields__[: InstanceRow.__struct_fields__.index("snapshot")]
"""The fields of an instance's row that its seal covers, beside the snapshot."""


def chained(before: str, *fields: Any) -> HistoryRow:
    """A line of history with these fields, chained to the one before it."""
    digest = sha256(before.encode() + encode(fields)).hexdigest()
    return HistoryRow(*(*fields, digest))


def follows(line: HistoryRow, before: str) -> bool:
    """Whether a line is what was written after the one with this hash."""
    return chained(before, *(getattr(line, name) for name in CHAINED)).hash == line.hash


def sealed(snapshot: bytes, *fields: Any) -> InstanceRow:
    """A row of an instance with these fields and this snapshot, sealed by a hash of all of it."""
    seal = sha256(encode(fields) + snapshot).hexdigest()
    return InstanceRow(*(*fields, snapshot.decode(), seal))


def is_sealed(row: InstanceRow) -> bool:
    """Whether a row is what was written under its seal."""
    return sealed(row.snapshot.encode(), *(getattr(row, name) for name in SEALED)).seal == row.seal
