"""Lists in memory: instances, asks, and what has had its time."""

from __future__ import annotations

from datetime import datetime

from headway.store.port import AskQuery, EventPage, EventQuery, InstanceQuery, Owned, TimerQuery
from headway.store.rows import AskRow, Cursor, EventRow, InstanceRow, Key, LiveRow, LogRow, TimerRow
from headway.testing.memory.tables import Tables


def list_instances(tables: Tables, query: InstanceQuery) -> list[InstanceRow]:
    """A page of instances, in the order they were created."""
    rows = [row for row in tables.instances.values() if row.tenant == query.tenant]
    if query.after is not None:
        ids = [row.id for row in rows]
        rows = rows[ids.index(query.after) + 1 :] if query.after in ids else []
    return [row for row in rows if _is_asked_for(query, row)][: query.limit]


def _is_asked_for(query: InstanceQuery, row: InstanceRow) -> bool:
    return (
        query.chart in {None, row.chart}
        and query.status in {None, row.status}
        and query.parent in {None, row.parent}
        and query.owner in {None, row.owner}
        and query.ended in {None, row.ended}
    )


def read_events(tables: Tables, query: EventQuery) -> EventPage:
    """A page of the lines of all histories and the live messages, in the order they were written."""
    found: list[LogRow] = []
    for key, lines in tables.history.items():
        if (own := tables.instances.get(key)) is not None:
            found += [EventRow(line, own.chart, own.owner, own.parent) for line in lines]
    for row in tables.messages:
        if row.kind == "live" and (own := tables.instances.get((row.tenant, row.instance))) is not None:
            found.append(LiveRow(row, row.cursor, own.chart, own.owner, own.parent))
    found = [event for event in found if event.cursor > query.after and query.takes(event)]
    found.sort(key=lambda event: event.cursor)
    if len(found) >= query.limit:
        return EventPage(found[: query.limit], found[query.limit - 1].cursor, complete=False)
    return EventPage(found, max(query.after, Cursor(0, tables.position)), complete=True)


def list_timers(tables: Tables, query: TimerQuery) -> list[TimerRow]:
    """A page of a tenant's timers, by due time."""
    rows = [
        row
        for row in tables.timers.values()
        if row.tenant == query.tenant
        and (query.ids is None or row.id in query.ids)
        and (query.after is None or (row.due, row.id) > query.after)
    ]
    return sorted(rows, key=lambda row: (row.due, row.id))[: query.limit]


def list_owned(tables: Tables, table: Owned, after: Key, limit: int) -> list[tuple[Key, Key]]:
    """Rows that belong to instances, by tenant and id."""
    owners: dict[Owned, dict[Key, str]] = {
        "timer": {key: row.instance for key, row in tables.timers.items()},
        "work": {key: row.instance for key, row in tables.work.items()},
        "ask": {key: row.instance for key, row in tables.asks.items()},
    }
    found = sorted(pair for pair in owners[table].items() if pair[0] > after)[:limit]
    return [(key, (key[0], instance)) for key, instance in found]


def list_asks(tables: Tables, query: AskQuery) -> list[AskRow]:
    """A page of asks, the oldest first."""
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
    return any(role in row.roles and not role.startswith("@") for role in query.roles)


def _place(row: AskRow) -> tuple[datetime, str]:
    return row.opened_at, row.id


def prune_requests(tables: Tables, now: datetime, limit: int) -> int:
    """Delete request ids that have expired, the oldest first."""
    expired = sorted((row.expires_at, key) for key, row in tables.requests.items() if row.expires_at <= now)[
        :limit
    ]
    for _, key in expired:
        del tables.requests[key]
    return len(expired)


def prune_instances(tables: Tables, before: datetime, limit: int, chart: str | None) -> int:
    """Delete instances that have ended before a time, with their history and asks."""
    ended = [
        row
        for row in tables.instances.values()
        if row.ended and row.updated_at < before and chart in {None, row.chart}
    ]
    ended.sort(key=lambda row: (row.chart, row.updated_at))
    for row in ended[:limit]:
        _forget(tables, (row.tenant, row.id))
    return len(ended[:limit])


def _forget(tables: Tables, instance: Key) -> None:
    del tables.instances[instance]
    gone = [row.cursor for row in tables.history.pop(instance, ())]
    gone += [row.cursor for row in tables.messages if (row.tenant, row.instance) == instance]
    tables.forgotten = max([tables.forgotten, *gone])
    for key in [key for key, ask in tables.asks.items() if (ask.tenant, ask.instance) == instance]:
        del tables.asks[key]
