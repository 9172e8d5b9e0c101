"""The tables of the SQLite store: how rows become columns, and the statements each table needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_type_hints

from headway.codec import Value, decode, encode
from headway.store import rows
from headway.store.queries import Readable

Row = TypeVar("Row", bound=Value)
Convert = Callable[[Any], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
POSITION = "position"
TIMES_KEPT = 1024
"""Rows that were written together share their times."""
STAMP = "stamp"
"""What orders rows where several write at once; one writes here, so the position alone is the order."""


def to_time(at: datetime) -> int:
    """Microseconds since the epoch."""
    return (at - EPOCH) // MICROSECOND


@lru_cache(TIMES_KEPT)
def from_time(stored: int) -> datetime:
    """The time that was stored, in UTC."""
    return EPOCH + timedelta(microseconds=stored)


def _to_list(texts: tuple[str, ...]) -> str:
    return encode(texts).decode()


def _from_list(stored: str) -> tuple[str, ...]:
    return decode(tuple[str, ...], stored)


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


CONVERTED: dict[Any, tuple[Convert, Convert]] = {
    datetime: (to_time, from_time),
    datetime | None: (_unless_none(to_time), _unless_none(from_time)),
    bool: (int, bool),
    tuple[str, ...]: (_to_list, _from_list),
}


class Table(Generic[Row]):
    """A table that holds rows of one type, a column for each field.

    Columns `beside` are no fields: their values follow those of a row when it is written.
    """

    def __init__(
        self,
        name: str,
        row: type[Row],
        key: tuple[str, ...],
        *,
        fixed: tuple[str, ...] = (),
        beside: tuple[str, ...] = (),
    ) -> None:
        self.name, self.row, self.key = name, row, key
        self.columns: tuple[str, ...] = tuple(field for field in row.__struct_fields__ if field != STAMP)
        stated = tuple(column for column in self.columns if key != (POSITION,) or column != POSITION)
        self.given = (*stated, *beside)
        where_key = " AND ".join(f"{column} = ?" for column in key)
        self.select = f"SELECT {', '.join(self.columns)} FROM {name}"
        self.select_one = f"{self.select} WHERE {where_key}"
        self.insert = (
            f"INSERT INTO {name} ({', '.join(self.given)}) VALUES ({', '.join('?' * len(self.given))})"
        )
        self.delete = f"DELETE FROM {name} WHERE {where_key}"
        self._variable = [column for column in self.given if column not in {*key, *fixed}]
        self._fields = attrgetter(*stated)
        types = get_type_hints(row)
        converted = [(i, CONVERTED[types[c]]) for i, c in enumerate(self.columns) if types[c] in CONVERTED]
        self._to = [(place, to) for place, (to, _) in converted]
        self._from = [(place, back) for place, (_, back) in converted]

    @cached_property
    def select_some(self) -> str:
        """The statement that finds the rows of a JSON list of keys."""
        columns = ", ".join(f"{self.name}.{column}" for column in self.columns)
        key = " AND ".join(
            f"{self.name}.{column} = json_extract(wanted.value, '$[{place}]')"
            for place, column in enumerate(self.key)
        )
        return f"SELECT {columns} FROM json_each(?) AS wanted CROSS JOIN {self.name} ON {key}"

    @property
    def upsert(self) -> str:
        """The statement that inserts a row, or takes the place of the one with its key."""
        return self.upsert_keeping()

    def upsert_keeping(self, *kept: str) -> str:
        """The same, where some columns stay as they are unless the new row has something there."""
        new = {column: f"excluded.{column}" for column in self._variable}
        new |= {column: f"coalesce(excluded.{column}, {column})" for column in kept}
        renewed = ", ".join(f"{column} = {value}" for column, value in new.items())
        return f"{self.insert} ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {renewed}"

    def update(self, *, but: tuple[str, ...] = ()) -> str:
        """The statement that sets the columns of a key's row, but for some; it takes a row's values."""
        number = {column: f"?{index}" for index, column in enumerate(self.given, 1)}
        sets = ", ".join(f"{column} = {number[column]}" for column in self._variable if column not in but)
        key = " AND ".join(f"{column} = {number[column]}" for column in self.key)
        return f"UPDATE {self.name} SET {sets} WHERE {key}"

    def values(self, row: Row) -> list[Any]:
        """A row as its columns."""
        values = [*self._fields(row)]
        for place, convert in self._to:
            values[place] = convert(values[place])
        return values

    def rows(self, stored: Iterable[Sequence[Any]]) -> list[Row]:
        """Columns as rows."""
        return [self._row(each) for each in stored]

    def _row(self, stored: Sequence[Any]) -> Row:
        values = [*stored]
        for place, convert in self._from:
            values[place] = convert(values[place])
        return self.row(*values)


INSTANCE = Table("instance", rows.InstanceRow, key=("tenant", "id"), fixed=("parent", "created_at"))
HISTORY = Table("history", rows.HistoryRow, key=(POSITION,))
TIMER = Table("timer", rows.TimerRow, key=("tenant", "id"))
WORK = Table("work", rows.WorkRow, key=("tenant", "id"), beside=("place",))
ASK = Table("ask", rows.AskRow, key=("tenant", "id"))
MESSAGE = Table("outbox", rows.MessageRow, key=(POSITION,), beside=("line",))
LETTER = Table("letter", rows.LetterRow, key=("destination", POSITION))
LEASE = Table("lease", rows.LeaseRow, key=("tenant", "name"))
CHART = Table("chart_version", rows.ChartRow, key=("chart", "version"))
REQUEST = Table("idempotency", rows.RequestRow, key=("tenant", "key"))
RECORD = Table("record", rows.RecordRow, key=("tenant", "kind", "key"))
COUNTER = Table("counter", rows.CounterRow, key=("tenant", "key"))


def readable_values(readable: Readable | None) -> dict[str, str]:
    """The parameters of a term that leaves out what somebody may not read."""
    if readable is None:
        return {}
    return {"person": readable.person, "closed": encode(readable.closed).decode()}
