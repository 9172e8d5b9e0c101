"""Messages as a log that misses nothing, how far its consumers are, and the letters they owe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from headway.store.port import LetterQuery, MessagePage, MessageQuery, Settlement
from headway.store.postgres.events import FORGET
from headway.store.postgres.query import NOW, TIME, Where
from headway.store.postgres.tables import LETTER, MESSAGE, listed
from headway.store.rows import AFTER_LINES, Cursor, LetterRow

Fetch = Callable[..., Awaitable[Sequence[Sequence[Any]]]]
"""Answers a statement with the rows it finds."""

BEFORE_ALL_UNDER_WAY = "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"
PAST_ALL_CONSUMERS = """
NOT EXISTS (
    SELECT 1 FROM consumer WHERE (consumer.stamp, consumer.position) < (outbox.stamp, outbox.position)
)
"""
THE_LAST = 2**63 - 1
MOST_BYTES = 64 * 1024 * 1024
"""A page ends with the message that makes its data as large as this."""
NEXT = f"""
SELECT stamp, position, octet_length(data) AS size FROM outbox
WHERE stamp < coalesce($4::bigint, {BEFORE_ALL_UNDER_WAY}) AND (stamp, position) > ($1, $2)
ORDER BY stamp, position LIMIT $3
"""
WEIGH = f"""
WITH next AS MATERIALIZED ({NEXT})
SELECT last.stamp, last.position, (SELECT count(*) FROM next), (SELECT sum(size) FROM next)
FROM (SELECT stamp, position FROM next ORDER BY stamp DESC, position DESC LIMIT 1) AS last
"""
LAST_THAT_FITS = f"""
WITH next AS MATERIALIZED ({NEXT})
SELECT stamp, position FROM (
    SELECT stamp, position, coalesce(sum(size) OVER those_before, 0) AS size_before FROM next
    WINDOW those_before AS (ORDER BY stamp, position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS weighed WHERE size_before < $5 ORDER BY stamp DESC, position DESC LIMIT 1
"""
LAST_MESSAGE = f"SELECT {BEFORE_ALL_UNDER_WAY}"
RETIRE = f"""
WITH busy AS (
    SELECT 1 FROM lease WHERE tenant = '' AND name = $2 AND until > {NOW}
), lease_gone AS (
    DELETE FROM lease WHERE tenant = '' AND name = $2 AND NOT EXISTS (SELECT 1 FROM busy)
), letters_gone AS (
    DELETE FROM letter WHERE destination = $2 AND NOT EXISTS (SELECT 1 FROM busy)
), consumer_gone AS (
    DELETE FROM consumer WHERE name = $2 AND NOT EXISTS (SELECT 1 FROM busy)
)
SELECT NOT EXISTS (SELECT 1 FROM busy)
"""
CONSUMER = "SELECT stamp, position FROM consumer WHERE name = $1"
PRUNE_MESSAGES = f"""
WITH gone AS (
    DELETE FROM outbox WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM outbox WHERE at < $1 AND {PAST_ALL_CONSUMERS} LIMIT $2 FOR UPDATE SKIP LOCKED
    )) RETURNING stamp, position, kind
), last AS (
    SELECT stamp, {AFTER_LINES} AS position, position AS message FROM gone WHERE kind = 'live'
    ORDER BY stamp DESC, message DESC LIMIT 1
), noted AS (
    {FORGET}
)
SELECT 1 FROM gone
"""
SETTLE = f"""
WITH mine AS MATERIALIZED (
    SELECT 1 FROM lease WHERE tenant = '' AND name = $2 AND holder = $3 AND until > {NOW} FOR UPDATE
), reached AS (
    INSERT INTO consumer (name, stamp, position) SELECT $2, $4::bigint, $5::bigint FROM mine
    ON CONFLICT (name) DO UPDATE SET stamp = excluded.stamp, position = excluded.position
), written AS (
    {LETTER.insert.format(rows="$6::letter_given[]")} WHERE EXISTS (SELECT 1 FROM mine) {LETTER.renewal}
), arrived AS (
    DELETE FROM letter USING (
        SELECT found.place FROM unnest($7::bigint[]) AS delivered (position) CROSS JOIN LATERAL (
            SELECT ctid AS place FROM letter WHERE destination = $2 AND position = delivered.position OFFSET 0
        ) AS found WHERE EXISTS (SELECT 1 FROM mine)
    ) AS found WHERE letter.ctid = found.place
)
SELECT count(*) FROM mine
"""
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


async def read_messages(fetch: Fetch, query: MessageQuery) -> MessagePage:
    """Those that fit among the next messages; the cursor stays where it is when there is none beyond it.

    Unless it is asked for early, what is read is known to be complete by then: nothing before the last of
    them can still be committed.
    """
    after = (*query.after[:2], query.limit, THE_LAST if query.early else None)
    found = await fetch(WEIGH, *after)
    if not found:
        return MessagePage([], query.after)
    [(stamp, position, count, size)] = found
    fits = size is None or size <= MOST_BYTES
    if not fits:
        [(stamp, position)] = await fetch(LAST_THAT_FITS, *after, MOST_BYTES)
    last = Cursor(stamp, position)
    sql, values = page_of_messages(query, last)
    return MessagePage(MESSAGE.rows(await fetch(sql, *values)), last, fits and count < query.limit)


def page_of_messages(query: MessageQuery, last: Cursor) -> tuple[str, list[Any]]:
    """The statement for those of a query up to one of them."""
    where = Where()
    where.add("(stamp, position) > ({}, {})", *query.after[:2])
    where.add("(stamp, position) <= ({}, {})", *last[:2])
    where.equal(tenant=query.tenant)
    if query.kinds:
        where.add("kind = ANY({}::text[])", query.kinds)
    return f"{MESSAGE.select} {where} ORDER BY stamp, position", where.values


def settling(settlement: Settlement, now: datetime | None) -> list[Any]:
    """The parameters of `SETTLE`."""
    letters = {(letter.destination, letter.position): letter for letter in settlement.letters}
    delivered = {*settlement.delivered} - {
        position for destination, position in letters if destination == settlement.consumer
    }
    values = LETTER.values(letters[key] for key in sorted(letters))
    return [now, settlement.consumer, settlement.holder, *settlement.cursor[:2], values, sorted(delivered)]


def page_of_letters(query: LetterQuery, now: datetime | None) -> tuple[str, list[Any]]:
    """The statement for the filters that are set; a page ends with a position, whoever shares that.

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
