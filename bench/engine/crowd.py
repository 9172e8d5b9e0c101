"""Crowds of sleeping instances: one is real, the others are copies of its rows under their own names."""

# ruff: noqa: S608 - statements are composed of the schema's own names; values are bound

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime

import asyncpg

from bench.engine.charts import TENANT
from bench.engine.places import Place, Places
from bench.engine.raw import NUMBERED
from bench.engine.sends import create, names_of

FIRST = names_of("sleeper", 1)[0]
WHERE = {"instance": "id", "history": "instance", "timer": "instance"}
"""The tables in which a sleeping instance has a row, and the column with its name."""

FIRST_TIMER = (
    "SELECT instance.snapshot, timer.id FROM instance JOIN timer ON timer.instance = instance.id"
    f" WHERE instance.id = '{FIRST}'"
)
Due = tuple[datetime, str]
"""When, and whose timer."""

NAMED = {"id", "instance", "snapshot"}
"""Columns in which its name occurs."""


class Crowds:
    """Makes a crowd of a size in a kind of store, once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._made: dict[tuple[str, int], Place] = {}

    def place(self, store: str, size: int) -> Place:
        """A database with so many sleepers."""
        if (store, size) not in self._made:
            place = self._places.place(store)
            self._places.run(_first(place))
            if store == "sqlite":
                _copy_in_sqlite(place.address, size)
            else:
                self._places.run(_copy_in_postgres(place.address, size))
            self._made[store, size] = place
        return self._made[store, size]

    def make_due(self, store: str, place: Place, dues: Sequence[Due]) -> None:
        """Let the timers of some sleepers be due at other times."""
        if store == "sqlite":
            _make_due_in_sqlite(place.address, dues)
        else:
            self._places.run(_make_due_in_postgres(place.address, dues))


async def _first(place: Place) -> None:
    async with place.engine() as engine:
        await create(engine, "Sleeper", [FIRST])


def _copy_in_sqlite(path: str, size: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        raw.execute("PRAGMA cache_size = -262144")
        raw.execute("BEGIN")
        for table, name in WHERE.items():
            columns = [column[0] for column in raw.execute(f"SELECT * FROM {table} LIMIT 1").description]
            numbers = (
                "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
            )
            copy = _copy(table, columns, "printf('sleeper-%07d', n)")
            raw.execute(f"{numbers} {copy}, numbers WHERE {name} = ?", (size - 1, FIRST))
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def _copy_in_postgres(address: str, size: int) -> None:
    connection = await asyncpg.connect(address)
    try:
        for table, column in WHERE.items():
            row = await connection.fetchrow(f"SELECT * FROM {table} LIMIT 1")
            name = "'sleeper-' || lpad(n::text, 7, '0')"
            await connection.execute(
                f"{_copy(table, [*row.keys()], name)}, generate_series(1, $1::int) AS n WHERE {column} = $2",
                size - 1,
                FIRST,
            )
            await connection.execute(f"VACUUM ANALYZE {table}")
    finally:
        await connection.close()


def _make_due_in_sqlite(path: str, dues: Sequence[Due]) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        [(first, timer)] = raw.execute(FIRST_TIMER)
        raw.executemany(
            f"UPDATE timer SET due = ? WHERE tenant = '{TENANT}' AND id = ?",
            [(round(due.timestamp() * 1_000_000), timer.replace(FIRST, name)) for due, name in dues],
        )
        old = _due(first, timer)
        raw.executemany(
            f"UPDATE instance SET snapshot = replace(snapshot, ?, ?) WHERE tenant = '{TENANT}' AND id = ?",
            [(old, _text(due), name) for due, name in dues],
        )


async def _make_due_in_postgres(address: str, dues: Sequence[Due]) -> None:
    connection = await asyncpg.connect(address)
    try:
        first, timer = await connection.fetchrow(FIRST_TIMER)
        names = [name for _, name in dues]
        await connection.execute(
            "UPDATE timer SET due = given.due FROM unnest($1::timestamptz[], $2::text[])"
            f" AS given(due, id) WHERE timer.tenant = '{TENANT}' AND timer.id = given.id",
            [due for due, _ in dues],
            [timer.replace(FIRST, name) for name in names],
        )
        await connection.execute(
            "UPDATE instance SET snapshot = replace(snapshot, $1, given.due)"
            " FROM unnest($2::text[], $3::text[]) AS given(due, id)"
            f" WHERE instance.tenant = '{TENANT}' AND instance.id = given.id",
            _due(first, timer),
            [_text(due) for due, _ in dues],
            names,
        )
    finally:
        await connection.close()


def _due(snapshot: str, timer: str) -> str:
    """When the timer of the first sleeper is due, as its snapshot says it."""
    due: str = json.loads(snapshot)["timers"][timer]["due"]
    return due


def _text(due: datetime) -> str:
    return due.isoformat().replace("+00:00", "Z")


def _copy(table: str, columns: list[str], name: str) -> str:
    """The beginning of a statement that copies the row of the first sleeper under another name."""
    given = [column for column in columns if column not in NUMBERED]
    sources = [
        f"replace({table}.\"{column}\", '{FIRST}', {name})" if column in NAMED else f'{table}."{column}"'
        for column in given
    ]
    shown = ", ".join(f'"{column}"' for column in given)
    return f"INSERT INTO {table} ({shown}) SELECT {', '.join(sources)} FROM {table}"
