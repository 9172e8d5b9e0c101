"""The bank, which keeps a book of its own and moves money once for each key, however often it is asked."""

import sqlite3
from contextlib import closing

BOOK = "bank.db"
TABLE = "CREATE TABLE IF NOT EXISTS transfers (key TEXT PRIMARY KEY, asked INTEGER NOT NULL)"
ASK = "INSERT INTO transfers VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET asked = asked + 1 RETURNING asked"
SUMS = "SELECT count(*), coalesce(sum(asked), 0) FROM transfers"


def transfer(key: str) -> bool:
    """Move money; False when that was done before under the same key."""
    with closing(sqlite3.connect(BOOK)) as book, book:
        book.execute(TABLE)
        [asked] = book.execute(ASK, (key,)).fetchone()
        return bool(asked == 1)


def sums() -> tuple[int, int]:
    """How many transfers there were, and how often somebody asked for one."""
    with closing(sqlite3.connect(BOOK)) as book, book:
        book.execute(TABLE)
        transfers, asked = book.execute(SUMS).fetchone()
        return transfers, asked
