"""What a unit reads, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from headway.codec import Scratch
from headway.store.postgres.memory import RowVersion
from headway.store.postgres.tables import COUNTER, INSTANCE, RECORD, REQUEST
from headway.store.rows import InstanceRow, Key, RecordRow, RequestRow
from headway.store.unit import Found, Reads


class ReadVersions(Scratch):
    """The versions of the rows that a unit has read; None for those that did not exist."""

    instances: dict[Key, RowVersion] = {}
    counters: dict[Key, RowVersion | None] = {}
    records: dict[tuple[str, str, str], RowVersion | None] = {}
    stamps: dict[Key, int] = {}
    stamp: int = 0
    """The highest of the instances."""

    def see(self, key: Key, version: RowVersion, stamp: int) -> None:
        """Keep an instance's version, and which stamp it has."""
        self.instances[key] = version
        self.stamps[key] = stamp
        self.stamp = max(self.stamp, stamp)


class RowQuery(NamedTuple):
    """How to read one kind of rows, and which of its columns is which column of the answer."""

    wanted: str
    table: str
    keys: str
    match: str
    columns: dict[str, str]
    locked: bool = True


TYPES = {str: "text", str | None: "text", int: "bigint", bool: "boolean", datetime: "timestamptz"}
# All kinds share the columns of an instance, so that one statement answers for all of them.
SHARED = {"place": "tid", "seen": "xid", "stamp": "bigint"} | {
    column: TYPES[kind] for column, kind in get_type_hints(InstanceRow).items()
}
VERSION = {"place": "ctid", "seen": "xmin"}
QUERIES = (
    RowQuery(
        "instances",
        INSTANCE.name,
        "key_given",
        "tenant = given.tenant AND id = given.key",
        VERSION | {column: column for column in ("stamp", *INSTANCE.columns)},
    ),
    RowQuery(
        "requests",
        REQUEST.name,
        "key_given",
        "tenant = given.tenant AND key = given.key",
        {"tenant": "tenant", "id": "key", "status": "body", "snapshot": "answer", "updated_at": "expires_at"},
        locked=False,
    ),
    RowQuery(
        "counters",
        COUNTER.name,
        "key_given",
        "tenant = given.tenant AND key = given.key",
        VERSION | {"tenant": "tenant", "id": "key", "seq": "value"},
    ),
    RowQuery(
        "records",
        RECORD.name,
        "record_key_given",
        "tenant = given.tenant AND kind = given.kind AND key = given.key",
        VERSION
        | {"tenant": "tenant", "chart": "kind", "id": "key", "snapshot": "data", "updated_at": "updated_at"},
        locked=False,
    ),
)
KINDS = {query.wanted: number for number, query in enumerate(QUERIES)}
TIME = len(QUERIES)


def reading(wanted: Reads, *, lock: bool) -> tuple[str, list[list[Any]]]:
    """The statement that looks for what is wanted, and its parameters; locks in the order of the keys."""
    asked = [(query.wanted, getattr(wanted, query.wanted)) for query in QUERIES]
    some = [(name, sorted(keys)) for name, keys in asked if keys]
    return _statement(tuple(name for name, _ in some), lock), [keys for _, keys in some]


def found(records: Sequence[Sequence[Any]], wanted: Reads, seen: ReadVersions, now: datetime | None) -> Found:
    """What the statement has found; remembers the versions. `now` takes the place of the database's time."""
    rows: list[list[Any]] = [[] for _ in range(TIME + 1)]
    for record in records:
        rows[record[0]].append(record)
    at = now or rows[TIME][0]["updated_at"]
    seen.counters |= dict.fromkeys(wanted.counters)
    seen.records |= dict.fromkeys(wanted.records)
    answer = Found(now=at)
    for record in rows[KINDS["instances"]]:
        _, place, version, stamp, *columns = record
        key = (record["tenant"], record["id"])
        seen.see(key, (place, version), stamp)
        answer.instances[key] = InstanceRow(*columns)
    for record in rows[KINDS["requests"]]:
        if record["updated_at"] > at:
            answer.requests[record["tenant"], record["id"]] = _request(record)
    for record in rows[KINDS["counters"]]:
        key = (record["tenant"], record["id"])
        seen.counters[key] = (record["place"], record["seen"])
        answer.counters[key] = record["seq"]
    for record in rows[KINDS["records"]]:
        row = _record(record)
        seen.records[row.tenant, row.kind, row.key] = (record["place"], record["seen"])
        answer.records[row.tenant, row.kind, row.key] = row
    return answer


def _request(record: Any) -> RequestRow:
    return RequestRow(
        record["tenant"], record["id"], record["status"], record["snapshot"], record["updated_at"]
    )


def _record(record: Any) -> RecordRow:
    return RecordRow(
        record["tenant"], record["chart"], record["id"], record["snapshot"], record["updated_at"]
    )


@cache
def _statement(names: tuple[str, ...], lock: bool) -> str:  # noqa: FBT001 - a part of the cache's key
    """One of at most 32. The time comes last: it is taken when the locks are held."""
    queries = (QUERIES[KINDS[name]] for name in names)
    parts = [_part(query, f"${number}", lock=lock) for number, query in enumerate(queries, 1)]
    time = _columns(TIME, {"updated_at": "clock_timestamp()"})
    return "\nUNION ALL\n".join([*parts, f"SELECT {time}"])


def _part(query: RowQuery, parameter: str, *, lock: bool) -> str:
    """For each key one look into the index, whatever the planner believes about the table."""
    columns = _columns(KINDS[query.wanted], {column: f'held."{column}"' for column in query.columns})
    inner = ", ".join(f'"{source}" AS "{column}"' for column, source in query.columns.items())
    held = " FOR UPDATE" if lock and query.locked else ""
    return (
        f"SELECT {columns} FROM unnest({parameter}::{query.keys}[]) AS given"
        f" CROSS JOIN LATERAL (SELECT {inner} FROM {query.table} WHERE {query.match} LIMIT 1{held}) AS held"
    )


def _columns(kind: int, sources: dict[str, str]) -> str:
    shared = (f'{sources.get(name, "NULL")}::{type_} AS "{name}"' for name, type_ in SHARED.items())
    return ", ".join([f"{kind} AS kind", *shared])
