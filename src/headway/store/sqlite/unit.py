"""Runs a unit in one transaction: reads until it has decided, then writes what it has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from headway.errors import StoreError
from headway.store.rows import InstanceRow, WorkRow
from headway.store.sqlite.asks import (
    ASK_CHANGE,
    ASK_CLOSING,
    CHANGE_ASK,
    CLOSE_ASK,
    HIDE_ASK,
    SHOW_ASK,
    key_of,
)
from headway.store.sqlite.claims import place_of
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import Commands, look_up
from headway.store.sqlite.requests import write_requests
from headway.store.sqlite.tables import (
    ASK,
    COUNTER,
    HISTORY,
    INSTANCE,
    MESSAGE,
    RECORD,
    REQUEST,
    TIMER,
    WORK,
    to_time,
)
from headway.store.sqlite.work import SET_VERSION
from headway.store.unit import Changes, ConflictError, Found, Reads, Unit

ATTEMPTS = 8


class Write(NamedTuple):
    """A list of changes, and the statement that writes one of them."""

    changes: str
    values: Callable[[Any], Sequence[Any]]
    sql: str


# An instance ends once; not to set `ended` on the way there saves the upkeep of the index of live ones.
MOVE = f"{INSTANCE.update(but=('ended',))} AND +ended = 0"
END = INSTANCE.update()
COUNT = (
    "INSERT INTO counter (tenant, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (tenant, key) DO UPDATE SET value = value + excluded.value"
)
PUT_WORK = WORK.upsert_keeping("checkpoint")
# The step's own lines are written before it, so it comes after them in the log of events.
LAST_LINE = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'history'), 0)"
PUT_MESSAGE = f"{MESSAGE.insert.removesuffix('?)')}{LAST_LINE})"

# What is set and taken back in the same unit is gone, and what is asked and answered in it is closed.
WRITES = (
    Write("created", INSTANCE.values, INSTANCE.insert),
    Write("history", HISTORY.values, HISTORY.insert),
    Write("timers", TIMER.values, TIMER.upsert),
    Write("timers_gone", tuple, TIMER.delete),
    Write("work_versions", attrgetter("tenant", "id", "version"), SET_VERSION),
    Write("work_gone", tuple, WORK.delete),
    Write("asks", ASK.values, ASK.upsert),
    Write("asks", key_of, SHOW_ASK),
    Write("asks_renewed", key_of, HIDE_ASK),
    Write("asks_renewed", ASK.values, ASK.upsert),
    Write("asks_renewed", key_of, SHOW_ASK),
    Write("asks_changed", key_of, HIDE_ASK),
    Write("asks_changed", ASK_CHANGE.values, CHANGE_ASK),
    Write("asks_changed", key_of, SHOW_ASK),
    Write("asks_closed", key_of, HIDE_ASK),
    Write("asks_closed", ASK_CLOSING.values, CLOSE_ASK),
    Write("messages", MESSAGE.values, PUT_MESSAGE),
    Write("records", RECORD.values, RECORD.upsert),
)
lists_of = attrgetter(*(write.changes for write in WRITES))


def run_unit(connection: Connection, unit: Unit, now: Callable[[], datetime], commands: Commands) -> None:
    """Run a unit; starts over when it collides with what is there, but not for ever."""
    for _ in range(ATTEMPTS):
        try:
            connection.transaction(lambda held: _decide_and_write(held, unit, now(), commands))
        except ConflictError as error:
            conflict = error
        else:
            return
    raise StoreError(
        f"gave up after {ATTEMPTS} conflicts with other transactions; nothing was changed"
    ) from conflict


def _decide_and_write(connection: Connection, unit: Unit, now: datetime, commands: Commands) -> None:
    wanted: Reads | None = unit.begin()
    while wanted is not None:
        found = _read(connection, wanted, now)
        found.results = [commands[type(command)](connection, command) for command in wanted.commands]
        wanted = unit.take(found)
    _write(connection, unit.changes(), now)


def _read(connection: Connection, wanted: Reads, now: datetime) -> Found:
    found = Found(now)
    for row in look_up(connection, INSTANCE, wanted.instances):
        found.instances[row.tenant, row.id] = row
    for request in look_up(connection, REQUEST, wanted.requests):
        if request.expires_at > now:
            found.requests[request.tenant, request.key] = request
    for counter in look_up(connection, COUNTER, wanted.counters):
        found.counters[counter.tenant, counter.key] = counter.value
    for record in look_up(connection, RECORD, wanted.records):
        found.records[record.tenant, record.kind, record.key] = record
    return found


def _write(connection: Connection, changes: Changes, now: datetime) -> None:
    if changes.work:
        _write_work(connection, changes.work, now)
    if changes.updated:
        _move(connection, changes.updated)
    for write, rows in zip(WRITES, lists_of(changes), strict=True):
        if rows:
            connection.write(write.sql, map(write.values, rows))
    if changes.counters:
        connection.write(COUNT, [(*key, by) for key, by in changes.counters.items()])
    if changes.requests:
        write_requests(connection, changes.requests, to_time(now))


def _move(connection: Connection, rows: Sequence[InstanceRow]) -> None:
    """Change instances, of which each must be there and live."""
    changed = 0
    for ended, sql in ((False, MOVE), (True, END)):
        if some := [INSTANCE.values(row) for row in rows if row.ended is ended]:
            changed += connection.write(sql, some)
    if changed != len(rows):
        raise ConflictError("an instance that was to be changed is not there, or has ended")


def _write_work(connection: Connection, work: Sequence[WorkRow], now: datetime) -> None:
    """Keep work; what is due already can be claimed at once."""
    rows = [[*WORK.values(row), place_of(row) if row.due <= now else None] for row in work]
    connection.write(PUT_WORK, rows)
