"""What a unit writes, in one statement that also checks what it has read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from itertools import compress
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from headway.store.postgres.asks import (
    CHANGE_ASK,
    FIND_ASK,
    FIND_AUDIENCE,
    PUT_AUDIENCE,
    TAKE_AUDIENCE,
    asks_changed,
    asks_opened,
    audience_gone,
    audience_of,
)
from headway.store.postgres.memory import RowVersion
from headway.store.postgres.reads import ReadVersions
from headway.store.postgres.tables import (
    ASK,
    COUNTER,
    HISTORY,
    INSTANCE,
    MESSAGE,
    RECORD,
    REQUEST,
    STAMP,
    TIMER,
    UNIT,
    WORK,
    Table,
    found_by_key,
)
from headway.store.rows import InstanceRow
from headway.store.unit import STORED, Changes

STATEMENTS_KEPT = 256

Values = list[tuple[Any, ...]]
Given = Callable[[Changes, ReadVersions], Values]


class Write(NamedTuple):
    """What is written when one of some lists holds something.

    `each_one`: a row for each line. `find` finds the rows first; all that are found must be there to be
    written, or else someone has changed them in this moment.
    """

    when: tuple[str, ...]
    values: Given
    type: str
    sql: str
    each_one: bool = False
    find: str = ""

    def parts(self, name: str, rows: str) -> list[str]:
        """The parts of a statement that write the rows of a parameter."""
        written = f"{name}_written AS ({self.sql.format(rows=rows, found=f'{name}_found')})"
        found = f"{name}_found AS MATERIALIZED ({self.find.format(rows=rows)})"
        return [found, written] if self.find else [written]

    def checks(self, name: str, rows: str) -> list[str]:
        """What must not be so in the end."""
        count = f"(SELECT count(*) FROM {name}_written)"
        if self.find:
            return [f"{count} <> (SELECT count(*) FROM {name}_found)"]
        return [f"{count} <> cardinality({rows})"] if self.each_one else []


def _same_version(*key: str) -> str:
    """The condition that a row is the version that was seen.

    VACUUM FULL and CLUSTER move rows and keep the transaction that wrote them, so place and transaction may
    be those of another row: its key is compared, too. IS NOT DISTINCT FROM, because with = the planner may
    prefer another way to the row than its place.
    """
    named = "".join(f" AND held.{column} IS NOT DISTINCT FROM given.{column}" for column in key)
    return f"held.ctid = given.place AND held.xmin = given.seen{named}"


MOVING = tuple(name for name in INSTANCE.columns if name not in {*INSTANCE.key, "parent", "created_at"})
"""The columns that a step may change, as the type `instance_change` has them."""
MOVE = (
    f"UPDATE instance AS held SET stamp = {STAMP},"
    f" {', '.join(f'{column} = given.{column}' for column in MOVING)}"
    f" FROM unnest({{rows}}) AS given WHERE {_same_version(*INSTANCE.key)}"
    " RETURNING given.place AS before, held.ctid AS place"
)
CREATE = f"{INSTANCE.insert} RETURNING tenant, id, ctid AS place"
RENEW_REQUEST = f"{REQUEST.upsert} WHERE idempotency.expires_at <= $1 RETURNING 1"
COUNT = f"{COUNTER.insert} ON CONFLICT (tenant, key) DO UPDATE SET value = counter.value + excluded.value"

FIND_WORK_VERSION = found_by_key(WORK.name, "tenant = given.tenant AND id = given.id", more=", given.version")
SET_WORK_VERSION = (
    "UPDATE work SET version = found.version FROM {found} AS found WHERE work.ctid = found.place RETURNING 1"
)

_moved = attrgetter(*MOVING)
_lists = attrgetter(*STORED)


def _keep(table: Table[Any], strength: str) -> str:
    """The statement that finds the versions that were seen, if they are still there, and keeps them so."""
    return (
        f"SELECT 1 FROM unnest({{rows}}) AS given JOIN {table.name} AS held"
        f" ON {_same_version(*table.key)} FOR {strength} OF held"
    )


def _moves(changes: Changes, seen: ReadVersions) -> Values:
    latest = {(row.tenant, row.id): row for row in changes.updated}
    return [(*seen.instances[key], *key, *_moved(latest[key])) for key in sorted(latest)]


def _instances_kept(changes: Changes, seen: ReadVersions) -> Values:
    """What was seen and stays: the decision rests on it."""
    moved = {(row.tenant, row.id) for row in changes.updated}
    return [(*seen.instances[key], *key) for key in sorted(seen.instances.keys() - moved)]


def _counters_kept(_changes: Changes, seen: ReadVersions) -> Values:
    return [(*version, *key) for key, version in sorted(seen.counters.items()) if version]


def _counters(changes: Changes, seen: ReadVersions, *, new: bool) -> Values:
    """StateCounts; a counter that was not there when the unit looked must still not be there."""
    return [
        (*key, delta)
        for key, delta in sorted(changes.counters.items())
        if (seen.counters.get(key, ()) is None) is new
    ]


def _records(changes: Changes, seen: ReadVersions, *, new: bool) -> Values:
    latest = {(row.tenant, row.kind, row.key): row for row in changes.records}
    return RECORD.values(
        row for key, row in sorted(latest.items()) if (seen.records.get(key, ()) is None) is new
    )


def _records_kept(changes: Changes, seen: ReadVersions) -> Values:
    changed = {(row.tenant, row.kind, row.key) for row in changes.records}
    return [(*version, *key) for key, version in sorted(seen.records.items()) if version and key in changed]


def _all(table: Table[Any], name: str) -> Given:
    """Every row, in the order given: the positions follow it."""
    return lambda changes, _: table.values(getattr(changes, name))


def _in_order(table: Table[Any], name: str) -> Given:
    """The rows in the order of their keys, so that no two statements wait for each other."""
    return lambda changes, _: sorted(table.values(getattr(changes, name)))


def _staying(table: Table[Any], name: str) -> Given:
    """The last row for each key, without those taken back in the same unit."""

    def values(changes: Changes, _: ReadVersions) -> Values:
        latest = {(row.tenant, row.id): row for row in getattr(changes, name)}
        gone = {*getattr(changes, f"{name}_gone")}
        return table.values(latest[key] for key in sorted(latest.keys() - gone))

    return values


def _work_versions(changes: Changes, _: ReadVersions) -> Values:
    """The last version for each item, without those that are written or taken back in the same unit."""
    latest = {(each.tenant, each.id): each.version for each in changes.work_versions}
    others = {(row.tenant, row.id) for row in changes.work} | {*changes.work_gone}
    return [(*key, latest[key]) for key in sorted(latest.keys() - others)]


def _by_key(values: Callable[[Changes], Values]) -> Given:
    """What the changes alone tell, in the order of the keys."""
    return lambda changes, _: sorted(values(changes), key=itemgetter(0, 1))


def _gone(name: str) -> Given:
    return lambda changes, _: sorted({*getattr(changes, name)})


TOLD = "(SELECT clock_timestamp() AS at, stamp, pg_current_xact_id()::xid AS writer FROM unit) AS unit_told"
SEEN = ()
"""In place of the names of lists: what was seen is checked whatever has changed."""
ASKS = ("asks", "asks_renewed", "asks_changed", "asks_closed")

WRITES = {
    "moves": Write(("updated",), _moves, "instance_change", MOVE, each_one=True),
    "instances_kept": Write(SEEN, _instances_kept, "instance_seen", _keep(INSTANCE, "SHARE"), each_one=True),
    "counters_kept": Write(SEEN, _counters_kept, "counter_seen", _keep(COUNTER, "UPDATE"), each_one=True),
    "records_kept": Write(("records",), _records_kept, "record_seen", _keep(RECORD, "UPDATE"), each_one=True),
    "requests": Write(
        ("requests",), _in_order(REQUEST, "requests"), REQUEST.given, RENEW_REQUEST, each_one=True
    ),
    "created": Write(("created",), _all(INSTANCE, "created"), INSTANCE.given, CREATE),
    "history": Write(("history",), _all(HISTORY, "history"), HISTORY.given, HISTORY.insert),
    "timers": Write(("timers",), _staying(TIMER, "timers"), TIMER.given, TIMER.upsert),
    "timers_gone": Write(("timers_gone",), _gone("timers_gone"), "key_given", TIMER.delete, find=TIMER.find),
    "work": Write(("work",), _staying(WORK, "work"), WORK.given, WORK.upsert),
    "work_versions": Write(
        ("work_versions",), _work_versions, "work_version", SET_WORK_VERSION, find=FIND_WORK_VERSION
    ),
    "work_gone": Write(("work_gone",), _gone("work_gone"), "key_given", WORK.delete, find=WORK.find),
    "asks": Write(ASKS[:2], _by_key(asks_opened), ASK.given, ASK.upsert),
    "asks_changed": Write(ASKS[2:], _by_key(asks_changed), "ask_change", CHANGE_ASK, find=FIND_ASK),
    "audience": Write(ASKS, _by_key(audience_of), "audience_given", PUT_AUDIENCE),
    "audience_gone": Write(
        ASKS[1:], _by_key(audience_gone), "audience_given", TAKE_AUDIENCE, find=FIND_AUDIENCE
    ),
    "messages": Write(("messages",), _all(MESSAGE, "messages"), MESSAGE.given, MESSAGE.insert),
    "counters_new": Write(("counters",), partial(_counters, new=True), COUNTER.given, COUNTER.insert),
    "counters": Write(("counters",), partial(_counters, new=False), COUNTER.given, COUNT),
    "records_new": Write(("records",), partial(_records, new=True), RECORD.given, RECORD.insert),
    "records": Write(("records",), partial(_records, new=False), RECORD.given, RECORD.upsert),
}


def is_nothing(changes: Changes) -> bool:
    """Whether there is nothing to write."""
    return not any(_lists(changes))


def writing(changes: Changes, seen: ReadVersions, now: datetime) -> tuple[str, list[Any]]:
    """The statement that writes all changes or raises a serialization failure, and its parameters."""
    filled = tuple(compress(STORED, _lists(changes)))
    names, lists = [], []
    for name in _concerned(filled):
        if values := WRITES[name].values(changes, seen):
            names.append(name)
            lists.append(values)
    return statement(tuple(names)), [now, seen.stamp, *lists]


@lru_cache(STATEMENTS_KEPT)
def _concerned(filled: tuple[str, ...]) -> tuple[str, ...]:
    """What may have to be written when these lists hold something."""
    return tuple(
        name for name, write in WRITES.items() if write.when == SEEN or not {*filled}.isdisjoint(write.when)
    )


def written(changes: Changes, seen: ReadVersions, answer: Any) -> list[tuple[InstanceRow, RowVersion, int]]:
    """The versions of instances that a statement has written, by its answer."""
    writer, stamp = answer["writer"], answer["stamp"]
    versions: list[tuple[InstanceRow, RowVersion, int]] = []
    if changes.updated:
        rows = {seen.instances[row.tenant, row.id][0]: row for row in changes.updated}
        places = zip(answer["moved_from"], answer["moved_to"], strict=True)
        versions += ((rows[before], (place, writer), stamp) for before, place in places)
    if changes.created:
        born = {(row.tenant, row.id): row for row in changes.created}
        keys = zip(answer["born_in"], answer["born_as"], strict=True)
        places = zip(keys, answer["born_at"], strict=True)
        versions += ((born[key], (place, writer), stamp) for key, place in places)
    return versions


PLACES = {
    "moves": "array_agg(before) AS moved_from, array_agg(place) AS moved_to",
    "created": "array_agg(tenant) AS born_in, array_agg(id) AS born_as, array_agg(place) AS born_at",
}
"""The columns that a statement returns about the versions that it wrote."""


@lru_cache(STATEMENTS_KEPT)
def statement(names: tuple[str, ...]) -> str:
    """One statement for the lists that are not empty, after the time and the stamp that was seen."""
    rows = {name: f"${number}::{WRITES[name].type}[]" for number, name in enumerate(names, 3)}
    parts = [part for name in names for part in WRITES[name].parts(name, rows[name])]
    checks = [check for name in names for check in WRITES[name].checks(name, rows[name])]
    told = [f"(SELECT {PLACES[name]} FROM {name}_written) AS {name}_told" for name in names if name in PLACES]
    return (
        f"WITH {', '.join([UNIT, *parts])}"
        f" SELECT *, CASE WHEN {' OR '.join(['false', *checks])} THEN start_over() END"
        f" FROM {', '.join([TOLD, *told])}"
    )
