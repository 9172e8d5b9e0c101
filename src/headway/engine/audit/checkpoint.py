"""A checkpoint: where the journals of all instances end, to be kept outside the database.

With it an audit finds what a database alone cannot show: an instance that was set back to an earlier row
together with its last lines, or that was deleted with all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256

from headway.codec import Value, decode, encode
from headway.errors import InputError
from headway.store.port import Store
from headway.store.rows import Cursor, InstanceRow, Key

PAGE = 500
FORMAT = 1


class Head(Value):
    """Where the journal of one instance ended: the hash of its last line, and the place of it in the log."""

    tenant: str
    instance: str
    created_at: datetime
    seq: int
    ended: bool
    journal: str
    log: tuple[int, int]


class Begin(Value):
    """The first line: when the checkpoint was made."""

    format: int
    at: datetime


class End(Value):
    """The last line: how many instances there are, and a hash of all lines before."""

    instances: int
    hash: str


def lines_of(heads: Sequence[Head], at: datetime) -> Iterator[bytes]:
    """The lines of a checkpoint."""
    digest = sha256()
    for value in (Begin(FORMAT, at), *heads):
        line = encode(value)
        digest.update(line)
        yield line
    yield encode(End(len(heads), digest.hexdigest()))


class Checkpoint:
    """A checkpoint that was read, with which an audit compares the database."""

    def __init__(self, heads: dict[Key, Head]) -> None:
        self._heads = heads
        self.pruned = 0
        """How many of its instances are gone, and may have been pruned."""

    @classmethod
    def read(cls, text: Iterable[bytes]) -> Checkpoint:
        """Read the lines of a checkpoint; raises InputError for one that is not whole."""
        lines = [line.strip() for line in text if line.strip()]
        try:
            begin, end = decode(Begin, lines[0]), decode(End, lines[-1])
            heads = [decode(Head, line) for line in lines[1:-1]]
        except (IndexError, InputError) as error:
            raise InputError("this is not a checkpoint of an audit, or a part of it is missing") from error
        if begin.format != FORMAT:
            raise InputError(f"the checkpoint has format {begin.format}; this version reads {FORMAT}")
        if (len(heads), sha256(b"".join(lines[:-1])).hexdigest()) != (end.instances, end.hash):
            raise InputError("the checkpoint was changed, or a part of it is missing")
        return cls({(head.tenant, head.instance): head for head in heads})

    def head(self, key: Key, row: InstanceRow | None) -> Head | None:
        """Where an instance was; None for one that is new under its name."""
        head = self._heads.get(key)
        return head if head is not None and _is_same(head, row) else None

    async def gone(self, store: Store) -> AsyncIterator[Head]:
        """The instances that are gone though the engine has not pruned them; the others are counted."""
        keys = [*self._heads]
        for start in range(0, len(keys), PAGE):
            wanted = keys[start : start + PAGE]
            known = {(row.tenant, row.id): row for row in await store.instances.look_up(wanted)}
            # It is read last: an instance goes with the commit that notes how far the log was pruned.
            forgotten = await store.events.forgotten()
            for head in (self._heads[key] for key in wanted):
                if _is_same(head, known.get((head.tenant, head.instance))):
                    continue
                if _may_be_pruned(head, forgotten):
                    self.pruned += 1
                else:
                    yield head


def _is_same(head: Head, row: InstanceRow | None) -> bool:
    return row is not None and row.created_at == head.created_at


def _may_be_pruned(head: Head, forgotten: Cursor) -> bool:
    """Whether the log was pruned up to the last line of an instance: later than then, if it lived then."""
    last = Cursor(*head.log)
    return forgotten >= last if head.ended else forgotten > last
