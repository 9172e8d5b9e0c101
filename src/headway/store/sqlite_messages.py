"""Messages on SQLite: a log in the order of its positions, because one writes at a time."""

# ruff: noqa: S608 - statements are composed of names in this code; values are always bound

from __future__ import annotations

from headway.codec import decode, encode
from headway.store.port import MessagePage, MessageQuery, Settlement
from headway.store.rows import Cursor
from headway.store.sqlite_connection import Connection
from headway.store.sqlite_leases import is_held
from headway.store.sqlite_letters import settle_letters
from headway.store.sqlite_tables import MESSAGE

WINDOW = 1_000
"""So many messages are looked at for those that fit a query."""
MOST_CHARACTERS = 64 * 1024 * 1024
"""No more data is looked at for a page than this, and one message."""

LAST_OF_WINDOW = """
SELECT max(position) FROM (
    SELECT position, sum(length(data)) OVER those_before AS characters
    FROM (SELECT position, data FROM outbox WHERE position > ? ORDER BY position LIMIT ?)
    WINDOW those_before AS (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) WHERE coalesce(characters, 0) < ?
"""
# All rows as one JSON text: fetched one by one, each row would wait for its turn among Python's threads.
PAGE = f"""
SELECT json_group_array(json_array({", ".join(MESSAGE.columns)})) FROM (
    {MESSAGE.select} WHERE position > :after AND position <= :last
    AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
    AND (:tenant IS NULL OR tenant = :tenant)
    ORDER BY position LIMIT :limit
)
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


def read_messages(connection: Connection, query: MessageQuery) -> MessagePage:
    """A page of messages; the cursor stays where it is when there is nothing beyond it."""
    filtered = bool(query.kinds or query.tenant is not None)
    window = max(query.limit, WINDOW) if filtered else query.limit
    [(last,)] = connection.fetch(LAST_OF_WINDOW, (query.after.position, window, MOST_CHARACTERS))
    if last is None:
        return MessagePage([], query.after)
    kinds = encode(query.kinds).decode() if query.kinds else None
    bound = {"after": query.after.position, "last": last, "kinds": kinds, "tenant": query.tenant}
    [(page,)] = connection.fetch(PAGE, {**bound, "limit": query.limit})
    messages = MESSAGE.rows(decode(list[Stored], page))
    full = len(messages) == query.limit and messages
    return MessagePage(messages, messages[-1].cursor if full else Cursor(0, last))


def last_message(connection: Connection) -> Cursor:
    """From where to read what comes from now on."""
    [(position,)] = connection.fetch(LAST_MESSAGE)
    return Cursor(0, position or 0)


def find_consumer(connection: Connection, name: str) -> Cursor | None:
    """How far a consumer has come."""
    found = connection.fetch(CONSUMER, (name,))
    return Cursor(*found[0]) if found else None


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
