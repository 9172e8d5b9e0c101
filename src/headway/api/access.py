"""`Access`: who calls, by an API key or a token; how often they may; and what is noted of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, Self

from headway.api.keyring import ADMIN, NEVER, OWN, Keyring, parts_of, valid_until
from headway.api.problems import Problem
from headway.codec import Value
from headway.engine.engine import Engine
from headway.engine.service import Service
from headway.errors import UnknownInstanceError
from headway.statechart.identity import STANDS_FOR_A_PERSON, normal_id
from headway.statechart.snapshot import Actor, is_reserved
from headway.store.port import Store
from headway.store.queries import Readable
from headway.store.rows import InstanceRow, KeyNoteRow, KeyRow

BEARER = "bearer "
LONGEST_CREDENTIAL = 8_192
KEPT_FOR = 2.0
"""Seconds for which a valid credential is cached: other nodes see a revocation after this time at most."""
MOST_KEPT = 4_096
CHALLENGE = 'Bearer realm="headway"'
NOISE = 1e-9
"""Tolerance for rounding when seconds are added: a call exactly at its time is not too early."""


KEEPS = timedelta(days=400)
MOST_OPEN = 10_000
MOST_PRUNED = 1_000


class Caller(Value):
    """What a valid credential says. `credential` names it in logs and limits without revealing it."""

    tenant: str
    actor: Actor
    scopes: frozenset[str]
    credential: str

    def may(self, scope: str) -> bool:
        """Whether a scope is among the caller's; `admin` implies all."""
        return scope in self.scopes or ADMIN in self.scopes


class Rate(Value):
    """The rate limit of a credential: calls a second, and calls at once after a pause (the burst)."""

    a_second: int = 1_000
    at_once: int = 2_000


class Pace:
    """The rate limit of one credential in this process (GCRA).

    It lets `burst` calls through at once after a rest, and then `rate` of them a second.
    """

    __slots__ = ("_free_at", "_room", "_step", "rate")

    def __init__(self, rate: float, burst: int) -> None:
        self.rate = rate
        self._step = 1 / rate
        self._room = self._step * (burst - 1) + NOISE
        self._free_at = float("-inf")

    def wait(self, now: float) -> float:
        """Admit a call and return 0.0, or return the seconds after which a call will be admitted."""
        free_at = self._free_at
        early = free_at - now
        if early > self._room:
            return early - self._room
        self._free_at = (free_at if early > 0 else now) + self._step
        return 0.0


class Holder(NamedTuple):
    """The caller of a token, and in how many seconds it is no longer one."""

    caller: Caller
    seconds: float


class Verifier(Protocol):
    """Reads tokens that others have issued."""

    async def holder(self, token: str, now: datetime) -> Holder | None:
        """Whose token it is; None when it is not valid, for whatever reason."""


class KeyUse:
    """How often one thing was done with a key since it was last written down."""

    __slots__ = ("count", "first", "key", "last", "what")

    def __init__(self, key: KeyRow, what: str) -> None:
        self.key, self.what = key, what
        self.count, self.first, self.last = 0, 0.0, 0.0

    def add(self, now: float) -> None:
        """Once more."""
        if not self.count:
            self.first = now
        self.count += 1
        self.last = now


class KeyLog(Service):
    """Counts in memory and writes once a minute: what is counted costs its caller next to nothing.

    A process that is killed loses what it has not written: at most a minute of counts, never an act.
    """

    name = "key log"
    longest_rest = 60.0

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._store, self._keys, self._monotonic = store, store.keys, monotonic
        self._tallies: dict[tuple[str, str], KeyUse] = {}

    def counting(self, key: KeyRow, what: str) -> KeyUse:
        """Where to count one thing of a key; beyond a bound, the one that was there first makes room."""
        found = self._tallies.get((key.id, what))
        if found is None:
            if len(self._tallies) >= MOST_OPEN:
                self._tallies.pop(next(iter(self._tallies)))
            found = self._tallies[key.id, what] = KeyUse(key, what)
        return found

    async def turn(self) -> bool:
        """Write what was counted, and drop what is older than it needs to be."""
        counted = [tally for tally in self._tallies.values() if tally.count]
        if counted:
            now, here = await self._store.now(), self._monotonic()
            notes = [_note(tally, now, here) for tally in counted]
            used = {note.key: note.last_at for note in notes if note.what == "used"}
            taken = [(tally, tally.count) for tally in counted]
            await self._keys.note(notes, used)
            for tally, count in taken:
                tally.count -= count
            self.tally["written"] += len(notes)
            await self._keys.prune_notes(now - KEEPS, MOST_PRUNED)
        return False

    async def stop(self) -> None:
        """Write the rest, and stop."""
        await super().stop()
        await self.turn()


class Seen:
    """A credential that was found valid, until when it need not be looked up, and what counts its calls."""

    __slots__ = ("caller", "pace", "refused", "until", "used")

    def __init__(self, caller: Caller, pace: Pace, until: float) -> None:
        self.caller, self.pace, self.until = caller, pace, until
        self.used: KeyUse | None = None
        self.refused: KeyUse | None = None


class Access:
    """Identifies the caller. It takes about a microsecond for a credential that came a moment ago.

    Start it and stop it with the service: it writes down in the background how keys are used.
    """

    def __init__(
        self,
        store: Store,
        *,
        tokens: Verifier | None = None,
        rate: Rate | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tokens` reads what is no key. `rate` is for all credentials but keys with a rate of their own."""
        self.keyring = Keyring(store, self.forget)
        self.log = KeyLog(store, monotonic)
        self._store, self._keys, self._tokens = store, store.keys, tokens
        self._rate, self._monotonic = rate or Rate(), monotonic
        self._seen: dict[str, Seen] = {}
        self._forgotten = 0
        self._paces: dict[str, Pace] = {}

    async def caller(self, authorization: str | None) -> Caller:
        """Who calls, by the text of the header; raises Problem 401 or 429."""
        now = self._monotonic()
        seen = self._seen.get(authorization or "")
        if seen is None or seen.until <= now:
            seen = await self._look_up(authorization, now)
        wait = seen.pace.wait(now)
        if wait:
            raise self._too_many(seen, now, wait)
        if seen.used is not None:
            seen.used.add(now)
        return seen.caller

    def forget(self, key: str) -> None:
        """Look a key up again when it comes next."""
        self._forgotten += 1
        self._paces.pop(key, None)
        self._seen = {text: seen for text, seen in self._seen.items() if seen.caller.credential != key}

    async def start(self) -> None:
        """Begin to write down how keys are used."""
        await self.log.start()

    async def stop(self) -> None:
        """Write down the rest."""
        await self.log.stop()

    async def __aenter__(self) -> Self:
        """Run for the length of a block."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at the end of the block."""
        await self.stop()

    async def _look_up(self, authorization: str | None, now: float) -> Seen:
        credential, forgotten = _credential(authorization), self._forgotten
        named = parts_of(credential)
        seen = await (self._key(*named, now) if named else self._token(credential, now))
        if seen is None:
            self._seen.pop(authorization or "", None)
            raise unauthenticated(given=authorization is not None)
        if forgotten == self._forgotten:  # else it may have been read just before it was revoked here
            if len(self._seen) >= MOST_KEPT:
                self._seen.pop(next(iter(self._seen)))
            self._seen[authorization or ""] = seen
        return seen

    async def _key(self, name: str, secret: str, now: float) -> Seen | None:
        """A key is read for each text that is new: what is there and what is not must cost the same."""
        at, key = await self._keys.find(name)
        until = valid_until(key, secret)
        if key is None:
            return None
        if over := _over(key, until, at):
            self.log.counting(key, f"refused: {over}").add(now)
            return None
        lasts = KEPT_FOR if until is None else min(KEPT_FOR, (until - at).total_seconds())
        seen = Seen(caller_of(key), self._pace(key.id, key.rate), now + lasts)
        seen.used = self.log.counting(key, "used")
        seen.refused = self.log.counting(key, "refused: rate")
        return seen

    async def _token(self, token: str, now: float) -> Seen | None:
        if self._tokens is None:
            return None
        holder = await self._tokens.holder(token, await self._store.now())
        if holder is None:
            return None
        pace = self._pace(holder.caller.credential, None)
        return Seen(holder.caller, pace, now + min(KEPT_FOR, holder.seconds))

    def _pace(self, credential: str, rate: int | None) -> Pace:
        """One for each credential, whatever texts it comes as."""
        found = self._paces.get(credential)
        if found is None:
            if len(self._paces) >= MOST_KEPT:
                self._paces.pop(next(iter(self._paces)))
            own = self._rate if rate is None else Rate(rate, 2 * rate)
            found = self._paces[credential] = Pace(own.a_second, own.at_once)
        return found

    def _too_many(self, seen: Seen, now: float, wait: float) -> Problem:
        if seen.refused is not None:
            seen.refused.add(now)
        seconds = max(1, math.ceil(wait))
        headers = {
            "Retry-After": str(seconds),
            "RateLimit-Policy": f'"credential";q={seen.pace.rate};w=1',
            "RateLimit": f'"credential";r=0;t={seconds}',
        }
        return Problem("rate_limited", headers=headers)


def caller_of(key: KeyRow) -> Caller:
    """Who calls by a key."""
    own = OWN in key.scopes
    actor = Actor(key.actor, key.kind, frozenset(key.roles), own)  # type: ignore[arg-type]  # checked when it was made
    return Caller(key.tenant, actor, frozenset(key.scopes), key.id)


async def readable_row(engine: Engine, caller: Caller, instance: str) -> InstanceRow:
    """The row of an instance that the caller may read; raises UnknownInstanceError, as for one not there."""
    row = await engine.row(caller.tenant, instance)
    if not caller.may(ADMIN) and not await engine.visibility.may_read(row, caller.actor):
        raise UnknownInstanceError(f"there is no instance {instance}")
    return row


async def readable_by(engine: Engine, caller: Caller) -> Readable | None:
    """What lists and streams show to the caller; None if they show everything."""
    return None if caller.may(ADMIN) else await engine.visibility.readable(caller.actor)


def unauthenticated(*, given: bool = True) -> Problem:
    """The one answer to all that is no valid credential."""
    challenge = f'{CHALLENGE}, error="invalid_token"' if given else CHALLENGE
    return Problem("unauthenticated", headers={"WWW-Authenticate": challenge})


def _credential(authorization: str | None) -> str:
    if authorization is None or len(authorization) > LONGEST_CREDENTIAL:
        raise unauthenticated(given=authorization is not None)
    if authorization[: len(BEARER)].lower() != BEARER:
        raise unauthenticated()
    return authorization[len(BEARER) :].strip()


def _over(key: KeyRow, until: datetime | None, now: datetime) -> str | None:
    """Why a key does not let its caller in, for the key's owner to read; None when it does."""
    if until == NEVER:
        return "secret"
    if key.revoked_at is not None:
        return "revoked"
    if normal_id(key.actor) != key.actor:  # made before ids that look like others were refused
        return "actor id"
    if any(role.startswith(STANDS_FOR_A_PERSON) for role in key.roles):  # made before these were refused
        return "role"
    if is_reserved(caller_of(key).actor):
        return "reserved"
    return "expired" if until is not None and until <= now else None


def _note(tally: KeyUse, now: datetime, here: float) -> KeyNoteRow:
    """The use of a key on one day, with times of this process converted to the store's clock."""
    first, last = (now - timedelta(seconds=max(0.0, here - at)) for at in (tally.first, tally.last))
    day = last.replace(hour=0, minute=0, second=0, microsecond=0)
    first = max(first, day)
    return KeyNoteRow(tally.key.tenant, tally.key.id, day, tally.what, tally.count, first, last, by="")
