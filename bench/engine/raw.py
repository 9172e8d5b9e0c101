"""What a transition costs without any engine: the rows that Headway writes, taken from a real transition."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from bench.engine.charts import GO, TENANT
from bench.engine.places import Place
from bench.engine.sends import check, create, names_of
from bench.harness import WrongResult

FIRST = names_of("ring", 1)[0]
STATES = ("here", "there")
NUMBERED = {"no", "position", "ended_at"}
"""Columns that the store fills in."""

LAST = {
    "instance": f"SELECT * FROM instance WHERE id = '{FIRST}'",  # noqa: S608 - a constant
    "history": "SELECT * FROM history ORDER BY position DESC LIMIT 1",
    "outbox": "SELECT * FROM outbox ORDER BY position DESC LIMIT 1",
    "idempotency": "SELECT * FROM idempotency LIMIT 1",
}
"""Where the rows of the only transition so far stand."""

CHANGING = ("seq", "status", "updated_at", "snapshot")
Row = dict[str, Any]


async def fill(place: Place, instances: int) -> None:
    """Create instances, and let the first of them make its first step."""
    async with place.engine() as engine:
        await create(engine, "Ring", names_of("ring", instances))
        check([await engine.send(TENANT, FIRST, GO, request_id="first")])


class Transitions:
    """Makes the rows of one transition after the other, each instance in turn."""

    def __init__(self, written: Mapping[str, Row], instances: int) -> None:
        self._names = names_of("ring", instances)
        self._written = {
            table: {column: value for column, value in row.items() if column not in NUMBERED}
            for table, row in written.items()
        }
        self._numbers = count()

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each table."""
        return {table: tuple(row) for table, row in self._written.items()}

    def next(self) -> dict[str, Row]:
        """The rows of the next transition."""
        number = next(self._numbers)
        turn, place = divmod(number, len(self._names))
        name, turn = self._names[place], turn + 2
        written = self._written
        return {
            "instance": written["instance"] | {"id": name, "seq": turn, "status": STATES[turn % 2]},
            "history": written["history"] | {"instance": name, "seq": turn},
            "outbox": written["outbox"] | {"id": f"{name}-{turn}", "instance": name},
            "idempotency": written["idempotency"] | {"key": f"raw-{number}"},
        }

    def some(self, number: int) -> Iterator[dict[str, Row]]:
        """The rows of so many transitions."""
        return (self.next() for _ in range(number))


def changed(row: Row) -> Sequence[Any]:
    """What an update of an instance takes."""
    return [*(row[column] for column in CHANGING), row["tenant"], row["id"]]


def same(found: int, expected: int) -> None:
    """Raise WrongResult unless all transitions are there."""
    if found != expected:
        raise WrongResult(f"{found} transitions instead of {expected}")
