"""The tables of the PostgreSQL store: how rows become parameters and columns become rows."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_type_hints

from headway.codec import Value, decode, encode
from headway.store.rows import (
    AskRow,
    HistoryRow,
    InstanceRow,
    MessageRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
)

Row = TypeVar("Row", bound=Value)

POSITION = "position"
LISTS = tuple[str, ...]


def listed(columns: Iterable[str], of: str = "") -> str:
    """Columns as a statement lists them, quoted because one of them is called row."""
    return ", ".join(f'{of}"{column}"' for column in columns)


class CounterRow(Value):
    """A counter and where it stands."""

    tenant: str
    key: str
    value: int


class Table(Generic[Row]):
    """A table of rows of one type, a column for each field; `given` is the type of a row in a parameter."""

    def __init__(self, name: str, row: type[Row], *, given: str, key: tuple[str, ...]) -> None:
        self.name, self.row, self.given, self.key = name, row, given, key
        self.columns: tuple[str, ...] = row.__struct_fields__
        self.written = tuple(column for column in self.columns if column != POSITION)
        self.select = f"SELECT {listed(self.columns)} FROM {name}"
        types = get_type_hints(row)
        self._lists = [place for place, column in enumerate(self.columns) if types[column] == LISTS]
        self._fields: Callable[[Row], tuple[Any, ...]] = attrgetter(*self.written)

    @property
    def insert(self) -> str:
        """The statement that inserts the rows of the parameter that stands for {rows}."""
        columns = listed(self.written)
        return f"INSERT INTO {self.name} ({columns}) SELECT {columns} FROM unnest({{rows}})"

    @property
    def upsert(self) -> str:
        """The statement that inserts rows, or takes the place of those with their keys."""
        renewed = ", ".join(
            f"{column} = excluded.{column}" for column in self.written if column not in self.key
        )
        return f"{self.insert} ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {renewed}"

    @property
    def delete(self) -> str:
        """The statement that deletes the rows with the keys of a parameter."""
        first, second = self.key
        return (
            f"DELETE FROM {self.name} AS held USING unnest({{rows}}) AS given"
            f" WHERE held.{first} = given.tenant AND held.{second} = given.key"
        )

    def values(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        """Rows as a parameter."""
        values = [*map(self._fields, rows)]
        return [*map(self._with_lists_as_text, values)] if self._lists else values

    def rows(self, records: Iterable[Sequence[Any]]) -> list[Row]:
        """Columns as rows."""
        return [self._row(record) for record in records]

    def _row(self, record: Sequence[Any]) -> Row:
        values = [*record]
        for place in self._lists:
            values[place] = decode(LISTS, values[place])
        return self.row(*values)

    def _with_lists_as_text(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            encode(value).decode() if place in self._lists else value for place, value in enumerate(values)
        )


INSTANCE = Table("instance", InstanceRow, given="instance_given", key=("tenant", "id"))
HISTORY = Table("history", HistoryRow, given="history_given", key=(POSITION,))
TIMER = Table("timer", TimerRow, given="timer_given", key=("tenant", "id"))
WORK = Table("work", WorkRow, given="work_given", key=("tenant", "id"))
ASK = Table("ask", AskRow, given="ask_given", key=("tenant", "id"))
MESSAGE = Table("outbox", MessageRow, given="message_given", key=(POSITION,))
REQUEST = Table("idempotency", RequestRow, given="request_given", key=("tenant", "key"))
RECORD = Table("record", RecordRow, given="record_given", key=("tenant", "kind", "key"))
COUNTER = Table("counter", CounterRow, given="counter_given", key=("tenant", "key"))
