"""The tables of the PostgreSQL store: rows as parameters, columns as rows, and the filters of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_type_hints

from headway.codec import Value, decode, encode
from headway.store import rows
from headway.store.queries import Readable

Row = TypeVar("Row", bound=Value)

LOG = ("stamp", "position")
"""The place of a row in a log, which the database gives it."""
UNIT = (
    "unit AS MATERIALIZED (SELECT $1::timestamptz AS at,"
    " greatest(pg_current_xact_id()::text::bigint, $2::bigint) AS stamp)"
)
"""The time of a unit, and the stamp of all it writes: no lower than that of any instance it has seen."""
STAMP = "(SELECT stamp FROM unit)"
LISTS = tuple[str, ...]
DELETE = "DELETE FROM {table} AS held USING {found} AS found WHERE held.ctid = found.place RETURNING 1"
"""What is found, by its place."""
TIME = "coalesce({}::timestamptz, statement_timestamp())"
"""The database's time, unless a test brings its own as a parameter."""
NOW = TIME.format("$1")
"""The time, where the first parameter is the one for it."""


def listed(columns: Iterable[str], of: str = "") -> str:
    """Columns as a statement lists them, quoted because one of them is called row."""
    return ", ".join(f'{of}"{column}"' for column in columns)


def found_by_key(table: str, match: str, given: str = "{rows}", more: str = "") -> str:
    """The query that finds the place of each row that matches a line of a parameter.

    A plain join could become a search through the whole table for each line, if it is planned while the
    planner believes the table to be empty; OFFSET 0 makes it look into the index for each line.
    """
    return (
        f"SELECT found.place{more} FROM unnest({given}) AS given"
        f" CROSS JOIN LATERAL (SELECT ctid AS place FROM {table} WHERE {match} OFFSET 0) AS found"
    )


class Table(Generic[Row]):
    """A table of rows of one type, a column for each field; `given` is the type of a row in a parameter.

    What is `stamped` gets the stamp of the unit that writes it. What is `kept` stays when a row that replaces
    another brings nothing for it.
    """

    def __init__(
        self,
        name: str,
        row: type[Row],
        *,
        given: str = "",
        key: tuple[str, ...],
        stamped: bool = False,
        kept: tuple[str, ...] = (),
    ) -> None:
        self.name, self.row, self.given, self.key = name, row, given, key
        self._stamped, self._kept = stamped, kept
        self.columns: tuple[str, ...] = row.__struct_fields__
        self.written = tuple(column for column in self.columns if column not in LOG or not stamped)
        self.select = f"SELECT {listed(self.columns)} FROM {name}"
        types = get_type_hints(row)
        self._lists = [place for place, column in enumerate(self.columns) if types[column] == LISTS]
        self._fields: Callable[[Row], tuple[Any, ...]] = attrgetter(*self.written)

    @property
    def insert(self) -> str:
        """The statement that inserts the rows of the parameter that stands for {rows}."""
        columns = listed(self.written)
        target, source = (", stamp", f", {STAMP}") if self._stamped else ("", "")
        return f"INSERT INTO {self.name} ({columns}{target}) SELECT {columns}{source} FROM unnest({{rows}})"

    @property
    def upsert(self) -> str:
        """The statement that inserts rows and replaces those with the same keys."""
        return f"{self.insert} {self.renewal}"

    @property
    def renewal(self) -> str:
        """The end of a statement that inserts: what is there under the same key gives way."""
        renewed = ", ".join(self._renewed(column) for column in self.written if column not in self.key)
        return f"ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {renewed}"

    @property
    def delete(self) -> str:
        """The statement that deletes what is found."""
        return DELETE.format(table=self.name, found="{found}")

    @property
    def find(self) -> str:
        """The query that finds the rows with the keys of a parameter."""
        return found_by_key(self.name, f"{self.key[0]} = given.tenant AND {self.key[1]} = given.key")

    def values(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        """Rows as a parameter."""
        values = [*map(self._fields, rows)]
        return [*map(self._with_lists_as_text, values)] if self._lists else values

    def rows(self, records: Iterable[Sequence[Any]]) -> list[Row]:
        """Columns as rows."""
        if not self._lists:
            return [self.row(*record) for record in records]
        return [self._row(record) for record in records]

    def _renewed(self, column: str) -> str:
        new = f"excluded.{column}"
        return f"{column} = {f'coalesce({new}, {self.name}.{column})' if column in self._kept else new}"

    def _row(self, record: Sequence[Any]) -> Row:
        values = [*record]
        for place in self._lists:
            values[place] = decode(LISTS, values[place])
        return self.row(*values)

    def _with_lists_as_text(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            encode(value).decode() if place in self._lists else value for place, value in enumerate(values)
        )


INSTANCE = Table("instance", rows.InstanceRow, given="instance_given", key=("tenant", "id"), stamped=True)
HISTORY = Table("history", rows.HistoryRow, given="history_given", key=LOG, stamped=True)
TIMER = Table("timer", rows.TimerRow, given="timer_given", key=("tenant", "id"))
WORK = Table("work", rows.WorkRow, given="work_given", key=("tenant", "id"), kept=("checkpoint",))
ASK = Table("ask", rows.AskRow, given="ask_given", key=("tenant", "id"))
MESSAGE = Table("outbox", rows.MessageRow, given="message_given", key=LOG, stamped=True)
LETTER = Table("letter", rows.LetterRow, given="letter_given", key=("destination", "position"))
REQUEST = Table("idempotency", rows.RequestRow, given="request_given", key=("tenant", "key"))
RECORD = Table("record", rows.RecordRow, given="record_given", key=("tenant", "kind", "key"))
COUNTER = Table("counter", rows.CounterRow, given="counter_given", key=("tenant", "key"))
LEASE = Table("lease", rows.LeaseRow, key=("tenant", "name"))
CHART = Table("chart_version", rows.ChartRow, given="chart_given", key=("chart", "version"))


class Where:
    """Terms that all must hold, and the parameters they refer to."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._terms: list[str] = []

    def bind(self, value: Any) -> str:
        """A parameter with this value."""
        self.values.append(value)
        return f"${len(self.values)}"

    def bound(self, term: str, *values: Any) -> str:
        """A term whose parameters are there, for use elsewhere in the statement; {} for each value."""
        return term.format(*map(self.bind, values))

    def add(self, term: str, *values: Any) -> None:
        """A term, with {} for each value."""
        self._terms.append(self.bound(term, *values))

    def equal(self, **columns: Any) -> None:
        """Columns that must have a value, unless that is None."""
        for column, value in columns.items():
            if value is not None:
                self.add(f"{column} = {{}}", value)

    def readable(self, readable: Readable | None) -> None:
        """Leave out what somebody may not read."""
        if readable is not None:
            self.add("(chart <> ALL ({}::text[]) OR owner = {})", [*readable.closed], readable.person)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._terms or ['true'])}"
