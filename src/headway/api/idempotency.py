"""Requests with a key: the first answer is kept, and a repeat gets it, byte for byte.

A route that changes something by one transaction of its own keeps the answer in it (`headway.engine.once`). A
call that is one of the engine's has its answer kept by the engine. Any other answer is kept when it is known.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Generator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.api.access import Access
from headway.api.caller import Caller
from headway.api.depends import KEYED_REQUEST
from headway.api.kept import Kept, kept_text, spent
from headway.api.problems import Problem
from headway.api.requests import KEYED, REPLAYED
from headway.api.streams import Streams
from headway.codec import decode, fingerprint
from headway.engine.engine import Engine
from headway.engine.once import Request, run_once
from headway.engine.orders import DAY, HOUR
from headway.engine.replay import listening
from headway.errors import InputError, RequestReusedError
from headway.store.commands import Command
from headway.store.rows import Key, RequestRow
from headway.store.unit import Changes, Found, Reads

IN_FLIGHT = 60_000
"""For so many milliseconds at most a request counts as under way, should its process die."""
CREATED, LOWEST_ERROR, CONFLICT = 201, 400, 409
BY_ENGINE = re.compile(r"/v1/instances/[^/]+/cancel|/v1/asks/[^/]+/(claim|release|delegate|answer)")
"""Routes that make one call to the engine, which gets the key and keeps the answer with the effect."""
LINK = re.compile(r"/v1/asks/[^/]+/link")
"""The route whose answer is a secret that nobody stores: that it was given is kept, it is not."""
OWN_HEADERS = frozenset({b"content-type", b"location", b"etag", b"cache-control"})


class Lookup(Protocol):
    """Hears that a request came with an id: whose, to which path, and whether it is answered again."""

    def __call__(self, tenant: str, path: str, *, is_hit: bool) -> None:
        """Hear it."""


_LOOKUPS: WeakKeyDictionary[Engine, list[Lookup]] = WeakKeyDictionary()
_UNDER_WAY: WeakKeyDictionary[Engine, dict[Key, asyncio.Future[None]]] = WeakKeyDictionary()
"""The requests with keys that this process is answering."""


def lookups_of(engine: Engine) -> list[Lookup]:
    """Those who hear of requests with ids; whoever wants to puts itself there."""
    return _LOOKUPS.setdefault(engine, [])


class Repeats:
    """Lets the application answer a request once, and repeats the answer for as long as it is kept.

    That is 24 hours when it makes something new, an hour when its path names what it moves or it is refused.
    """

    def __init__(self, app: ASGIApp, engine: Engine, access: Access, streams: Streams) -> None:
        self._app, self._store, self._access, self._streams = app, engine.store, access, streams
        self._tally, self._lookups = engine.tally, lookups_of(engine)
        self._under_way = _UNDER_WAY.setdefault(engine, {})

    async def serve(self, scope: Scope, receive: Receive, send: Send, *, key: str, body: bytes) -> None:
        """Answer; a repeat waits for the first answer, and counts as a stream meanwhile.

        Raises Problem 409 while another process answers the first request, 422 when the key is that of
        another request, and 429 when the caller has too many streams.
        """
        if BY_ENGINE.fullmatch(scope["path"]):
            await self._by_engine(scope, receive, send)
            return
        authorization = dict(scope["headers"])[b"authorization"].decode("latin-1")
        caller = scope["headway.caller"] = await self._access.caller(authorization)
        request = Request((caller.tenant, KEYED + key), _asked(scope, caller, body))
        while not await self._told_again(scope, request, send):
            if (first := self._under_way.get(request.name)) is not None:
                with self._streams.take(caller):
                    await asyncio.wait({first})
                continue
            kept = await self._alone(scope, receive, request)
            # Only now: who was refused may correct the request and send it under the same key at once.
            await _send(send, kept, is_repeat=request.is_repeat)
            return

    async def _by_engine(self, scope: Scope, receive: Receive, send: Send) -> None:
        with listening() as replay:

            async def tell(message: Message) -> None:
                if message["type"] == "http.response.start" and replay.happened:
                    message["headers"] = [*message["headers"], REPLAYED]
                await send(message)

            await self._app(scope, receive, tell)

    async def _told_again(self, scope: Scope, request: Request, send: Send) -> bool:
        if (kept := await self._known(scope, request)) is None:
            return False
        await _send(send, kept, is_repeat=True)
        return True

    async def _known(self, scope: Scope, request: Request) -> Kept | None:
        """The answer that is kept for a request; raises Problem 422 when the key is that of another one."""
        known = Known(request.name)
        await self._store.run(known)
        if known.row is None:
            return None
        if known.row.body != request.asked:
            raise Problem("key_reused")
        self._tally["replayed"] += 1
        self._tell_lookups(scope, is_hit=True)
        request.is_repeat = True
        return decode(Kept, known.row.answer)

    async def _alone(self, scope: Scope, receive: Receive, request: Request) -> Kept:
        """The answer to a request that no other one with this key, in any process, is waiting for."""
        done = self._under_way[request.name] = asyncio.get_running_loop().create_future()
        holder = secrets.token_hex(8)
        try:
            if not await self._store.leases.hold([request.name], holder, IN_FLIGHT):
                raise Problem("key_in_flight", headers={"Retry-After": "1"})
            try:
                return await self._answered(scope, receive, request)
            finally:
                await self._store.leases.release([request.name], holder)
        finally:
            del self._under_way[request.name]
            done.set_result(None)

    async def _answered(self, scope: Scope, receive: Receive, request: Request) -> Kept:
        if (kept := await self._known(scope, request)) is not None:
            return kept  # another process has let go of it a moment ago
        self._tell_lookups(scope, is_hit=False)
        return await self._first(scope, receive, request)

    async def _first(self, scope: Scope, receive: Receive, request: Request) -> Kept:
        """The answer to a request that is new, kept if it is one to keep and is not kept yet."""
        answer = Recorder()
        scope[KEYED_REQUEST] = request
        await self._app(scope, receive, answer)
        given = answer.kept()
        if request.is_repeat and request.answer is not None:
            return decode(Kept, request.answer)
        if request.answer is None and (given.status < LOWEST_ERROR or given.status == CONFLICT):
            secret = LINK.fullmatch(scope["path"]) and given.status != CONFLICT
            text = spent(scope["path"]) if secret else kept_text(given)
            lasts = _lasts(given.status, moves=bool(scope.get("path_params")))
            with suppress(RequestReusedError):  # another request had the key meanwhile; this one is done
                await run_once(self._store, request, lambda: _only(text), lasts)
        return given

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


def _only(text: str) -> Generator[Command, Any, str]:
    """A script that has nothing to do but to keep an answer."""
    yield from ()
    return text


def _lasts(status: int, *, moves: bool) -> timedelta:
    """How long an answer is kept."""
    return DAY if status == CREATED or (status < LOWEST_ERROR and not moves) else HOUR


def _asked(scope: Scope, caller: Caller, body: bytes) -> str:
    """A fingerprint of the request: the same for JSON that differs only in spaces and the order of keys."""
    query = scope["query_string"].decode("latin-1")
    asked = (scope["method"], scope["path"], query, caller.actor, _canonical(body))
    return sha256(fingerprint(asked)).hexdigest()


def _canonical(body: bytes) -> bytes:
    try:
        return fingerprint(decode(object, body))
    except InputError:
        return body


async def _send(send: Send, kept: Kept, *, is_repeat: bool) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers]
    headers += [(b"content-length", b"%d" % len(kept.body)), *([REPLAYED] if is_repeat else [])]
    await send({"type": "http.response.start", "status": kept.status, "headers": headers})
    await send({"type": "http.response.body", "body": kept.body})
