"""API keys on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from headway.store.postgres.connection import Connection
from headway.store.postgres.database import Commands, PostgresDatabase
from headway.store.postgres.tables import NOW, Table, Where, listed
from headway.store.queries import KeyNoteQuery, KeyQuery
from headway.store.rows import KeyNoteRow, KeyRow
from headway.store.unit import AddKey, ChangeKey

KEY = Table("api_key", KeyRow, given="api_key_given", key=("id",))
NOTE = Table("key_note", KeyNoteRow, given="key_note_given", key=("tenant", "key", "at", "what"))
FIND = f"SELECT {NOW}, {listed(KEY.columns, 'api_key.')} FROM (SELECT 1) AS one LEFT JOIN api_key ON id = $2"
MERGED = """
ON CONFLICT (tenant, key, at, what) DO UPDATE SET count = key_note.count + excluded.count,
first_at = least(key_note.first_at, excluded.first_at),
last_at = greatest(key_note.last_at, excluded.last_at), by = excluded.by
"""
NOTE_IF_CHANGED = f"""
INSERT INTO key_note ({listed(NOTE.written)}) SELECT {listed(NOTE.written, "given.")}
FROM changed, unnest($2::key_note_given[]) AS given {MERGED}
"""
ADD = f"""
WITH changed AS ({KEY.insert.format(rows="$1::api_key_given[]")} RETURNING id), noted AS ({NOTE_IF_CHANGED})
SELECT id FROM changed
"""
CHANGE = f"""
WITH changed AS (
    UPDATE api_key SET secret = given.secret, old_secret = given.old_secret, old_until = given.old_until,
    expires_at = given.expires_at, revoked_at = given.revoked_at FROM unnest($1::api_key_given[]) AS given
    WHERE api_key.tenant = given.tenant AND api_key.id = given.id AND api_key.secret = $3
    AND api_key.revoked_at IS NULL RETURNING api_key.id
), noted AS ({NOTE_IF_CHANGED}) SELECT id FROM changed
"""
ADD_NOTES = f"""
WITH used AS (
    UPDATE api_key SET used_at = greatest(api_key.used_at, given.at) FROM unnest($2::key_use_given[]) AS given
    WHERE api_key.id = given.id
) {NOTE.insert.format(rows="$1::key_note_given[]")} {MERGED}
"""
AFTER = """
(made_at, id) > ((SELECT made_at FROM api_key WHERE id = {} AND tenant = coalesce({}::text, tenant)), {})
"""
PRUNE = """
DELETE FROM key_note WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM key_note WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED
)) RETURNING 1
"""


class PostgresKeys:
    """The API keys of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.commands: Commands = {AddKey: _add, ChangeKey: _change}

    async def find(self, key: str) -> tuple[datetime, KeyRow | None]:
        """The store's time, and the key of an id; what is not there costs as much as what is."""
        [(now, *columns)] = await self._database.fetch(FIND, self._database.time(), key)
        found = [columns] if columns[KEY.columns.index("id")] is not None else []
        return now, next(iter(KEY.rows(found)), None)

    async def list(self, query: KeyQuery) -> Sequence[KeyRow]:
        """A page of keys."""
        where = Where()
        where.equal(tenant=query.tenant)
        if query.after is not None:
            where.add(AFTER, query.after, query.tenant, query.after)
        limit = where.bind(query.limit)
        return KEY.rows(
            await self._database.fetch(
                f"{KEY.select} {where} ORDER BY made_at, id LIMIT {limit}", *where.values
            )
        )

    async def add(self, key: KeyRow, note: KeyNoteRow) -> None:
        """Store a new key, and a note of it."""
        await self._database.on_connection(lambda held: _add(held, AddKey(key, note)))

    async def change(self, key: KeyRow, note: KeyNoteRow, *, was: str) -> bool:
        """Give a key its new secrets and times, if its secret still is `was` and it is not revoked."""
        return await self._database.on_connection(lambda held: _change(held, ChangeKey(key, note, was)))

    async def note(self, notes: Sequence[KeyNoteRow], used: Mapping[str, datetime]) -> None:
        """Add notes to those of the same key, time and kind, and set when keys were last used."""
        # In one order, so that no two nodes wait for each other.
        await self._database.fetch(ADD_NOTES, sorted(NOTE.values(notes)), sorted(used.items()), writes=True)

    async def notes(self, query: KeyNoteQuery) -> Sequence[KeyNoteRow]:
        """A page of notes."""
        where = Where()
        where.equal(tenant=query.tenant, key=query.key)
        if query.before is not None:
            where.add("(at, what) < ({}, {})", *query.before)
        limit = where.bind(query.limit)
        return NOTE.rows(
            await self._database.fetch(
                f"{NOTE.select} {where} ORDER BY at DESC, what DESC LIMIT {limit}", *where.values
            )
        )

    async def prune_notes(self, before: datetime, limit: int) -> int:
        """Delete notes from before a time; returns how many."""
        return len(await self._database.fetch(PRUNE, before, limit, writes=True))


async def _add(connection: Connection, command: AddKey) -> bool:
    values = (KEY.values([command.key]), NOTE.values([command.note]))
    return bool(await connection.fetch(ADD, *values, writes=True))


async def _change(connection: Connection, command: ChangeKey) -> bool:
    values = (KEY.values([command.key]), NOTE.values([command.note]), command.was)
    return bool(await connection.fetch(CHANGE, *values, writes=True))
