"""A bare loop on PostgreSQL: one statement writes a transition, by asyncpg and by pgbench."""

# ruff: noqa: S608 - statements are composed of the schema's own names and of rows that Headway has written

import re
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import asyncpg

from bench.engine.places import Places
from bench.engine.raw import CHANGING, LAST, Transitions, changed, fill, same
from bench.harness import WrongResult

SPEED = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
LONGEST = 120
COUNT = "SELECT count(*) FROM idempotency"
PICK = "'ring-' || lpad(:number::text, 7, '0')"
Row = Mapping[str, Any]


async def _written(address: str) -> dict[str, dict[str, Any]]:
    connection = await asyncpg.connect(address)
    try:
        return {table: dict(await connection.fetchrow(sql)) for table, sql in LAST.items()}
    finally:
        await connection.close()


class RawPostgres:
    """A loop on one connection of asyncpg."""

    def __init__(self, places: Places, instances: int) -> None:
        self._places = places
        place = places.postgres()
        places.run(fill(place, instances))
        self._transitions = Transitions(places.run(_written(place.address)), instances)
        self._connection = places.run(asyncpg.connect(place.address))
        places.at_end(lambda: places.run(self._connection.close()))
        self._sql = _numbered(self._transitions.columns)
        self._expected = 1

    def run(self, cycles: int) -> None:
        """Commit that many times."""
        self._expected += cycles
        self._places.run(self._loop(cycles))

    def verify(self) -> None:
        """Every transition has kept its request id."""
        same(self._places.run(self._connection.fetchval(COUNT)), self._expected)

    async def _loop(self, cycles: int) -> None:
        for rows in self._transitions.some(cycles):
            added = (row.values() for table, row in rows.items() if table != "instance")
            await self._connection.execute(
                self._sql, *changed(rows["instance"]), *(v for each in added for v in each)
            )


class Pgbench:
    """PostgreSQL's own load generator, with so many clients; it tells how fast it was."""

    def __init__(self, places: Places, clients: int, instances: int) -> None:
        self._program, self._clients = places.pgbench(), clients
        place = places.postgres()
        places.run(fill(place, instances))
        self._address = place.address
        self._script = places.new_folder() / "transition.sql"
        written = places.run(_written(place.address))
        self._script.write_text(_script(Transitions(written, instances).next(), instances))
        self._count: Callable[[], int] = lambda: places.run(_ask(self._address, COUNT))
        places.run(_do(self._address, "CREATE SEQUENCE requests"))
        self._expected = 1

    def run(self, cycles: int) -> float:
        """Let each client commit that many times."""
        words = ["-n", "-M", "prepared", "-c", self._clients, "-j", min(self._clients, 2), "-t", cycles]
        done = subprocess.run(
            [self._program, *map(str, words), "-f", str(self._script), self._address],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        speed = SPEED.search(done.stdout)
        if done.returncode or speed is None:
            raise WrongResult(f"pgbench failed: {done.stderr}")
        self._expected += cycles * self._clients
        return cycles * self._clients / float(speed[1])

    def verify(self) -> None:
        """Every transition has kept its request id."""
        same(self._count(), self._expected)


async def _ask(address: str, sql: str) -> Any:
    connection = await asyncpg.connect(address)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def _do(address: str, sql: str) -> None:
    await _ask(address, sql)


def _numbered(columns: Mapping[str, tuple[str, ...]]) -> str:
    """The statement of a transition, with all values as parameters."""
    numbers = iter(range(1, 1_000))

    def parameter(_column: str) -> str:
        return f"${next(numbers)}"

    changes = {column: parameter(column) for column in (*CHANGING, "tenant", "id")}
    return _statement(
        changes,
        {
            table: {column: parameter(column) for column in names}
            for table, names in columns.items()
            if table != "instance"
        },
    )


def _script(rows: Mapping[str, Row], instances: int) -> str:
    """The same for pgbench, with all values written out but for those that must differ."""
    shown = {table: {column: _literal(value) for column, value in row.items()} for table, row in rows.items()}
    moved = shown.pop("instance") | {
        "id": PICK,
        "seq": "seq + 1",
        "status": "CASE status WHEN 'here' THEN 'there' ELSE 'here' END",
    }
    shown["history"]["instance"] = shown["outbox"]["instance"] = PICK
    shown["idempotency"]["key"] = "'raw-' || nextval('requests')"
    statement = _statement(moved, shown).replace("\n", " ")
    return f"\\set number random(0, {instances - 1})\n{statement};\n"


def _statement(changes: Mapping[str, str], added: Mapping[str, Mapping[str, str]]) -> str:
    sets = ", ".join(f"{column} = {changes[column]}" for column in CHANGING)
    key = f"tenant = {changes['tenant']} AND id = {changes['id']}"
    parts = [
        f"instance_ AS (UPDATE instance SET {sets} WHERE {key})",
        *(f"{table}_ AS ({_insert(table, row)})" for table, row in added.items()),
    ]
    return f"WITH {', '.join(parts)} SELECT 1"


def _insert(table: str, row: Mapping[str, str]) -> str:
    columns = ", ".join(f'"{column}"' for column in row)
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join(row.values())})"


def _literal(value: object) -> str:
    if value is None or isinstance(value, (bool, int)):
        return "NULL" if value is None else str(value).lower()
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    # pgbench sees a variable behind every colon, even within a text.
    return "E'" + text.replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a") + "'"
