"""Histories in memory: the lines of each instance, and the log of all lines and live messages."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.queries import EventPage, EventQuery
from headway.store.rows import PRUNED, Cursor, EventRow, HistoryRow, Key, LiveRow, LogRow
from headway.testing.memory.tables import JobRunner, Tables


class MemoryHistory:
    """The lines of all instances of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._call(
            lambda tables, _: [row for row in tables.history.get(key, ()) if row.position > after][:limit]
        )

    async def newest(self, key: Key, limit: int) -> Sequence[HistoryRow]:
        """The last lines of an instance's history, the newest first."""
        return await self._call(lambda tables, _: [*reversed(tables.history.get(key, ()))][:limit])

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""
        return await self._call(
            lambda tables, _: sorted(key for key in tables.history if key > after)[:limit]
        )

    async def pruned(self, key: Key) -> str:  # noqa: ARG002 - here an instance goes with all its lines
        """Nothing: an instance is pruned as a whole."""
        return ""


class MemoryEvents:
    """The log of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def page(self, query: EventQuery) -> EventPage:
        """Events from a cursor on, in the order of commits."""
        return await self._call(lambda tables, _: _page(tables, query))

    async def last(self) -> Cursor:
        """The cursor from which to read the events that are committed from now on."""
        return await self._call(lambda tables, _: Cursor(0, tables.position))

    async def forgotten(self) -> Cursor:
        """The cursor up to which the log has gaps because something was pruned."""
        return await self._call(lambda tables, _: tables.forgotten)


def _page(tables: Tables, query: EventQuery) -> EventPage:
    found: list[LogRow] = []
    for key, lines in tables.history.items():
        if (own := tables.instances.get(key)) is not None:
            found += [EventRow(line, own.chart, own.owner, own.parent) for line in lines]
    for row in tables.messages:
        if row.kind == PRUNED:
            found.append(LiveRow(row, row.cursor, row.name))
        elif row.kind == "live" and (own := tables.instances.get((row.tenant, row.instance))) is not None:
            found.append(LiveRow(row, row.cursor, own.chart, own.owner, own.parent))
    found = [event for event in found if event.cursor > query.after and query.takes(event)]
    found.sort(key=lambda event: event.cursor)
    if len(found) >= query.limit:
        return EventPage(found[: query.limit], found[query.limit - 1].cursor, complete=False)
    return EventPage(found, max(query.after, Cursor(0, tables.position)), complete=True)
