"""Letters on PostgreSQL. The first that waits of each instance is marked, so that due ones are found soon."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.store.postgres.connection import Connection
from headway.store.postgres.database import Commands, PostgresDatabase
from headway.store.postgres.tables import LETTER, TIME, Where, listed
from headway.store.queries import LetterPlace, LetterQuery
from headway.store.rows import LetterRow
from headway.store.unit import DiscardLetters, RedriveLetters

MOST_BYTES = 64 * 1024 * 1024
"""Letters to be tried are read up to the one that makes their data as large as this."""
WAITING = """
SELECT tenant, instance, position, attempts FROM letter
WHERE destination = $1 AND NOT dead AND (tenant, instance, position) > ($2, $3, $4)
ORDER BY tenant, instance, position LIMIT $5
"""
# One that was first is marked still when another comes before it that was dead.
IS_DUE = f"""
head AND NOT dead AND due <= {TIME} AND NOT EXISTS (
    SELECT 1 FROM letter AS ahead
    WHERE ahead.destination = letter.destination AND ahead.tenant = letter.tenant
    AND ahead.instance = letter.instance AND ahead.position < letter.position AND NOT ahead.dead
)
"""
BEHIND = f"""
SELECT {listed(LETTER.columns, "behind.")}
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
AS head (destination, tenant, instance, position)
CROSS JOIN LATERAL (
    SELECT * FROM letter WHERE NOT dead AND destination = head.destination AND tenant = head.tenant
    AND instance = head.instance AND position > head.position ORDER BY position LIMIT $5
) AS behind
"""


class PostgresLetters:
    """The letters of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.commands: Commands = {
            RedriveLetters: lambda held, given: _count(held, redriving(given.query, database.time())),
            DiscardLetters: lambda held, given: _count(held, discarding(given.query)),
        }

    async def page(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters; without a destination, all letters of a message are on one page."""
        sql, values = page_of_letters(query, self._database.time())
        return await self._database.rows(LETTER, sql, *values)

    async def waiting(self, destination: str, after: LetterPlace, limit: int) -> Sequence[LetterPlace]:
        """The places of a destination's letters that are not dead, in the order of places."""
        found = await self._database.fetch(WAITING, destination, *after[:3], limit)
        return [LetterPlace(*each) for each in found]

    async def behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """The letters behind others of their instance and destination: up to `each` of each, in order."""
        return await self._database.rows(LETTER, *behind(heads, each))

    async def redrive(self, query: LetterQuery) -> int:
        """Make dead letters due now, with all their attempts; returns how many."""
        sql, values = redriving(query, self._database.time())
        return len(await self._database.write(sql, *values))

    async def discard(self, query: LetterQuery) -> int:
        """Delete dead letters, or with `dead=False` those that are not dead; returns how many."""
        sql, values = discarding(query)
        return len(await self._database.write(sql, *values))


async def _count(connection: Connection, statement: tuple[str, list[Any]]) -> int:
    sql, values = statement
    return len(await connection.fetch(sql, *values))


def page_of_letters(query: LetterQuery, now: datetime | None) -> tuple[str, list[Any]]:
    """The statement for the filters that are set; letters of equal position are on the same page.

    Of what is due it has the longest due.
    """
    where = _letters(query)
    if query.dead is not None:
        where.add("dead" if query.dead else "NOT dead")
    if query.due:
        where.add(IS_DUE, now)
    order = (
        "due, position FETCH FIRST {} ROWS ONLY" if query.due else "position FETCH FIRST {} ROWS WITH TIES"
    )
    page = f"{LETTER.select} {where} ORDER BY {order.format(where.bind(query.limit))}"
    if query.due:
        return _those_that_fit(page, where.bind(MOST_BYTES)), where.values
    return f"SELECT * FROM ({page}) AS page ORDER BY position, destination", where.values


def behind(heads: Sequence[LetterRow], each: int) -> list[Any]:
    """The statement for letters behind others, and its values."""
    lines = [(head.destination, head.tenant, head.instance, head.position) for head in heads]
    return [_those_that_fit(BEHIND, "$6"), *map(list, zip(*lines, strict=True)), each, MOST_BYTES]


def _those_that_fit(page: str, most: str) -> str:
    """The statement for the first letters of a page, up to the one that makes their data too large."""
    before = "sum(octet_length(data)) OVER (ORDER BY position, destination ROWS BETWEEN UNBOUNDED PRECEDING"
    return f"""
        SELECT {listed(LETTER.columns)} FROM (
            SELECT page.*, {before} AND 1 PRECEDING) AS size_before FROM ({page}) AS page
        ) AS weighed WHERE coalesce(size_before, 0) < {most} ORDER BY position, destination
    """


def redriving(query: LetterQuery, now: datetime | None) -> tuple[str, list[Any]]:
    """The statement that gives dead letters all their attempts again."""
    where, found = _chosen_letters(query, dead=True)
    again = f"dead = false, attempts = 0, due = {TIME.format(where.bind(now))}"
    return f"UPDATE letter SET {again} WHERE ctid = ANY (ARRAY({found})) RETURNING 1", where.values


def discarding(query: LetterQuery) -> tuple[str, list[Any]]:
    """The statement that deletes letters that are dead, or those that wait."""
    where, found = _chosen_letters(query, dead=query.dead is not False)
    return f"DELETE FROM letter WHERE ctid = ANY (ARRAY({found})) RETURNING 1", where.values


def _chosen_letters(query: LetterQuery, *, dead: bool) -> tuple[Where, str]:
    where = _letters(query)
    where.add("dead" if dead else "NOT dead")
    limit = where.bind(query.limit)
    return where, f"SELECT ctid FROM letter {where} ORDER BY position, destination LIMIT {limit} FOR UPDATE"


def _letters(query: LetterQuery) -> Where:
    where = Where()
    where.equal(destination=query.destination, tenant=query.tenant, instance=query.instance)
    where.add("position > {}", query.after)
    if query.ids:
        where.add("id = ANY({}::text[])", query.ids)
    return where
