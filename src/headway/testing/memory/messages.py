"""Messages in memory, and how far their consumers have read."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from operator import attrgetter

from headway.store.queries import MessagePage, MessageQuery, Settlement
from headway.store.rows import PRUNED, Cursor
from headway.testing.memory.tables import JobRunner, Tables

POSITION = attrgetter("position")


class MemoryMessages:
    """The messages of the tables and their consumers."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def page(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on, in the order they were committed."""
        return await self._call(lambda tables, _: _page(tables, query))

    async def last(self) -> Cursor:
        """The cursor from which to read what is committed from now on."""
        return await self._call(
            lambda tables, _: Cursor(0, tables.messages[-1].position if tables.messages else 0)
        )

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has read; None if it has not settled anything."""
        return await self._call(lambda tables, _: tables.consumers.get(name))

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, if it has lost its lease."""
        return await self._call(lambda tables, now: _settle(tables, settlement, now), writes=True)

    async def retire(self, consumer: str) -> bool:
        """Delete a consumer and its letters; False if somebody holds its lease."""
        return await self._call(lambda tables, now: _retire(tables, consumer, now), writes=True)

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers have read; returns how many."""
        return await self._call(lambda tables, _: _prune(tables, before, limit), writes=True)


def _page(tables: Tables, query: MessageQuery) -> MessagePage:
    """A page of messages; the cursor leads beyond what did not fit."""
    start = bisect_right(tables.messages, query.after.position, key=POSITION)
    rows = tables.messages[start : start + query.limit]
    if not rows:
        return MessagePage([], query.after)
    found = [
        row
        for row in rows
        if (not query.kinds or row.kind in query.kinds) and query.tenant in {None, row.tenant}
    ]
    return MessagePage(found, rows[-1].cursor, len(rows) < query.limit)


def _settle(tables: Tables, settlement: Settlement, now: datetime) -> bool:
    """Write what a consumer has done, if it has its lease."""
    if not tables.holds(("", settlement.consumer), settlement.holder, now):
        return False
    tables.consumers[settlement.consumer] = settlement.cursor
    for letter in settlement.letters:
        tables.letters[letter.destination, letter.position] = letter
    for position in settlement.delivered:
        tables.letters.pop((settlement.consumer, position), None)
    return True


def _retire(tables: Tables, consumer: str, now: datetime) -> bool:
    """Forget a consumer and its letters, unless it is at work."""
    lease = tables.leases.get(("", consumer))
    if lease is not None and lease.until > now:
        return False
    tables.leases.pop(("", consumer), None)
    tables.consumers.pop(consumer, None)
    for key in [key for key in tables.letters if key[0] == consumer]:
        del tables.letters[key]
    return True


def _prune(tables: Tables, before: datetime, limit: int) -> int:
    """Delete messages from before a time that all consumers are past."""
    past = min((cursor.position for cursor in tables.consumers.values()), default=None)
    first = [row for row in tables.messages if past is None or row.position <= past][:limit]
    gone = {row.position for row in first if row.at < before}
    live = [row.cursor for row in first if row.position in gone and row.kind in {"live", PRUNED}]
    tables.forgotten = max([tables.forgotten, *live])
    tables.messages = [row for row in tables.messages if row.position not in gone]
    return len(gone)
