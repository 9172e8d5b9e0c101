"""The journal: each line of an instance's history is chained to the one before it by a hash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any

from headway.codec import Value, encode
from headway.store.port import Store
from headway.store.rows import HistoryRow, Key

PAGE = 500
BEGINNING = ""
"""What the first line of an instance is chained to."""
COVERED = 15
"""How many fields of a line its hash covers: all but the hash itself and the place in the log."""


def chained(before: str, *fields: Any) -> HistoryRow:
    """A line of history with these fields, chained to the one before it."""
    digest = sha256(before.encode() + encode(fields)).hexdigest()
    return HistoryRow(*(*fields, digest))


def follows(line: HistoryRow, before: str) -> bool:
    """Whether a line is what was written after the one with this hash."""
    fields = tuple(getattr(line, name) for name in HistoryRow.__struct_fields__[:COVERED])
    return chained(before, *fields).hash == line.hash


class Flaw(Value):
    """Something in a journal that was not written by the engine."""

    tenant: str
    instance: str
    seq: int
    what: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.tenant}/{self.instance} at {self.seq}: {self.what}"


class Audit:
    """Goes through journals and finds what was changed, taken out, put in or moved."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.instances = 0
        self.lines = 0

    async def everything(self) -> AsyncIterator[Flaw]:
        """The flaws of all instances of all tenants."""
        async for key in _all(self._store.journals):
            async for flaw in self.instance(key):
                yield flaw
        async for key in _all(self._store.names):
            # The instance is looked for last: one that was pruned meanwhile has no flaw.
            if not await self._store.history(key, limit=1) and await self._store.instance(key):
                yield Flaw(*key, 0, "all lines of its history are gone")

    async def instance(self, key: Key) -> AsyncIterator[Flaw]:
        """The flaws of one instance: the first in each stretch of its journal, and how it ends.

        It may move or be pruned meanwhile, which is no flaw.
        """
        self.instances += 1
        before, seq, after = BEGINNING, 0, 0
        while True:
            # The instance is read first: when no line comes after it, it must end where the lines do.
            row = await self._store.instance(key)
            page = await self._store.history(key, after, PAGE)
            if not page:
                break
            for line in page:
                if not follows(line, before):
                    yield Flaw(*key, line.seq, _verdict(line, seq))
                before, seq = line.hash, line.seq
            self.lines += len(page)
            after = page[-1].position
        if row is not None:
            if row.journal != before and await self._store.instance(key):
                yield Flaw(*key, row.seq, "the last lines of its history are gone, or are not its own")
        elif await self._store.history(key, limit=1):
            yield Flaw(*key, seq, "it has a history, but the instance is gone")


def _verdict(line: HistoryRow, seq: int) -> str:
    if line.seq > seq + 1:
        return f"lines after {seq} are missing"
    if line.seq < seq:
        return f"it stands after {seq}: lines were moved, or put in"
    return "the line or the one before it was changed, or one between them is missing"


async def _all(pages: Callable[[Key, int], Awaitable[Sequence[Key]]]) -> AsyncIterator[Key]:
    after: Key = ("", "")
    while page := await pages(after, PAGE):
        for key in page:
            yield key
        after = page[-1]
