"""Asks in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.store.queries import AskQuery
from headway.store.rows import AskChange, AskClosing, AskRow, Key, changed_ask
from headway.store.unit import Changes
from headway.testing.memory.tables import JobRunner, Tables


class MemoryAsks:
    """The asks of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call

    async def get(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""
        return await self._call(lambda tables, _: tables.asks.get(key))

    async def page(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks, the oldest first."""
        return await self._call(lambda tables, _: _page(tables, query))

    async def misfiled(self, limit: int) -> Sequence[Key]:  # noqa: ARG002 - there is no index here
        """None: an inbox is read from the asks themselves."""
        return []


def write_asks(tables: Tables, changes: Changes) -> None:
    """What is asked and answered in one unit is closed, and stays as it ended."""
    tables.asks.update(((row.tenant, row.id), row) for row in (*changes.asks, *changes.asks_renewed))
    later: list[AskChange | AskClosing] = [*changes.asks_changed, *changes.asks_closed]
    for change in later:
        ask = tables.asks.get((change.tenant, change.id))
        if ask is not None and ask.closed_at is None:
            tables.asks[change.tenant, change.id] = changed_ask(ask, change)


def _page(tables: Tables, query: AskQuery) -> list[AskRow]:
    rows = [row for row in tables.asks.values() if _is_for(query, row)]
    rows.sort(key=_place)
    if query.after is not None:
        last = tables.asks.get((query.tenant, query.after))
        rows = [row for row in rows if last is not None and _place(row) > _place(last)]
    return rows[: query.limit]


def _is_for(query: AskQuery, row: AskRow) -> bool:
    if row.tenant != query.tenant or query.open != (row.closed_at is None):
        return False
    if query.instance not in {None, row.instance}:
        return False
    if not query.roles and query.person is None:
        return True
    if row.delegated_to is not None:
        return row.delegated_to == query.person
    return f"@{query.person}" in row.roles or any(
        role in row.roles and not role.startswith("@") for role in query.roles
    )


def _place(row: AskRow) -> tuple[datetime, str]:
    return row.opened_at, row.id
