"""API keys in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from headway.codec import replace
from headway.store.queries import KeyNoteQuery, KeyQuery
from headway.store.rows import KeyNoteRow, KeyRow
from headway.store.unit import AddKey, ChangeKey
from headway.testing.memory.tables import Commands, JobRunner, Tables


class MemoryKeys:
    """The API keys of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call
        self.commands: Commands = {
            AddKey: lambda tables, given, _: _add(tables, given.key, given.note),
            ChangeKey: lambda tables, given, _: _change(tables, given.key, given.note, given.was),
        }

    async def find(self, key: str) -> tuple[datetime, KeyRow | None]:
        """The store's time, and the key of an id."""
        return await self._call(lambda tables, now: (now, tables.keys.get(key)))

    async def list(self, query: KeyQuery) -> Sequence[KeyRow]:
        """A page of keys."""
        return await self._call(lambda tables, _: _page(tables, query))

    async def add(self, key: KeyRow, note: KeyNoteRow) -> None:
        """Store a new key, and a note of it."""
        await self._call(lambda tables, _: _add(tables, key, note), writes=True)

    async def change(self, key: KeyRow, note: KeyNoteRow, *, was: str) -> bool:
        """Give a key its new secrets and times, if its secret still is `was` and it is not revoked."""
        return await self._call(lambda tables, _: _change(tables, key, note, was), writes=True)

    async def note(self, notes: Sequence[KeyNoteRow], used: Mapping[str, datetime]) -> None:
        """Add notes to those of the same key, time and kind, and set when keys were last used."""

        def note(tables: Tables, _: datetime) -> None:
            for each in notes:
                _note(tables, each)
            for key, at in used.items():
                if row := tables.keys.get(key):
                    tables.keys[key] = replace(row, used_at=max(row.used_at or at, at))

        await self._call(note, writes=True)

    async def notes(self, query: KeyNoteQuery) -> Sequence[KeyNoteRow]:
        """A page of notes, the newest first."""

        def page(tables: Tables, _: datetime) -> Sequence[KeyNoteRow]:
            found = [
                note
                for note in tables.key_notes.values()
                if (note.tenant, note.key) == (query.tenant, query.key)
                and (query.before is None or (note.at, note.what) < query.before)
            ]
            return sorted(found, key=lambda note: (note.at, note.what), reverse=True)[: query.limit]

        return await self._call(page)

    async def prune_notes(self, before: datetime, limit: int) -> int:
        """Delete notes from before a time; returns how many."""

        def prune(tables: Tables, _: datetime) -> int:
            old = sorted((note.at, key) for key, note in tables.key_notes.items() if note.at < before)[:limit]
            for _, key in old:
                del tables.key_notes[key]
            return len(old)

        return await self._call(prune, writes=True)


def _page(tables: Tables, query: KeyQuery) -> Sequence[KeyRow]:
    rows = [row for row in tables.keys.values() if query.tenant in {None, row.tenant}]
    rows.sort(key=lambda row: (row.made_at, row.id))
    if query.after is not None:
        ids = [row.id for row in rows]
        rows = rows[ids.index(query.after) + 1 :] if query.after in ids else []
    return rows[: query.limit]


def _add(tables: Tables, key: KeyRow, note: KeyNoteRow) -> bool:
    tables.keys[key.id] = key
    _note(tables, note)
    return True


def _change(tables: Tables, key: KeyRow, note: KeyNoteRow, was: str) -> bool:
    before = tables.keys.get(key.id)
    if before is None or (before.tenant, before.secret, before.revoked_at) != (key.tenant, was, None):
        return False
    tables.keys[key.id] = replace(
        before,
        secret=key.secret,
        old_secret=key.old_secret,
        old_until=key.old_until,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
    )
    _note(tables, note)
    return True


def _note(tables: Tables, note: KeyNoteRow) -> None:
    key = (note.tenant, note.key, note.at, note.what)
    if before := tables.key_notes.get(key):
        note = replace(
            note,
            count=before.count + note.count,
            first_at=min(before.first_at, note.first_at),
            last_at=max(before.last_at, note.last_at),
        )
    tables.key_notes[key] = note
