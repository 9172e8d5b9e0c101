"""Cursors: places in a list or in the event log, as callers get them, and the pages they lead to.

A place in the log counts what all tenants do. A tenant gets it encrypted: as a text that is the same each
time and on every node, that says nothing, and that nobody else can make or use.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple, TypeVar

from headway.api.problems import Problem
from headway.codec import decode, encode
from headway.errors import InputError, StoreError
from headway.store.port import Store
from headway.store.rows import Cursor, RecordRow
from headway.store.unit import Changes, Found, Reads

T = TypeVar("T")
MOST_BYTES = 5_000_000
"""The largest size of a page's rows together, unless it has one row only."""
FIRST_ROWS, GROWTH = 20, 10
"""A page is read with few rows first: all rows of a large page may be too much to hold."""
EVENTS = "events"
BEGINNING = "0-0"
"""The place before all events, which is no secret."""
MARK = b"headway seal 1:"
MAC = 12
PLACE = struct.Struct(">4Q")
LENGTH = 59
MOST_KEPT = 4_096
SECRET = ("", "service", "seal")
SECRET_LEASE = ("", "seal")
LEASE = 10_000
PAUSE = 0.05
"""So long a node waits for another one that makes the secret."""


class CursorCipher(NamedTuple):
    """Closes and opens the places of one tenant: one key vouches for a place, the other one hides it."""

    vouching: bytes
    hiding: bytes

    def event(self, cursor: Cursor) -> str:
        """The id of the event at a place: the same for all who read it."""
        return self.close(EVENTS, *cursor)

    def place(self, cursor: Cursor) -> str:
        """A place where perhaps nothing of the tenant is: another text each time.

        One that stayed the same would tell that nobody else has done anything.
        """
        return self.close(EVENTS, *cursor, salt=secrets.randbits(64))

    def cursor(self, text: str) -> Cursor:
        """The place that an id names; raises Problem 422."""
        return Cursor() if text == BEGINNING else Cursor(*self.open(EVENTS, text))

    def close(self, of: str, stamp: int, position: int = 0, message: int = 0, *, salt: int = 0) -> str:
        """A place in a list or a log, as the tenant may see it."""
        body = PLACE.pack(stamp, position, message, salt)
        return _text(_closed(self, of, body))

    def open(self, of: str, text: str) -> tuple[int, int, int]:
        """The place that a text names; raises Problem 422 for one that is forged, or not of this."""
        raw = _raw(text)
        body = _hidden(self, raw[:MAC], raw[MAC:])
        if not hmac.compare_digest(_closed(self, of, body), raw):
            raise _refused()
        stamp, position, message, _ = PLACE.unpack(body)
        return stamp, position, message


class CursorCiphers:
    """The seals of all tenants, from a secret that the database keeps for all its nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret: bytes | None = None
        self._kept: dict[str, CursorCipher] = {}

    async def of(self, tenant: str) -> CursorCipher:
        """A tenant's own."""
        found = self._kept.get(tenant)
        if found is None:
            if self._secret is None:
                self._secret = await shared_secret(self._store)
            if len(self._kept) >= MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            found = self._kept[tenant] = cipher_for(self._secret, tenant)
        return found


def cipher_for(secret: bytes, tenant: str) -> CursorCipher:
    """The seal that a secret gives a tenant."""
    own = tenant.encode()
    vouching, hiding = (hmac.digest(secret, MARK + what + own, sha256) for what in (b"vouch:", b"hide:"))
    return CursorCipher(vouching, hiding)


async def shared_secret(store: Store) -> bytes:
    """The secret of a database; whoever needs it first makes it, and of several nodes one does."""
    holder = secrets.token_hex(8)
    while True:
        if (known := await _kept(store, Secret())) is not None:
            return known
        if not await store.leases.hold([SECRET_LEASE], holder, LEASE):
            await asyncio.sleep(PAUSE)
            continue
        try:
            await store.run(Secret(secrets.token_hex(32)))
        finally:
            with suppress(StoreError):  # the lease ends by itself
                await store.leases.release([SECRET_LEASE], holder)


async def _kept(store: Store, unit: Secret) -> bytes | None:
    await store.run(unit)
    return None if unit.kept is None else decode(str, unit.kept).encode()


class Secret:
    """A unit that reads the secret, and keeps a new one where there is none."""

    def __init__(self, new: str | None = None) -> None:
        self._new, self._now = new, datetime.min.replace(tzinfo=UTC)
        self.kept: str | None = None

    def begin(self) -> Reads:
        """Ask for it."""
        return Reads(records={SECRET})

    def take(self, found: Found) -> None:
        """What there is."""
        row = found.records.get(SECRET)
        self.kept, self._now = None if row is None else row.data, found.now

    def changes(self) -> Changes:
        """A new one, if it is wanted and there is none."""
        if self._new is None or self.kept is not None:
            return Changes()
        return Changes(records=[RecordRow(*SECRET, encode(self._new).decode(), self._now)])


def _closed(keys: CursorCipher, of: str, body: bytes) -> bytes:
    mac = hmac.digest(keys.vouching, of.encode() + b":" + body, sha256)[:MAC]
    return mac + _hidden(keys, mac, body)


def _hidden(keys: CursorCipher, mac: bytes, body: bytes) -> bytes:
    """The body under a pad that only its code and the key give; the same again shows it."""
    pad = hmac.digest(keys.hiding, mac, sha256)
    return (int.from_bytes(body, "big") ^ int.from_bytes(pad, "big")).to_bytes(PLACE.size, "big")


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _raw(text: str) -> bytes:
    try:
        raw = urlsafe_b64decode(f"{text}=") if len(text) == LENGTH else b""
    except ValueError:
        raw = b""
    if len(raw) != MAC + PLACE.size or _text(raw) != text:
        raise _refused()
    return raw


def _refused() -> Problem:
    return Problem("cursor", "this is no cursor of this route")


def cursor_text(of: str, place: object) -> str:
    """A place in a list, as a caller gets it."""
    return urlsafe_b64encode(encode([of, place])).decode().rstrip("=")


def cursor_place(of: str, kind: type[T], text: str) -> T:
    """The place that a cursor of such a list names; raises Problem 422."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        named, place = decode(tuple[str, kind], raw)  # type: ignore[valid-type]
    except (ValueError, InputError) as error:
        raise Problem("cursor", "this is no cursor of this route") from error
    if named != of or cursor_text(of, place) != text:
        raise Problem("cursor", "this is no cursor of this route")
    return place


def position_text(of: str, position: int, cipher: CursorCipher) -> str:
    """A place in a list whose rows are counted for all tenants together."""
    return cursor_text(of, cipher.close(of, position))


def position_of(of: str, text: str | None, cipher: CursorCipher) -> int:
    """The position that such a cursor names, 0 for none; raises Problem 422."""
    return 0 if text is None else cipher.open(of, cursor_place(of, str, text))[0]


def id_of(text: str) -> str:
    """An id out of a cursor; raises Problem 422 for what none can be."""
    if "\x00" in text:
        raise Problem("cursor", "this is no cursor of this route")
    return text


async def paged(
    read: Callable[[int], Awaitable[Sequence[T]]], limit: int, cursor_of: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """A page of what `read` gives for a limit, and the cursor of the next one if there is one.

    A page ends early when its rows are large together; it has one row at least.
    """
    count = min(FIRST_ROWS, limit)
    while True:
        rows = await read(count + 1)
        fitting = fitting_rows(rows[:count])
        if fitting < len(rows[:count]) or count == limit or len(rows) <= count:
            break
        count = min(GROWTH * count, limit)
    if len(rows) <= fitting:
        return rows, None
    return rows[:fitting], cursor_of(rows[fitting - 1])


def fitting_rows(rows: Sequence[object]) -> int:
    """How many rows make a page, by their sizes: one at least, if there is any."""
    size = 0
    for number, row in enumerate(rows):
        size += len(encode(row))
        if size > MOST_BYTES and number:
            return number
    return len(rows)
