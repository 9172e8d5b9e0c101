"""What a unit has changed, all of it in one statement that also checks what the unit has seen."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from headway.store.port import Changes
from headway.store.postgres_reads import Seen
from headway.store.postgres_tables import (
    ASK,
    COUNTER,
    HISTORY,
    INSTANCE,
    MESSAGE,
    RECORD,
    REQUEST,
    TIMER,
    WORK,
    Table,
)
from headway.store.rows import AskRow, Key

STATEMENTS_KEPT = 256

Values = list[tuple[Any, ...]]
Given = Callable[[Changes, Seen], Values]


class Write(NamedTuple):
    """What is written when a list of changes holds something, and whether each row must be found."""

    when: str
    values: Given
    type: str
    sql: str
    each_one: bool = False


MOVING = ("chart", "version", "seq", "status", "ended", "updated_at", "snapshot")
CLOSING = ("claimed_by", "claimed_until", "delegated_to", "closed_at", "closed_by", "closed_event")
MOVE = (
    f"UPDATE instance AS held SET {', '.join(f'{column} = given.{column}' for column in MOVING)}"
    " FROM unnest({rows}) AS given WHERE held.ctid = given.place AND held.xmin = given.seen RETURNING 1"
)
CLOSE_ASK = (
    f"UPDATE ask AS held SET {', '.join(f'{column} = given.{column}' for column in CLOSING)}"
    " FROM unnest({rows}) AS given WHERE held.tenant = given.tenant AND held.id = given.id"
)
RENEW_REQUEST = f"{REQUEST.upsert} WHERE idempotency.expires_at <= $1 RETURNING 1"
COUNT = f"{COUNTER.insert} ON CONFLICT (tenant, key) DO UPDATE SET value = counter.value + excluded.value"

_moved = attrgetter(*MOVING)


def _keep(table: str, strength: str) -> str:
    """The statement that finds the versions that were seen, if they are still there, and keeps them so."""
    return (
        f"SELECT 1 FROM unnest({{rows}}) AS given JOIN {table} AS held"
        f" ON held.ctid = given.place AND held.xmin = given.seen FOR {strength} OF held"
    )


def _moves(changes: Changes, seen: Seen) -> Values:
    latest = {(row.tenant, row.id): row for row in changes.updated}
    return [(*seen.instances[key], *_moved(latest[key])) for key in sorted(latest)]


def _instances_kept(changes: Changes, seen: Seen) -> Values:
    """What was seen and stays: the decision rests on it."""
    moved = {(row.tenant, row.id) for row in changes.updated}
    return [version for key, version in sorted(seen.instances.items()) if key not in moved]


def _counters_kept(_changes: Changes, seen: Seen) -> Values:
    return [version for _, version in sorted(seen.counters.items()) if version]


def _counters(changes: Changes, seen: Seen, *, new: bool) -> Values:
    """Counts; a counter that was not there when the unit looked must still not be there."""
    return [
        (*key, delta)
        for key, delta in sorted(changes.counters.items())
        if (seen.counters.get(key, ()) is None) is new
    ]


def _records(changes: Changes, seen: Seen, *, new: bool) -> Values:
    latest = {(row.tenant, row.kind, row.key): row for row in changes.records}
    return RECORD.values(
        row for key, row in sorted(latest.items()) if (seen.records.get(key, ()) is None) is new
    )


def _records_kept(changes: Changes, seen: Seen) -> Values:
    changed = {(row.tenant, row.kind, row.key) for row in changes.records}
    return [version for key, version in sorted(seen.records.items()) if version and key in changed]


def _asks(changes: Changes, _seen: Seen) -> Values:
    """Asks as they are in the end: what is asked and answered in the same unit is closed."""
    latest = _latest(changes.asks)
    latest |= {key: row for key, row in _latest(changes.asks_closed).items() if key in latest}
    return ASK.values(latest[key] for key in sorted(latest))


def _asks_closed(changes: Changes, _seen: Seen) -> Values:
    opened, closed = _latest(changes.asks), _latest(changes.asks_closed)
    return ASK.values(closed[key] for key in sorted(closed) if key not in opened)


def _latest(rows: Iterable[AskRow]) -> dict[Key, AskRow]:
    return {(row.tenant, row.id): row for row in rows}


def _all(table: Table[Any], name: str) -> Given:
    """Every row, in the order given: the positions follow it."""
    return lambda changes, _: table.values(getattr(changes, name))


def _in_order(table: Table[Any], name: str) -> Given:
    """The rows in the order of their keys, so that no two statements wait for each other."""
    return lambda changes, _: sorted(table.values(getattr(changes, name)))


def _staying(table: Table[Any], name: str) -> Given:
    """The last row for each key, without those taken back in the same unit."""

    def values(changes: Changes, _: Seen) -> Values:
        latest = {(row.tenant, row.id): row for row in getattr(changes, name)}
        gone = {*getattr(changes, f"{name}_gone")}
        return table.values(latest[key] for key in sorted(latest.keys() - gone))

    return values


def _gone(name: str) -> Given:
    return lambda changes, _: sorted({*getattr(changes, name)})


SEEN = ""
"""In place of the name of a list: what was seen is checked whatever has changed."""

WRITES = {
    "moves": Write("updated", _moves, "instance_change", MOVE, each_one=True),
    "instances_kept": Write(SEEN, _instances_kept, "version_seen", _keep("instance", "SHARE"), each_one=True),
    "counters_kept": Write(SEEN, _counters_kept, "version_seen", _keep("counter", "UPDATE"), each_one=True),
    "records_kept": Write("records", _records_kept, "version_seen", _keep("record", "UPDATE"), each_one=True),
    "requests": Write(
        "requests", _in_order(REQUEST, "requests"), REQUEST.given, RENEW_REQUEST, each_one=True
    ),
    "created": Write("created", _all(INSTANCE, "created"), INSTANCE.given, INSTANCE.insert),
    "history": Write("history", _all(HISTORY, "history"), HISTORY.given, HISTORY.insert),
    "timers": Write("timers", _staying(TIMER, "timers"), TIMER.given, TIMER.upsert),
    "timers_gone": Write("timers_gone", _gone("timers_gone"), "key_given", TIMER.delete),
    "work": Write("work", _staying(WORK, "work"), WORK.given, WORK.upsert),
    "work_gone": Write("work_gone", _gone("work_gone"), "key_given", WORK.delete),
    "asks": Write("asks", _asks, ASK.given, ASK.upsert),
    "asks_closed": Write("asks_closed", _asks_closed, ASK.given, CLOSE_ASK),
    "messages": Write("messages", _all(MESSAGE, "messages"), MESSAGE.given, MESSAGE.insert),
    "counters_new": Write("counters", partial(_counters, new=True), COUNTER.given, COUNTER.insert),
    "counters": Write("counters", partial(_counters, new=False), COUNTER.given, COUNT),
    "records_new": Write("records", partial(_records, new=True), RECORD.given, RECORD.insert),
    "records": Write("records", partial(_records, new=False), RECORD.given, RECORD.upsert),
}


def writing(changes: Changes, seen: Seen, now: datetime) -> tuple[str, list[Any]]:
    """The statement that writes all changes or raises a serialization failure, and its parameters."""
    given = [
        (name, write.values(changes, seen))
        for name, write in WRITES.items()
        if write.when == SEEN or getattr(changes, write.when)
    ]
    some = [(name, values) for name, values in given if values]
    return statement(tuple(name for name, _ in some)), [now, *(values for _, values in some)]


@lru_cache(STATEMENTS_KEPT)
def statement(names: tuple[str, ...]) -> str:
    """One statement for the lists that are not empty; the first parameter is the time."""
    rows = {name: f"${number}::{WRITES[name].type}[]" for number, name in enumerate(names, 2)}
    parts = [f"{name} AS ({WRITES[name].sql.format(rows=rows[name])})" for name in names]
    checks = [f"(SELECT count(*) FROM {n}) <> cardinality({rows[n]})" for n in names if WRITES[n].each_one]
    return (
        f"WITH {', '.join(['at AS (SELECT $1::timestamptz)', *parts])}"
        f" SELECT CASE WHEN {' OR '.join(['false', *checks])} THEN start_over() END"
    )
