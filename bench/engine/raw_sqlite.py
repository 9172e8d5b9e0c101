"""A bare loop on SQLite: one connection, four statements for each transition, nothing read."""

# ruff: noqa: S608 - statements are composed of the schema's own names; values are bound

import sqlite3

from bench.engine.places import Places
from bench.engine.raw import CHANGING, LAST, Transitions, changed, fill, same

PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", f"cache_size = {-32 * 1024}")
UPDATE = f"UPDATE instance SET {', '.join(f'{c} = ?' for c in CHANGING)} WHERE tenant = ? AND id = ?"


class RawSqlite:
    """Commits so many transitions at a time."""

    def __init__(self, places: Places, batch: int, instances: int) -> None:
        place = places.sqlite()
        places.run(fill(place, instances))
        self._batch = batch
        self._raw = sqlite3.connect(place.address, isolation_level=None, cached_statements=256)
        for pragma in PRAGMAS:
            self._raw.execute(f"PRAGMA {pragma}")
        self._transitions = Transitions({table: self._row(sql) for table, sql in LAST.items()}, instances)
        self._inserts = {
            table: f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            for table, columns in self._transitions.columns.items()
            if table != "instance"
        }
        self._expected = 1

    def run(self, cycles: int) -> None:
        """Commit that many times."""
        for _ in range(cycles):
            some = [*self._transitions.some(self._batch)]
            self._raw.execute("BEGIN IMMEDIATE")
            self._raw.executemany(UPDATE, [changed(rows["instance"]) for rows in some])
            for table, insert in self._inserts.items():
                self._raw.executemany(insert, [[*rows[table].values()] for rows in some])
            self._raw.execute("COMMIT")
        self._expected += cycles * self._batch

    def verify(self) -> None:
        """Every transition has kept its request id."""
        [(found,)] = self._raw.execute("SELECT count(*) FROM idempotency")
        same(found, self._expected)

    def _row(self, sql: str) -> dict[str, object]:
        cursor = self._raw.execute(sql)
        return dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))
