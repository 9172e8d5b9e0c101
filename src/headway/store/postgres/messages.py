"""Messages on PostgreSQL: a log that misses nothing, and how far its consumers have read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.history import FORGET, IS_LIVE
from headway.store.postgres.tables import LETTER, MESSAGE, NOW, Where
from headway.store.queries import MessagePage, MessageQuery, Settlement
from headway.store.rows import AFTER_LINES, Cursor

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
    SELECT stamp, {AFTER_LINES} AS position, position AS message FROM gone WHERE {IS_LIVE}
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


class PostgresMessages:
    """The messages of a database and their consumers."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def page(self, query: MessageQuery) -> MessagePage:
        """Those that fit among the next messages; the cursor stays where it is if there is none beyond it.

        Unless it is asked for early, what is read is known to be complete by then: nothing before the last
        of them can still be committed.
        """
        after = (*query.after[:2], query.limit, THE_LAST if query.early else None)
        found = await self._database.fetch(WEIGH, *after)
        if not found:
            return MessagePage([], query.after)
        [(stamp, position, count, size)] = found
        fits = size is None or size <= MOST_BYTES
        if not fits:
            [(stamp, position)] = await self._database.fetch(LAST_THAT_FITS, *after, MOST_BYTES)
        last = Cursor(stamp, position)
        sql, values = page_of_messages(query, last)
        return MessagePage(
            MESSAGE.rows(await self._database.fetch(sql, *values)), last, fits and count < query.limit
        )

    async def last(self) -> Cursor:
        """The cursor from which to read what is committed from now on."""
        [(stamp,)] = await self._database.fetch(LAST_MESSAGE)
        return Cursor(stamp)

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has read; None if it has not settled anything."""
        return next((Cursor(*row) for row in await self._database.fetch(CONSUMER, name)), None)

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, if it has lost its lease."""
        [(held,)] = await self._database.write(SETTLE, *settling(settlement, self._database.time()))
        return bool(held)

    async def retire(self, consumer: str) -> bool:
        """Delete a consumer and its letters; False if somebody holds its lease."""
        [(retired,)] = await self._database.write(RETIRE, self._database.time(), consumer)
        return bool(retired)

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers have read; returns how many."""
        return len(await self._database.write(PRUNE_MESSAGES, before, limit))


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
