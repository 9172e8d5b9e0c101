"""Requests that come again: the first answer is kept and told again, byte for byte."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Protocol
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.api.access import Access
from headway.api.caller import Caller
from headway.api.problems import Problem
from headway.codec import Value, decode, encode, fingerprint
from headway.engine.engine import Engine
from headway.engine.orders import DAY, HOUR
from headway.store.port import Changes, Found, Reads
from headway.store.rows import Key, RequestRow

IN_FLIGHT = 60_000
"""For so many milliseconds at most a request counts as under way, should its process die."""
NAME = "answer:"
CREATED, LOWEST_ERROR, CONFLICT = 201, 400, 409
HOLDS_SECRET = re.compile(r"/v1/keys(/[^/]+/rotate)?|/v1/asks/[^/]+/link")
"""Routes whose answers hold secrets: that they were given is kept, they are not."""
OWN_HEADERS = frozenset({b"content-type", b"location", b"etag", b"cache-control"})


class Kept(Value):
    """An answer as it is stored."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Lookup(Protocol):
    """Hears that a request came with an id: whose, to which path, and whether it is answered again."""

    def __call__(self, tenant: str, path: str, *, is_hit: bool) -> None:
        """Hear it."""


_LOOKUPS: WeakKeyDictionary[Engine, list[Lookup]] = WeakKeyDictionary()


def lookups_of(engine: Engine) -> list[Lookup]:
    """Those who hear of requests with ids; whoever wants to puts itself there."""
    return _LOOKUPS.setdefault(engine, [])


class Repeats:
    """Lets the application answer a request once, and repeats the answer for as long as it is kept.

    That is 24 hours when it makes something new, an hour when its path names what it moves or it is refused.
    """

    def __init__(self, app: ASGIApp, engine: Engine, access: Access) -> None:
        self._app, self._store, self._access = app, engine.store, access
        self._tally, self._lookups = engine.tally, lookups_of(engine)

    async def serve(self, scope: Scope, receive: Receive, send: Send, *, key: str, body: bytes) -> None:
        """Answer; raises Problem 409 while the first request is under way, and 422 for another one."""
        authorization = dict(scope["headers"])[b"authorization"].decode("latin-1")
        caller = scope["headway.caller"] = await self._access.caller(authorization)
        name, asked = (caller.tenant, NAME + key), _asked(scope, caller, body)
        if await self._told_again(scope, name, asked, send):
            return
        holder = secrets.token_hex(8)
        if not await self._store.hold([name], holder, IN_FLIGHT):
            raise Problem("key_in_flight", headers={"Retry-After": "1"})
        try:
            if await self._told_again(scope, name, asked, send):
                return
            self._tell_lookups(scope, is_hit=False)
            kept = await self._first(scope, receive, name=name, asked=asked)
        finally:
            await self._store.let_go([name], holder)
        # Only now: who was refused may correct the request and send it under the same key at once.
        await _send(send, kept)

    async def _told_again(self, scope: Scope, name: Key, asked: str, send: Send) -> bool:
        known = Known(name)
        await self._store.run(known)
        if known.row is None:
            return False
        if known.row.body != asked:
            raise Problem("key_reused")
        self._tally["replayed"] += 1
        self._tell_lookups(scope, is_hit=True)
        await _send(send, decode(Kept, known.row.answer))
        return True

    async def _first(self, scope: Scope, receive: Receive, *, name: Key, asked: str) -> Kept:
        """The answer to a request that is new, kept if it is one to keep."""
        answer = Recorder()
        await self._app(scope, receive, answer)
        kept = answer.kept()
        if kept.status < LOWEST_ERROR or kept.status == CONFLICT:
            secret = _holds_secret(scope["path"]) and kept.status != CONFLICT
            told = _spent(scope["path"]) if secret else kept
            lasts = _lasts(kept.status, moves=bool(scope.get("path_params")))
            await self._store.run(Keeping(name, asked, encode(told).decode(), lasts))
        return kept

    def _tell_lookups(self, scope: Scope, *, is_hit: bool) -> None:
        for tell in self._lookups:
            tell(scope["headway.caller"].tenant, scope["path"], is_hit=is_hit)


class Recorder:
    """Takes an answer whole."""

    def __init__(self) -> None:
        self._start: Message = {}
        self._body: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))

    def kept(self) -> Kept:
        """The answer."""
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in self._start["headers"]
            if name.lower() in OWN_HEADERS
        ]
        return Kept(self._start["status"], headers, b"".join(self._body))


class Known:
    """A unit that looks for the answer that a key has got."""

    def __init__(self, name: Key) -> None:
        self._name = name
        self.row: RequestRow | None = None

    def begin(self) -> Reads:
        """Ask for it."""
        return Reads(requests={self._name})

    def take(self, found: Found) -> None:
        """Keep it, if it has not expired."""
        row = found.requests.get(self._name)
        self.row = row if row is not None and row.expires_at > found.now else None

    def changes(self) -> Changes:
        """None."""
        return Changes()


class Keeping:
    """A unit that stores the answer of a key, for as long as it is to last."""

    def __init__(self, name: Key, asked: str, answer: str, lasts: timedelta) -> None:
        self._name, self._asked, self._answer, self._lasts = name, asked, answer, lasts
        self._now = datetime.min.replace(tzinfo=UTC)

    def begin(self) -> Reads:
        """Ask for the time."""
        return Reads(requests={self._name})

    def take(self, found: Found) -> None:
        """The time."""
        self._now = found.now

    def changes(self) -> Changes:
        """The answer."""
        row = RequestRow(*self._name, self._asked, self._answer, self._now + self._lasts)
        return Changes(requests=[row])


def _lasts(status: int, *, moves: bool) -> timedelta:
    """How long an answer is kept."""
    return DAY if status == CREATED or (status < LOWEST_ERROR and not moves) else HOUR


def _asked(scope: Scope, caller: Caller, body: bytes) -> str:
    """A fingerprint of the request."""
    query = scope["query_string"].decode("latin-1")
    return sha256(fingerprint((scope["path"], query, caller.actor, body))).hexdigest()


def _holds_secret(path: str) -> bool:
    return HOLDS_SECRET.fullmatch(path) is not None


def _spent(path: str) -> Kept:
    problem = Problem("secret_told")
    return Kept(problem.status, [("content-type", "application/problem+json")], problem.document(path))


async def _send(send: Send, kept: Kept) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers]
    headers.append((b"content-length", b"%d" % len(kept.body)))
    await send({"type": "http.response.start", "status": kept.status, "headers": headers})
    await send({"type": "http.response.body", "body": kept.body})
