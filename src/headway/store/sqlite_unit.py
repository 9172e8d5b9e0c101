"""Runs a unit in one transaction: reads until it has decided, then writes what it has changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from headway.codec import encode
from headway.errors import StoreError
from headway.store.port import Changes, Found, Reads, Unit
from headway.store.rows import InstanceRow
from headway.store.sqlite_asks import (
    CHANGE_ASK,
    CLOSE_ASK,
    HIDE_ASK,
    SHOW_ASK,
    change_values,
    closing_values,
    key_of,
)
from headway.store.sqlite_connection import ConflictError, Connection
from headway.store.sqlite_tables import (
    ASK,
    COUNTER,
    HISTORY,
    INSTANCE,
    MESSAGE,
    RECORD,
    REQUEST,
    TIMER,
    WORK,
    Row,
    Table,
    place_of,
    to_time,
)

ATTEMPTS = 8
FEW_KEYS = 8
"""Up to here one look-up for each key is faster than one statement for all of them."""


class Write(NamedTuple):
    """A list of changes, the statement that writes one of them, and whether each must find its row."""

    changes: Callable[[Changes], Collection[Any]]
    values: Callable[[Any], Sequence[Any]]
    sql: str
    each_one: bool = False


# An instance ends once; not to set `ended` on the way there saves the upkeep of the index of live ones.
MOVE = f"{INSTANCE.update(but=('ended',))} AND +ended = 0"
COUNT = (
    "INSERT INTO counter (tenant, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (tenant, key) DO UPDATE SET value = value + excluded.value"
)
PUT_WORK = WORK.upsert_keeping("checkpoint")
RENEW_REQUEST = f"{REQUEST.upsert} WHERE idempotency.expires_at <= ?"

# What is set and taken back in the same unit is gone, and what is asked and answered in it is closed.
WRITES = (
    Write(attrgetter("created"), INSTANCE.values, INSTANCE.insert),
    Write(lambda changes: _living(changes.updated), INSTANCE.values, MOVE, each_one=True),
    Write(lambda changes: _ended(changes.updated), INSTANCE.values, INSTANCE.update(), each_one=True),
    Write(attrgetter("history"), HISTORY.values, HISTORY.insert),
    Write(attrgetter("timers"), TIMER.values, TIMER.upsert),
    Write(attrgetter("timers_gone"), tuple, TIMER.delete),
    Write(attrgetter("work_gone"), tuple, WORK.delete),
    Write(attrgetter("asks_renewed"), key_of, HIDE_ASK),
    Write(attrgetter("asks_renewed"), ASK.values, ASK.upsert),
    Write(attrgetter("asks_renewed"), key_of, SHOW_ASK),
    Write(attrgetter("asks"), ASK.values, ASK.upsert),
    Write(attrgetter("asks"), key_of, SHOW_ASK),
    Write(attrgetter("asks_changed"), key_of, HIDE_ASK),
    Write(attrgetter("asks_changed"), change_values, CHANGE_ASK),
    Write(attrgetter("asks_changed"), key_of, SHOW_ASK),
    Write(attrgetter("asks_closed"), key_of, HIDE_ASK),
    Write(attrgetter("asks_closed"), closing_values, CLOSE_ASK),
    Write(attrgetter("messages"), MESSAGE.values, MESSAGE.insert),
    Write(attrgetter("records"), RECORD.values, RECORD.upsert),
    Write(lambda changes: changes.counters.items(), lambda item: (*item[0], item[1]), COUNT),
)


def run_unit(connection: Connection, unit: Unit, now: Callable[[], datetime]) -> None:
    """Run a unit; starts over when it collides with what is there, but not for ever."""
    for _ in range(ATTEMPTS):
        try:
            connection.transaction(lambda held: _decide_and_write(held, unit, now()))
        except ConflictError as error:
            conflict = error
        else:
            return
    raise StoreError(
        f"the unit collided {ATTEMPTS} times with what is there; nothing was changed"
    ) from conflict


def _decide_and_write(connection: Connection, unit: Unit, now: datetime) -> None:
    wanted: Reads | None = unit.begin()
    while wanted is not None:
        wanted = unit.take(_read(connection, wanted, now))
    _write(connection, unit.changes(), now)


def _read(connection: Connection, wanted: Reads, now: datetime) -> Found:
    requests = _look_up(connection, REQUEST, wanted.requests)
    return Found(
        now=now,
        instances={(row.tenant, row.id): row for row in _look_up(connection, INSTANCE, wanted.instances)},
        requests={(row.tenant, row.key): row for row in requests if row.expires_at > now},
        counters={(row.tenant, row.key): row.value for row in _look_up(connection, COUNTER, wanted.counters)},
        records={
            (row.tenant, row.kind, row.key): row for row in _look_up(connection, RECORD, wanted.records)
        },
    )


def _look_up(connection: Connection, table: Table[Row], keys: Collection[tuple[str, ...]]) -> list[Row]:
    if not keys:
        return []
    if len(keys) > FEW_KEYS:
        return table.rows(connection.fetch(table.select_some, (encode([*keys]).decode(),)))
    return table.rows(row for key in keys for row in connection.fetch(table.select_one, key))


def _write(connection: Connection, changes: Changes, now: datetime) -> None:
    _write_work(connection, changes, now)
    for write in WRITES:
        if rows := write.changes(changes):
            changed = connection.write(write.sql, [*map(write.values, rows)])
            if write.each_one and changed != len(rows):
                raise ConflictError("an instance that was to be changed is not there, or has ended")
    _write_requests(connection, changes, to_time(now))


def _write_work(connection: Connection, changes: Changes, now: datetime) -> None:
    """Keep work; what is due already can be claimed at once."""
    rows = [[*WORK.values(row), place_of(row) if row.due <= now else None] for row in changes.work]
    if rows:
        connection.write(PUT_WORK, rows)


def _write_requests(connection: Connection, changes: Changes, now: int) -> None:
    """Keep answers; one that has expired but is still there gives way."""
    rows = [(*REQUEST.values(row), now) for row in changes.requests]
    if rows and connection.write(RENEW_REQUEST, rows) != len(rows):
        raise ConflictError("a request id has got an answer meanwhile")


def _living(rows: Iterable[InstanceRow]) -> list[InstanceRow]:
    return [row for row in rows if not row.ended]


def _ended(rows: Iterable[InstanceRow]) -> list[InstanceRow]:
    return [row for row in rows if row.ended]
