"""Cursors: places in a list or in the event log as callers see them, and the pages behind them.

A place in the log counts the events of all tenants. A tenant gets it encrypted and authenticated: the text is
the same each time and on every node, reveals nothing, and is useless to other tenants.
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
"""The place before all events, in clear text."""
MARK = b"headway seal 1:"
MAC = 12
PLACE = struct.Struct(">4Q")
LENGTH = 59
MOST_KEPT = 4_096
SECRET = ("", "service", "seal")
SECRET_LEASE = ("", "seal")
LEASE = 10_000
PAUSE = 0.05
"""Seconds between two looks while another node creates the secret."""


class CursorCipher(NamedTuple):
    """Encrypts and decrypts the places of one tenant, with a key for each purpose."""

    vouching: bytes
    hiding: bytes

    def event(self, cursor: Cursor) -> str:
        """The id of the event at a place: the same for all readers."""
        return self.close(EVENTS, *cursor)

    def place(self, cursor: Cursor) -> str:
        """A place without an event of the tenant: another text each time.

        If two texts were equal, the tenant would know that no other tenant did anything in between.
        """
        return self.close(EVENTS, *cursor, salt=secrets.randbits(64))

    def cursor(self, text: str) -> Cursor:
        """The place that an id names; raises Problem 422."""
        return Cursor() if text == BEGINNING else Cursor(*self.open(EVENTS, text))

    def close(self, of: str, stamp: int, position: int = 0, message: int = 0, *, salt: int = 0) -> str:
        """The encrypted text of a place in a list or a log."""
        body = PLACE.pack(stamp, position, message, salt)
        return _text(_closed(self, of, body))

    def open(self, of: str, text: str) -> tuple[int, int, int]:
        """The place that a text stands for; raises Problem 422 if it is forged, or of another list."""
        raw = _raw(text)
        body = _hidden(self, raw[:MAC], raw[MAC:])
        if not hmac.compare_digest(_closed(self, of, body), raw):
            raise _refused()
        stamp, position, message, _ = PLACE.unpack(body)
        return stamp, position, message


class CursorCiphers:
    """The ciphers of all tenants, derived from a secret in the database that all nodes share."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret: bytes | None = None
        self._kept: dict[str, CursorCipher] = {}

    async def of(self, tenant: str) -> CursorCipher:
        """The cipher of a tenant."""
        found = self._kept.get(tenant)
        if found is None:
            if self._secret is None:
                self._secret = await shared_secret(self._store)
            if len(self._kept) >= MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            found = self._kept[tenant] = cipher_for(self._secret, tenant)
        return found


def cipher_for(secret: bytes, tenant: str) -> CursorCipher:
    """The cipher that is derived from a secret for a tenant."""
    own = tenant.encode()
    vouching, hiding = (hmac.digest(secret, MARK + what + own, sha256) for what in (b"vouch:", b"hide:"))
    return CursorCipher(vouching, hiding)


async def shared_secret(store: Store) -> bytes:
    """The secret of a database; the first node that needs it creates it, under a lease."""
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
    """A unit that reads the secret, and stores a new one if there is none."""

    def __init__(self, new: str | None = None) -> None:
        self._new, self._now = new, datetime.min.replace(tzinfo=UTC)
        self.kept: str | None = None

    def begin(self) -> Reads:
        """Read it."""
        return Reads(records={SECRET})

    def take(self, found: Found) -> None:
        """Take the stored one."""
        row = found.records.get(SECRET)
        self.kept, self._now = None if row is None else row.data, found.now

    def changes(self) -> Changes:
        """Store the new one, if there is none."""
        if self._new is None or self.kept is not None:
            return Changes()
        return Changes(records=[RecordRow(*SECRET, encode(self._new).decode(), self._now)])


def _closed(keys: CursorCipher, of: str, body: bytes) -> bytes:
    mac = hmac.digest(keys.vouching, of.encode() + b":" + body, sha256)[:MAC]
    return mac + _hidden(keys, mac, body)


def _hidden(keys: CursorCipher, mac: bytes, body: bytes) -> bytes:
    """The body, XORed with a pad derived from the code and the key; applying it twice gives the body."""
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
    return Problem("cursor", "this is not a cursor of this route")


def cursor_text(of: str, place: object) -> str:
    """A place in a list as a caller sees it."""
    return urlsafe_b64encode(encode([of, place])).decode().rstrip("=")


def cursor_place(of: str, kind: type[T], text: str) -> T:
    """The place that a cursor of a list stands for; raises Problem 422."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        named, place = decode(tuple[str, kind], raw)  # type: ignore[valid-type]
    except (ValueError, InputError) as error:
        raise Problem("cursor", "this is not a cursor of this route") from error
    if named != of or cursor_text(of, place) != text:
        raise Problem("cursor", "this is not a cursor of this route")
    return place


def position_text(of: str, position: int, cipher: CursorCipher) -> str:
    """A place in a list whose positions count the rows of all tenants; it is encrypted."""
    return cursor_text(of, cipher.close(of, position))


def position_of(of: str, text: str | None, cipher: CursorCipher) -> int:
    """The position that such a cursor stands for, 0 for None; raises Problem 422."""
    return 0 if text is None else cipher.open(of, cursor_place(of, str, text))[0]


def id_of(text: str) -> str:
    """An id from a cursor; raises Problem 422 if it cannot be an id."""
    if "\x00" in text:
        raise Problem("cursor", "this is not a cursor of this route")
    return text


async def paged(
    read: Callable[[int], Awaitable[Sequence[T]]], limit: int, cursor_of: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """A page of what `read` gives for a limit, and the cursor of the next one if there is one.

    A page ends early when its rows are large; it has at least one row.
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
    """How many rows fit into a page by their sizes: at least one, if there are any."""
    size = 0
    for number, row in enumerate(rows):
        size += len(encode(row))
        if size > MOST_BYTES and number:
            return number
    return len(rows)
