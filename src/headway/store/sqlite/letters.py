"""Letters on SQLite. The first that waits of each instance is marked, so that what is due is found soon."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headway.codec import encode, replace
from headway.store.queries import LetterPlace, LetterQuery, Settlement
from headway.store.rows import LetterRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import Commands, SqliteDatabase
from headway.store.sqlite.tables import LETTER
from headway.store.unit import DiscardLetters, RedriveLetters

Line = tuple[str, str, str]
"""A destination, a tenant and an instance, whose letters stand in line."""

PUT = f"{LETTER.upsert}, head = 0"
DELIVERED = (
    "DELETE FROM letter WHERE destination = ? AND position = ? RETURNING destination, tenant, instance"
)
UNMARK = "UPDATE letter SET head = 0 WHERE destination = ? AND tenant = ? AND instance = ? AND head = 1"
MARK = """
UPDATE letter SET head = 1 WHERE destination = ?1 AND position = (
    SELECT min(position) FROM letter INDEXED BY letter_waiting
    WHERE destination = ?1 AND tenant = ?2 AND instance = ?3 AND dead = 0
)
"""
WAITING = """
SELECT tenant, instance, position, attempts FROM letter INDEXED BY letter_waiting
WHERE destination = ? AND dead = 0 AND (tenant, instance, position) > (?, ?, ?)
ORDER BY tenant, instance, position LIMIT ?
"""
THOSE_DUE = """
FROM letter WHERE destination = :destination AND head = 1 AND due <= :now
AND position > :after AND (:tenant IS NULL OR tenant = :tenant)
AND (:instance IS NULL OR instance = :instance)
AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
ORDER BY due, position LIMIT :limit
"""
DUE = f"SELECT {', '.join(LETTER.columns)} {THOSE_DUE}"
SIZES_OF_DUE = f"SELECT length(data) {THOSE_DUE}"
THOSE_BEHIND = """
FROM letter INDEXED BY letter_waiting
WHERE destination = ? AND tenant = ? AND instance = ? AND position > ? AND dead = 0 ORDER BY position LIMIT ?
"""
BEHIND = f"SELECT {', '.join(LETTER.columns)} {THOSE_BEHIND}"
SIZES_BEHIND = f"SELECT length(data) {THOSE_BEHIND}"
DESTINATIONS = """
WITH RECURSIVE step (destination) AS (
    SELECT min(destination) FROM letter
    UNION ALL
    SELECT (SELECT min(destination) FROM letter WHERE destination > step.destination)
    FROM step WHERE destination IS NOT NULL
)
SELECT destination FROM step WHERE destination IS NOT NULL
"""
REDRIVE = (
    "UPDATE letter SET dead = 0, attempts = 0, due = ? WHERE destination = ? AND position = ? AND dead = 1"
)
DISCARD = "DELETE FROM letter WHERE destination = ? AND position = ? AND dead = ?"
FILTERS = {"destination": "letter.destination = :destination", "tenant": "letter.tenant = :tenant"}
INDEXES = {
    (): "letter_by_position",
    ("destination",): "letter_by_destination",
    ("tenant",): "letter_by_tenant",
    ("destination", "tenant"): "letter_by_both",
}
BY_ID = f"""
SELECT {", ".join(f"letter.{column}" for column in LETTER.columns)}
FROM json_each(:ids) AS wanted CROSS JOIN letter INDEXED BY letter_by_id ON letter.id = wanted.value
WHERE dead = :dead AND position > :after AND position <= :until
"""
THE_LAST = 2**63 - 1
MOST_CHARACTERS = 64 * 1024 * 1024
"""Letters to be tried are read up to the one that makes their data as large as this."""


class SqliteLetters:
    """The letters of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.commands: Commands = {
            RedriveLetters: lambda held, given: redrive(held, given.query, database.time()),
            DiscardLetters: lambda held, given: discard(held, given.query),
        }

    async def page(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters; without a destination, all letters of a message are on one page."""
        return await self._database.read_at_once(
            lambda held: list_letters(held, query, self._database.time())
        )

    async def waiting(self, destination: str, after: LetterPlace, limit: int) -> Sequence[LetterPlace]:
        """The places of a destination's letters that are not dead, in the order of places."""
        found = await self._database.fetch(WAITING, (destination, *after[:3], limit))
        return [LetterPlace(*each) for each in found]

    async def behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """The letters behind others of their instance and destination: up to `each` of each, in order."""
        return await self._database.read_at_once(lambda held: behind(held, heads, each))

    async def redrive(self, query: LetterQuery) -> int:
        """Make dead letters due now, with all their attempts; returns how many."""
        return await self._database.write(lambda held: redrive(held, query, self._database.time()))

    async def discard(self, query: LetterQuery) -> int:
        """Delete dead letters, or with `dead=False` those that are not dead; returns how many."""
        return await self._database.write(lambda held: discard(held, query))


def settle_letters(connection: Connection, settlement: Settlement) -> None:
    """Write the letters of a settlement; belongs in a transaction."""
    lines = {_line(letter) for letter in settlement.letters}
    connection.write(PUT, [*map(LETTER.values, settlement.letters)])
    for position in settlement.delivered:
        lines.update(connection.fetch(DELIVERED, (settlement.consumer, position)))
    _mark(connection, lines)


def list_letters(connection: Connection, query: LetterQuery, now: int) -> list[LetterRow]:
    """A page of letters, in the order of their messages; one message's are never torn apart."""
    if query.due:
        return [] if query.dead else _due(connection, query, now)
    found = _page(connection, query)[: query.limit]
    if query.destination is None and found and len(found) == query.limit:
        last = found[-1].position
        whole = _page(connection, query, after=last - 1, until=last, limit=-1)
        return [each for each in found if each.position < last] + whole
    return found


def behind(connection: Connection, heads: Sequence[LetterRow], each: int) -> list[LetterRow]:
    """Letters that wait behind the first of their line: at most `each` per line, and no more than fit."""
    found: list[LetterRow] = []
    left = MOST_CHARACTERS
    for head in heads:
        place = (*_line(head), head.position)
        sizes = connection.fetch(SIZES_BEHIND, (*place, each))
        count, left = _fitting(sizes, left)
        found += LETTER.rows(connection.fetch(BEHIND, (*place, count)) if count else ())
        if left <= 0:
            break
    return found


def redrive(connection: Connection, query: LetterQuery, now: int) -> int:
    """Let dead letters be tried again; belongs in a transaction."""
    letters = _page(connection, replace(query, dead=True))[: query.limit]
    connection.write(REDRIVE, [(now, each.destination, each.position) for each in letters])
    _mark(connection, {*map(_line, letters)})
    return len(letters)


def discard(connection: Connection, query: LetterQuery) -> int:
    """Delete letters that are dead, or those that wait; belongs in a transaction."""
    dead = query.dead is not False
    letters = _page(connection, replace(query, dead=dead))[: query.limit]
    count = connection.write(DISCARD, [(each.destination, each.position, dead) for each in letters])
    if not dead:
        _mark(connection, {*map(_line, letters)})
    return count


def page(query: LetterQuery) -> str:
    """The statement for the filters that are set, so that each combination finds its index."""
    names = tuple(name for name in FILTERS if getattr(query, name) is not None)
    terms = [FILTERS[name] for name in names]
    if query.instance is not None:
        terms.append("letter.instance = :instance")
    if query.ids:
        return " AND ".join([BY_ID, *terms])
    where = " AND ".join(["dead = :dead", "position > :after", "position <= :until", *terms])
    source = f"{LETTER.select} INDEXED BY {INDEXES[names]}"
    return f"{source} WHERE {where} ORDER BY position, destination LIMIT :limit"


def _page(
    connection: Connection,
    query: LetterQuery,
    *,
    after: int | None = None,
    until: int = THE_LAST,
    limit: int | None = None,
) -> list[LetterRow]:
    """The first letters between two positions, and perhaps more: the dead and the others are found apart."""
    values = {
        "destination": query.destination,
        "tenant": query.tenant,
        "instance": query.instance,
        "ids": _ids(query),
        "after": query.after if after is None else after,
        "until": until,
        "limit": query.limit if limit is None else limit,
    }
    states = (False, True) if query.dead is None else (query.dead,)
    found = [row for dead in states for row in connection.fetch(page(query), {**values, "dead": dead})]
    return sorted(LETTER.rows(found), key=_order)


def _due(connection: Connection, query: LetterQuery, now: int) -> list[LetterRow]:
    """The longest due, but in the order of their messages."""
    values = {
        "tenant": query.tenant,
        "instance": query.instance,
        "ids": _ids(query),
        "after": query.after,
        "limit": query.limit,
        "now": now,
    }
    destinations = connection.fetch(DESTINATIONS) if query.destination is None else [(query.destination,)]
    found: list[tuple[Any, ...]] = []
    left = MOST_CHARACTERS
    for (each,) in destinations:
        place = {**values, "destination": each}
        count, left = _fitting(connection.fetch(SIZES_OF_DUE, place), left)
        found += connection.fetch(DUE, {**place, "limit": count}) if count else ()
        if left <= 0:
            break
    letters = sorted(LETTER.rows(found), key=lambda letter: letter.due)
    return sorted(letters[: query.limit], key=_order)


def _fitting(sizes: Iterable[tuple[int | None]], left: int) -> tuple[int, int]:
    """How many fit where so much is left, the one that is too large among them, and what is left then."""
    count = 0
    for (size,) in sizes:
        if left <= 0:
            break
        count, left = count + 1, left - (size or 0)
    return count, left


def _ids(query: LetterQuery) -> str | None:
    return encode([*dict.fromkeys(query.ids)]).decode() if query.ids else None


def _mark(connection: Connection, lines: Iterable[Line]) -> None:
    """Mark the first that waits of each line."""
    changed = [*lines]
    connection.write(UNMARK, changed)
    connection.write(MARK, changed)


def _line(letter: LetterRow) -> Line:
    return letter.destination, letter.tenant, letter.instance


def _order(letter: LetterRow) -> tuple[int, str]:
    return letter.position, letter.destination
