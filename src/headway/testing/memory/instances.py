"""Instances in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

from headway.codec import replace
from headway.store.port import Owned
from headway.store.queries import InstanceQuery, StateCounts
from headway.store.rows import Cursor, InstanceRow, Key, StateCount, pruned_message
from headway.store.unit import LookUpInstances
from headway.testing.memory.tables import Commands, JobRunner, Tables


class MemoryInstances:
    """The instances of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call
        self.commands: Commands = {LookUpInstances: lambda tables, given, _: _look_up(tables, given.keys)}

    async def get(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return await self._call(lambda tables, _: tables.instances.get(key))

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that exist, in any order."""
        return await self._call(lambda tables, _: _look_up(tables, keys))

    async def page(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        return await self._call(lambda tables, _: _page(tables, query))

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances after a key, by tenant and id."""
        return await self._call(
            lambda tables, _: sorted(key for key in tables.instances if key > after)[:limit]
        )

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, ordered as `names`."""

        def living(tables: Tables, _: datetime) -> list[InstanceRow]:
            rows = sorted(tables.instances.items())
            return [row for key, row in rows if key > after and row.chart == chart and not row.ended][:limit]

        return await self._call(living)

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The keys of all timers, work or asks, each with the key of its instance, ordered as `names`."""
        return await self._call(lambda tables, _: _owned(tables, table, after, limit))

    async def prune(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that ended before a time, with their history and asks; returns how many."""

        def prune(tables: Tables, now: datetime) -> int:
            pruned = _prune(tables, before, limit, chart)
            for group, count in pruned.items():
                place = tables.next_position()
                message = pruned_message(group, count, str(place), now)
                tables.messages.append(replace(message, position=place))
            return pruned.total()

        return await self._call(prune, writes=True)

    async def oldest(self, tenant: str) -> Sequence[StateCount]:
        """For each version and set of leaf states of living instances one that got there first."""
        counts = await self.counts(tenant)
        return [replace(each, count=1) for each in counts.items if not each.ended]

    async def counts(self, tenant: str) -> StateCounts:
        """How many instances of a tenant are in which leaf states, and the cursor at which that is true."""
        return await self._call(lambda tables, _: _counts(tables, tenant))


def _look_up(tables: Tables, keys: Collection[Key]) -> list[InstanceRow]:
    return [tables.instances[key] for key in keys if key in tables.instances]


def _page(tables: Tables, query: InstanceQuery) -> list[InstanceRow]:
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
        and (query.readable is None or query.readable.takes(row.chart, row.owner))
    )


def _owned(tables: Tables, table: Owned, after: Key, limit: int) -> list[tuple[Key, Key]]:
    owners: dict[Owned, dict[Key, str]] = {
        "timer": {key: row.instance for key, row in tables.timers.items()},
        "work": {key: row.instance for key, row in tables.work.items()},
        "ask": {key: row.instance for key, row in tables.asks.items()},
    }
    found = sorted(pair for pair in owners[table].items() if pair[0] > after)[:limit]
    return [(key, (key[0], instance)) for key, instance in found]


def _counts(tables: Tables, tenant: str) -> StateCounts:
    groups: dict[tuple[str, int, str, bool], list[datetime]] = {}
    for row in tables.instances.values():
        if row.tenant == tenant:
            groups.setdefault((row.chart, row.version, row.states, row.ended), []).append(row.since)
    items = [
        StateCount(chart, version, states, ended, len(since), None if ended else min(since))
        for (chart, version, states, ended), since in groups.items()
    ]
    return StateCounts(items, Cursor(0, tables.position))


def _prune(
    tables: Tables, before: datetime, limit: int, chart: str | None
) -> Counter[tuple[str, str, int, str]]:
    ended = [
        row
        for row in tables.instances.values()
        if row.ended and row.updated_at < before and chart in {None, row.chart}
    ]
    ended.sort(key=lambda row: (row.chart, row.updated_at))
    gone = Counter((row.tenant, row.chart, row.version, row.states) for row in ended[:limit])
    for row in ended[:limit]:
        _forget(tables, (row.tenant, row.id))
    return gone


def _forget(tables: Tables, instance: Key) -> None:
    del tables.instances[instance]
    gone = [row.cursor for row in tables.history.pop(instance, ())]
    gone += [row.cursor for row in tables.messages if (row.tenant, row.instance) == instance]
    tables.forgotten = max([tables.forgotten, *gone])
    for key in [key for key, ask in tables.asks.items() if (ask.tenant, ask.instance) == instance]:
        del tables.asks[key]
