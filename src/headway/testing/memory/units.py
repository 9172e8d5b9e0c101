"""Units in memory: decided, checked, and then written whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from headway.codec import replace
from headway.errors import StoreError
from headway.store import commands
from headway.store.port import Changes, Command, Found, Reads, Unit
from headway.store.rows import Key
from headway.testing.memory import outbox, work
from headway.testing.memory.tables import Tables

K = TypeVar("K")
V = TypeVar("V")
ATTEMPTS = 8


COMMANDS: dict[type[Command], Callable[[Tables, Any, datetime], Any]] = {
    commands.ClaimWork: lambda tables, given, now: work.claim_work(tables, given.claim, now),
    commands.HastenWork: lambda tables, given, now: work.hasten(tables, given.items, now),
    commands.RedriveLetters: lambda tables, given, now: outbox.redrive(tables, given.query, now),
    commands.DiscardLetters: lambda tables, given, _: outbox.discard(tables, given.query),
    commands.LookUpInstances: lambda tables, given, _: [*_some(tables.instances, given.keys).values()],
}
"""What it does of the commands; it keeps no API keys."""


class ConflictError(StoreError):
    """A unit has decided without seeing what is there."""


def run_unit(tables: Tables, unit: Unit, now: datetime) -> None:
    """Run a unit; starts over when it collides with what is there, but not for ever."""
    for _ in range(ATTEMPTS):
        with tables.commands_undone() as keep_commands:
            changes = decide(tables, unit, now)
            if (conflict := _conflict(tables, changes, now)) is None:
                keep_commands()
                _write(tables, changes)
                for watcher in tables.watchers:
                    watcher(changes, now)
                return
    raise StoreError(f"the unit collided {ATTEMPTS} times: {conflict}; nothing was changed")


def decide(tables: Tables, unit: Unit, now: datetime) -> Changes:
    """Let a unit read until it has decided; nothing is written."""
    wanted: Reads | None = unit.begin()
    while wanted is not None:
        found = _read(tables, wanted, now)
        if wanted.commands:
            tables.save()
            found.results = [COMMANDS[type(command)](tables, command, now) for command in wanted.commands]
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
    _write_work(tables, changes)
    _write_asks(tables, changes)
    tables.messages += [replace(row, position=tables.next_position()) for row in changes.messages]
    tables.requests.update(((row.tenant, row.key), row) for row in changes.requests)
    tables.records.update(((row.tenant, row.kind, row.key), row) for row in changes.records)
    for key, amount in changes.counters.items():
        tables.counters[key] = tables.counters.get(key, 0) + amount


def _write_work(tables: Tables, changes: Changes) -> None:
    """What is set and taken back in the same unit is gone; a next attempt keeps the checkpoint."""
    for row in changes.work:
        key = (row.tenant, row.id)
        before = tables.work.get(key)
        keeps = row.checkpoint is None and before is not None and before.checkpoint is not None
        tables.work[key] = replace(row, checkpoint=before.checkpoint) if keeps and before else row
    for change in changes.work_versions:
        key = (change.tenant, change.id)
        if key in tables.work:
            tables.work[key] = replace(tables.work[key], version=change.version)
    for key in changes.work_gone:
        tables.work.pop(key, None)


def _write_asks(tables: Tables, changes: Changes) -> None:
    """What is asked and answered in one unit is closed, and stays as it ended."""
    tables.asks.update(((row.tenant, row.id), row) for row in (*changes.asks, *changes.asks_renewed))
    for change in changes.asks_changed:
        ask = tables.asks.get((change.tenant, change.id))
        if ask is not None and ask.closed_at is None:
            tables.asks[change.tenant, change.id] = replace(
                ask,
                roles=change.roles,
                claimed_by=change.claimed_by,
                claimed_until=change.claimed_until,
                delegated_to=change.delegated_to,
            )
    for closing in changes.asks_closed:
        ask = tables.asks.get((closing.tenant, closing.id))
        if ask is not None and ask.closed_at is None:
            tables.asks[closing.tenant, closing.id] = replace(
                ask,
                closed_at=closing.closed_at,
                closed_by=closing.closed_by,
                closed_event=closing.closed_event,
            )
