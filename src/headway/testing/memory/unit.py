"""Runs a unit in memory: it decides, is checked for conflicts, and is then written as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from headway.codec import replace
from headway.errors import StoreError
from headway.store.rows import Key
from headway.store.unit import Changes, Found, Reads, Unit
from headway.testing.memory.asks import write_asks
from headway.testing.memory.tables import Commands, Tables
from headway.testing.memory.work import write_work

K = TypeVar("K")
V = TypeVar("V")
ATTEMPTS = 8


def run_unit(tables: Tables, unit: Unit, now: datetime, commands: Commands) -> None:
    """Run a unit; starts over when it collides with what is there, but not for ever."""
    for _ in range(ATTEMPTS):
        with tables.commands_undone() as keep_commands:
            changes = decide(tables, unit, now, commands)
            if (conflict := _conflict(tables, changes, now)) is None:
                keep_commands()
                _write(tables, changes)
                for watcher in tables.watchers:
                    watcher(changes, now)
                return
    raise StoreError(f"gave up after {ATTEMPTS} conflicts: {conflict}; nothing was changed")


def decide(tables: Tables, unit: Unit, now: datetime, commands: Commands) -> Changes:
    """Let a unit read until it has decided; nothing is written."""
    wanted: Reads | None = unit.begin()
    while wanted is not None:
        found = _read(tables, wanted, now)
        if wanted.commands:
            tables.save()
            found.results = [commands[type(command)](tables, command, now) for command in wanted.commands]
        wanted = unit.take(found)
    return unit.changes()


def _read(tables: Tables, wanted: Reads, now: datetime) -> Found:
    requests = _some(tables.requests, wanted.requests)
    return Found(
        now=now,
        instances=_some(tables.instances, wanted.instances),
        requests={key: row for key, row in requests.items() if row.expires_at > now},
        counters=_some(tables.counters, wanted.counters),
        records=_some(tables.records, wanted.records),
    )


def _some(table: Mapping[K, V], keys: Iterable[K]) -> dict[K, V]:
    return {key: table[key] for key in keys if key in table}


def _conflict(tables: Tables, changes: Changes, now: datetime) -> str | None:
    """What the unit has not seen, if there is something."""
    created = [(row.tenant, row.id) for row in changes.created]
    if len({*created}) < len(created) or any(key in tables.instances for key in created):
        return "an instance is there already"
    for row in changes.updated:
        stored = tables.instances.get((row.tenant, row.id))
        if stored is None or (stored.ended and not row.ended):
            return "an instance that was to be changed is not there, or has ended"
    answered: set[Key] = set()
    for request in changes.requests:
        key = (request.tenant, request.key)
        known = tables.requests.get(key)
        if key in answered or (known is not None and known.expires_at > now):
            return "a request id has got an answer meanwhile"
        answered.add(key)
    return None


def _write(tables: Tables, changes: Changes) -> None:
    for row in (*changes.created, *changes.updated):
        tables.instances[row.tenant, row.id] = row
    for line in changes.history:
        placed = replace(line, position=tables.next_position())
        tables.history.setdefault((line.tenant, line.instance), []).append(placed)
    tables.timers.update(((row.tenant, row.id), row) for row in changes.timers)
    for key in changes.timers_gone:
        tables.timers.pop(key, None)
    write_work(tables, changes)
    write_asks(tables, changes)
    tables.messages += [replace(row, position=tables.next_position()) for row in changes.messages]
    tables.requests.update(((row.tenant, row.key), row) for row in changes.requests)
    tables.records.update(((row.tenant, row.kind, row.key), row) for row in changes.records)
    for key, amount in changes.counters.items():
        tables.counters[key] = tables.counters.get(key, 0) + amount
