"""Messages on SQLite: a log in the order of its positions, because one writes at a time."""

from __future__ import annotations

from datetime import datetime

from headway.codec import decode, encode
from headway.store.queries import MessagePage, MessageQuery, Settlement
from headway.store.rows import Cursor
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import SqliteDatabase
from headway.store.sqlite.history import IS_LIVE, forgetting
from headway.store.sqlite.leases import is_held
from headway.store.sqlite.letters import settle_letters
from headway.store.sqlite.tables import MESSAGE, to_time

MOST_CHARACTERS = 64 * 1024 * 1024
"""No more data is looked at for a page than this, and one message."""

WEIGH = """
SELECT max(position), count(*), sum(length(data))
FROM (SELECT position, data FROM outbox WHERE position > ? ORDER BY position LIMIT ?)
"""
LAST_THAT_FITS = """
SELECT max(position) FROM (
    SELECT position, sum(length(data)) OVER those_before AS characters
    FROM (SELECT position, data FROM outbox WHERE position > ? ORDER BY position LIMIT ?)
    WINDOW those_before AS (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) WHERE coalesce(characters, 0) < ?
"""
# All rows as one JSON text: fetched one by one, each row would wait for its turn among Python's threads.
# Without an index it is the order of positions in which they are found.
PAGE = f"""
SELECT json_group_array(json_array({", ".join(MESSAGE.columns)})) FROM outbox NOT INDEXED
WHERE position > :after AND position <= :last
AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
AND (:tenant IS NULL OR tenant = :tenant)
"""
Stored = tuple[str, str, str, str, str, str | None, int, str | None, int]
"""The columns of a message."""
LAST_MESSAGE = "SELECT max(position) FROM outbox"
IS_AT_WORK = "SELECT 1 FROM lease WHERE tenant = '' AND name = ? AND until > ?"
RETIRE = (
    "DELETE FROM lease WHERE tenant = '' AND name = ?",
    "DELETE FROM letter WHERE destination = ?",
    "DELETE FROM consumer WHERE name = ?",
)
CONSUMER = "SELECT stamp, position FROM consumer WHERE name = ?"
MOVE_CONSUMER = (
    "INSERT INTO consumer (name, stamp, position) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET stamp = excluded.stamp, position = excluded.position"
)
# Messages stand in the order of time, but for a clock that was set back: one that is too young ends the turn.
OLD_MESSAGES = """
SELECT position FROM (
    SELECT position, at FROM outbox
    WHERE position <= coalesce((SELECT min(position) FROM consumer), 9223372036854775807)
    ORDER BY position LIMIT ?2
) WHERE at < ?1
"""
PRUNE_MESSAGES = f"DELETE FROM outbox WHERE position IN ({OLD_MESSAGES})"
# Later messages never stand before earlier ones, so the last of them has the last line, too.
FORGET_MESSAGES = forgetting(
    f"""
SELECT line, position FROM (
    SELECT line, max(position) AS position FROM outbox WHERE {IS_LIVE} AND position IN ({OLD_MESSAGES})
) WHERE position IS NOT NULL
"""
)


class SqliteMessages:
    """The messages of a database and their consumers."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def page(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on, in the order they were committed."""
        return await self._database.read(lambda held: read_messages(held, query))

    async def last(self) -> Cursor:
        """The cursor from which to read what is committed from now on."""
        [(position,)] = await self._database.fetch(LAST_MESSAGE)
        return Cursor(0, position or 0)

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has read; None if it has not settled anything."""
        found = await self._database.fetch(CONSUMER, (name,))
        return Cursor(*found[0]) if found else None

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, if it has lost its lease."""
        return await self._database.write(lambda held: settle(held, settlement, self._database.time()))

    async def retire(self, consumer: str) -> bool:
        """Delete a consumer and its letters; False if somebody holds its lease."""
        return await self._database.write(lambda held: retire(held, consumer, self._database.time()))

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers have read; returns how many."""
        return await self._database.write(lambda held: prune_read(held, to_time(before), limit))


def read_messages(connection: Connection, query: MessageQuery) -> MessagePage:
    """Those that fit among the next messages; the cursor stays where it is when there is none beyond it."""
    after, limit = query.after.position, query.limit
    [(last, count, characters)] = connection.fetch(WEIGH, (after, limit))
    if last is None:
        return MessagePage([], query.after)
    fits = characters is None or characters <= MOST_CHARACTERS
    if not fits:
        [(last,)] = connection.fetch(LAST_THAT_FITS, (after, limit, MOST_CHARACTERS))
    kinds = encode(query.kinds).decode() if query.kinds else None
    bound = {"after": after, "last": last, "kinds": kinds, "tenant": query.tenant}
    [(page,)] = connection.fetch(PAGE, bound)
    return MessagePage(MESSAGE.rows(decode(list[Stored], page)), Cursor(0, last), fits and count < limit)


def retire(connection: Connection, name: str, now: int) -> bool:
    """Forget a consumer and its letters, unless it is at work; belongs in a transaction."""
    if connection.fetch(IS_AT_WORK, (name, now)):
        return False
    for sql in RETIRE:
        connection.write(sql, [(name,)])
    return True


def settle(connection: Connection, settlement: Settlement, now: int) -> bool:
    """Write what a consumer has done, if it has its lease; belongs in a transaction."""
    if not is_held(connection, ("", settlement.consumer), settlement.holder, now):
        return False
    connection.write(MOVE_CONSUMER, [(settlement.consumer, *settlement.cursor[:2])])
    settle_letters(connection, settlement)
    return True


def prune_read(connection: Connection, before: int, limit: int) -> int:
    """Delete messages that all consumers are past, from before a time."""
    connection.write(FORGET_MESSAGES, [(before, limit)])
    return connection.write(PRUNE_MESSAGES, [(before, limit)])
