"""API keys on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.store.queries import KeyNoteQuery, KeyQuery
from headway.store.rows import KeyNoteRow, KeyRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.database import Commands, SqliteDatabase
from headway.store.sqlite.tables import Table, to_time
from headway.store.unit import AddKey, ChangeKey

KEY = Table("api_key", KeyRow, key=("id",))
NOTE = Table("key_note", KeyNoteRow, key=("tenant", "key", "at", "what"))
CHANGE = """
UPDATE api_key SET secret = ?, old_secret = ?, old_until = ?, expires_at = ?, revoked_at = ?
WHERE tenant = ? AND id = ? AND secret = ? AND revoked_at IS NULL
"""
ADD_NOTE = f"""
{NOTE.insert} ON CONFLICT (tenant, key, at, what) DO UPDATE SET count = count + excluded.count,
first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at), by = excluded.by
"""
USED = "UPDATE api_key SET used_at = max(coalesce(used_at, ?1), ?1) WHERE id = ?2"
AFTER = """
(made_at, id) > (
    (SELECT made_at FROM api_key WHERE id = :after AND tenant = coalesce(:tenant, tenant)), :after
)
"""
PAGE_OF_NOTES = f"""
{NOTE.select} WHERE tenant = ? AND key = ? AND (at, what) < (?, ?) ORDER BY at DESC, what DESC LIMIT ?
"""
PRUNE = """
DELETE FROM key_note WHERE (tenant, key, at, what) IN (
    SELECT tenant, key, at, what FROM key_note WHERE at < ? ORDER BY at LIMIT ?
)
"""
THE_END = (2**63 - 1, "")


class SqliteKeys:
    """The API keys of a database."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.commands: Commands = {
            AddKey: lambda held, given: add_key(held, given.key, given.note),
            ChangeKey: lambda held, given: change_key(held, given.key, given.note, given.was),
        }

    async def find(self, key: str) -> tuple[datetime, KeyRow | None]:
        """The store's time, and the key of an id."""
        found = await self._database.row(KEY, (key,))
        return self._database.now(), found

    async def list(self, query: KeyQuery) -> Sequence[KeyRow]:
        """A page of keys."""
        values = {"tenant": query.tenant, "after": query.after, "limit": query.limit}
        return await self._database.rows(KEY, _page(query), values)

    async def add(self, key: KeyRow, note: KeyNoteRow) -> None:
        """Store a new key, and a note of it."""
        await self._database.write(lambda held: add_key(held, key, note))

    async def change(self, key: KeyRow, note: KeyNoteRow, *, was: str) -> bool:
        """Give a key its new secrets and times, if its secret still is `was` and it is not revoked."""
        return await self._database.write(lambda held: change_key(held, key, note, was))

    async def note(self, notes: Sequence[KeyNoteRow], used: Mapping[str, datetime]) -> None:
        """Add notes to those of the same key, time and kind, and set when keys were last used."""

        def job(connection: Connection) -> None:
            connection.write(ADD_NOTE, [*map(NOTE.values, notes)])
            connection.write(USED, [(to_time(at), key) for key, at in used.items()])

        await self._database.write(job)

    async def notes(self, query: KeyNoteQuery) -> Sequence[KeyNoteRow]:
        """A page of notes."""
        before = THE_END if query.before is None else (to_time(query.before[0]), query.before[1])
        values = (query.tenant, query.key, *before, query.limit)
        return await self._database.rows(NOTE, PAGE_OF_NOTES, values)

    async def prune_notes(self, before: datetime, limit: int) -> int:
        """Delete notes from before a time; returns how many."""
        return await self._database.write(lambda held: held.write(PRUNE, [(to_time(before), limit)]))


def add_key(connection: Connection, key: KeyRow, note: KeyNoteRow) -> bool:
    """Store a new key, and a note of it; belongs in a transaction."""
    connection.write(KEY.insert, [KEY.values(key)])
    connection.write(ADD_NOTE, [NOTE.values(note)])
    return True


def change_key(connection: Connection, key: KeyRow, note: KeyNoteRow, was: str) -> bool:
    """Change a key while it has the secret it `was` and is not revoked; belongs in a transaction."""
    times = [_time(at) for at in (key.old_until, key.expires_at, key.revoked_at)]
    values = (key.secret, key.old_secret, *times, key.tenant, key.id, was)
    changed = connection.write(CHANGE, [values]) > 0
    connection.write(ADD_NOTE, [NOTE.values(note)] * changed)
    return changed


def _page(query: KeyQuery) -> str:
    terms = ["true"] if query.tenant is None else ["tenant = :tenant"]
    terms += [] if query.after is None else [AFTER]
    return f"{KEY.select} WHERE {' AND '.join(terms)} ORDER BY made_at, id LIMIT :limit"


def _time(at: datetime | None) -> Any:
    return None if at is None else to_time(at)
