"""`Keyring`: make, list, rotate and revoke the API keys of a store."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal, NamedTuple, get_args

from headway.clock import milliseconds
from headway.codec import replace
from headway.engine.orders import HOUR
from headway.engine.requests import Repeatable, run_command
from headway.errors import InputError, StoreError, UnknownKeyError
from headway.statechart.identity import require_id, require_role
from headway.statechart.snapshot import Actor, Kind, is_reserved
from headway.store.port import Store
from headway.store.queries import KeyNoteQuery, KeyQuery
from headway.store.rows import KeyNoteRow, KeyRow
from headway.store.unit import AddKey, ChangeKey

KEY = re.compile(r"hw_(?P<id>[0-9a-f]{16})_(?P<secret>[0-9a-f]{48})")
Scope = Literal["own", "read", "send", "work", "operate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
ADMIN: Scope = "admin"
OWN: Scope = "own"
"""For end users: see and send only what is theirs. It stands alone."""
OVERLAP = "1h"
LONGEST_TEXT = 200
MOST_ROLES = 100
HIGHEST_RATE = 1_000_000
ATTEMPTS = 5
FIRST_TENANT = "default"
FIRST_KEY = ("", "first key")
FIRST_KEY_LEASE = 10_000
NEVER = datetime.min.replace(tzinfo=UTC)


class NewKey(NamedTuple):
    """A key, and its text, which is shown this once: nobody can find it out again."""

    key: KeyRow
    text: str

    def __repr__(self) -> str:
        """Without the text: it may stand in a log."""
        return f"NewKey({self.key.id})"


class Keyring:
    """The keys of a store. `changed` is called with the id of each key that has changed."""

    def __init__(self, store: Store, changed: Callable[[str], None] = lambda _key: None) -> None:
        self._store, self._keys, self._changed = store, store.keys, changed

    async def make(
        self,
        tenant: str,
        actor: Actor,
        scopes: Iterable[str],
        *,
        name: str = "",
        lasts: str | None = None,
        rate: int | None = None,
        by: str = "",
        once: Repeatable[KeyRow] | None = None,
    ) -> NewKey:
        """A new key by which an actor of a tenant calls; `rate` is in calls a second.

        Raises InputError; with `once`, RepeatedError and RequestReusedError, and then there is no new one.
        """
        now = await self._store.now()
        text, secret = _new_secret()
        key = KeyRow(
            tenant=tenant,
            id=secrets.token_hex(8),
            name=name,
            actor=actor.id,
            kind=actor.kind,
            roles=tuple(sorted(actor.roles)),
            scopes=tuple(scope for scope in SCOPES if scope in {*scopes}),
            rate=rate,
            secret=secret,
            made_at=now,
            made_by=by,
            expires_at=None if lasts is None else now + _span(lasts),
        )
        _check(key, scopes)
        if is_reserved(actor):
            raise InputError(f"the actor {actor.id} of the kind {actor.kind} is reserved for the engine")
        await run_command(self._store, AddKey(key, act(key, "made", now, by)), _of(key, once))
        return NewKey(key, f"hw_{key.id}_{text}")

    async def get(self, tenant: str, key: str) -> KeyRow:
        """One key; raises UnknownKeyError."""
        _, row = await self._keys.find(key)
        if row is None or row.tenant != tenant:
            raise UnknownKeyError(f"there is no key {key}")
        return row

    async def list(
        self, tenant: str | None, *, after: str | None = None, limit: int = 100
    ) -> Sequence[KeyRow]:
        """A page of a tenant's keys, the oldest first; no tenant is all of them."""
        return await self._keys.list(KeyQuery(tenant, after, limit))

    async def rotate(
        self,
        tenant: str,
        key: str,
        *,
        overlap: str = OVERLAP,
        by: str = "",
        once: Repeatable[KeyRow] | None = None,
    ) -> NewKey:
        """Give a key a new secret; the one it had stays valid for the overlap.

        Raises UnknownKeyError; with `once`, RepeatedError and RequestReusedError: then it has no new one.
        """
        text, secret = _new_secret()
        span = _span(overlap)

        def rotated(row: KeyRow, now: datetime) -> KeyRow:
            return replace(row, secret=secret, old_secret=row.secret, old_until=now + span)

        row = await self._change(tenant, key, rotated, what="rotated", by=by, once=once)
        return NewKey(row, f"hw_{row.id}_{text}")

    async def revoke(self, tenant: str, key: str, *, by: str = "") -> KeyRow:
        """End a key: at once here, within seconds on other nodes; also again. Raises UnknownKeyError."""
        row = await self.get(tenant, key)
        if row.revoked_at is not None:
            return row
        return await self._change(
            tenant, key, lambda row, now: replace(row, revoked_at=now), what="revoked", by=by
        )

    async def notes(
        self, tenant: str, key: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> Sequence[KeyNoteRow]:
        """What was done to a key and with it, the newest first; raises UnknownKeyError."""
        await self.get(tenant, key)
        return await self._keys.notes(KeyNoteQuery(tenant, key, before, limit))

    async def first(self, tenant: str = FIRST_TENANT) -> NewKey | None:
        """A key that may do everything, if there is none at all; of several nodes that start one makes it."""
        holder = secrets.token_hex(8)
        if await self._keys.list(KeyQuery(limit=1)):
            return None
        if not await self._store.leases.hold([FIRST_KEY], holder, FIRST_KEY_LEASE):
            return None
        try:
            if await self._keys.list(KeyQuery(limit=1)):
                return None
            admin = Actor("admin", "person", frozenset({"admin"}))
            return await self.make(tenant, admin, ["admin"], name="first key", by="headway serve")
        finally:
            with suppress(StoreError):  # the lease ends by itself
                await self._store.leases.release([FIRST_KEY], holder)

    async def _change(
        self,
        tenant: str,
        key: str,
        changed: Callable[[KeyRow, datetime], KeyRow],
        *,
        what: str,
        by: str,
        once: Repeatable[KeyRow] | None = None,
    ) -> KeyRow:
        """Change a key that somebody else may be changing too."""
        for _ in range(ATTEMPTS):
            now, row = await self._keys.find(key)
            if row is None or row.tenant != tenant or row.revoked_at is not None:
                raise UnknownKeyError(f"there is no key {key}")
            new = changed(row, now)
            command = ChangeKey(new, act(row, what, now, by), row.secret)
            if await run_command(self._store, command, _of(new, once), lasts=HOUR, keeps=bool):
                self._changed(key)
                return new
        raise StoreError(f"the key {key} is being changed by others all the time")


def _of(key: KeyRow, once: Repeatable[KeyRow] | None) -> Repeatable[bool] | None:
    """What is kept of a request that makes this key, or changes it to this one."""
    return None if once is None else Repeatable(once.request, lambda _: once.answer(key))


def act(key: KeyRow, what: str, at: datetime, by: str) -> KeyNoteRow:
    """The note of one act."""
    return KeyNoteRow(key.tenant, key.id, at, what, 1, first_at=at, last_at=at, by=by)


def parts_of(text: str) -> tuple[str, str] | None:
    """The id and the secret that a key's text holds; None when it is no key."""
    match = KEY.fullmatch(text)
    return (match["id"], match["secret"]) if match else None


def hashed(secret: str) -> str:
    """What is stored of a secret. It is random and long: a slow hash would only cost time."""
    return sha256(secret.encode()).hexdigest()


NOBODYS = hashed("")


def valid_until(key: KeyRow | None, secret: str) -> datetime | None:
    """Until when a secret is a key's, as far as is known now: a time that is over when it is not.

    None for no end. It takes as long for a key that is not there.
    """
    given = hashed(secret)
    current, old = (NOBODYS, NOBODYS) if key is None else (key.secret, key.old_secret or NOBODYS)
    is_current = hmac.compare_digest(current, given)
    is_old = hmac.compare_digest(old, given)
    if key is None or not (is_current or is_old):
        return NEVER
    return key.expires_at if is_current else min(filter(None, (key.old_until, key.expires_at)), default=NEVER)


def _new_secret() -> tuple[str, str]:
    text = secrets.token_hex(24)
    return text, hashed(text)


def _span(duration: str) -> timedelta:
    try:
        return timedelta(milliseconds=milliseconds(duration))
    except ValueError as error:
        raise InputError(str(error)) from error


def _check(key: KeyRow, scopes: Iterable[str]) -> None:
    if unknown := sorted({*scopes} - {*SCOPES}):
        raise InputError(f"there is no scope {unknown[0]!r}; there are {', '.join(SCOPES)}")
    if not key.scopes:
        raise InputError("a key needs at least one scope")
    if OWN in key.scopes and len(key.scopes) > 1:
        raise InputError(f"the scope {OWN} cannot be combined: other scopes reach instances of other owners")
    if key.kind not in get_args(Kind):
        raise InputError(f"an actor is one of {', '.join(get_args(Kind))}, not {key.kind!r}")
    require_id("the tenant of a key", key.tenant)
    require_id("the actor of a key", key.actor)
    for role in key.roles:
        require_role(role)
    if len(key.roles) > MOST_ROLES:
        raise InputError(f"an actor has at most {MOST_ROLES} roles")
    if len(key.name) > LONGEST_TEXT:
        raise InputError(f"the name of a key has at most {LONGEST_TEXT} characters")
    if key.rate is not None and not 1 <= key.rate <= HIGHEST_RATE:
        raise InputError(f"a rate is between 1 and {HIGHEST_RATE:,} calls a second")
