"""The port for API keys: what those who check callers need of a store, apart from what the engine needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headway.codec import Value
from headway.errors import InputError
from headway.store.port import Store
from headway.store.rows import KeyNoteRow, KeyRow


class KeyQuery(Value):
    """Which keys to list, the oldest first: those after a cursor (a key's id); no tenant is all of them."""

    tenant: str | None = None
    after: str | None = None
    limit: int = 100


class KeyNoteQuery(Value):
    """Which notes of a key to list, the newest first: those before a cursor (a note's `at` and `what`)."""

    tenant: str
    key: str
    before: tuple[datetime, str] | None = None
    limit: int = 100


class KeyStore(Protocol):
    """Keeps keys and what is noted of them. Raises what a Store raises."""

    async def find(self, key: str) -> tuple[datetime, KeyRow | None]:
        """The store's time, and the key of an id; what is not there costs as much as what is."""

    async def list(self, query: KeyQuery) -> Sequence[KeyRow]:
        """A page of keys."""

    async def add(self, key: KeyRow, note: KeyNoteRow) -> None:
        """Store a new key, and a note of it."""

    async def change(self, key: KeyRow, note: KeyNoteRow, *, was: str) -> bool:
        """Give a key its new secrets and times, while it has the secret it `was` and is not revoked."""

    async def note(self, notes: Sequence[KeyNoteRow], used: Mapping[str, datetime]) -> None:
        """Add notes to those of the same key, time and kind, and when keys were used last."""

    async def notes(self, query: KeyNoteQuery) -> Sequence[KeyNoteRow]:
        """A page of notes."""

    async def prune_notes(self, before: datetime, limit: int) -> int:
        """Delete notes from before a time; answers how many."""


def keys_of(store: Store) -> KeyStore:
    """The keys of a store; raises InputError for one that has none."""
    keys: KeyStore | None = getattr(store, "keys", None)
    if keys is None:
        raise InputError(f"a {type(store).__name__} keeps no keys")
    return keys
