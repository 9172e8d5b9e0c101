"""Requests with an id: the first is carried out, and a repeat gets the stored answer.

A call to the engine (`Order.request_id`) stores its answer with its effect. This module does the same for
everything else: `run_once` for an effect that is one transaction, `Requests.turn` for one that is several.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, Self, TypeVar

from headway.engine.orders import DAY, own_id
from headway.errors import EngineError, RequestReusedError
from headway.store.port import Store
from headway.store.rows import Key, RequestRow
from headway.store.unit import Changes, Command, Found, Reads

T = TypeVar("T")
Script = Callable[[], Generator[Command, Any, str | None]]
"""Yields commands, receives their results, and returns the answer to store; None stores nothing."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RepeatedError(EngineError):
    """The request was carried out before; its stored `answer` is the answer."""


class Request:
    """A request with an id: its key (tenant and request id) and a fingerprint of its content.

    `place` says where it came in, for metrics. `answer` is the stored answer, once it is known; `is_repeat`
    is set if an earlier request with the id stored it.
    """

    __slots__ = ("answer", "asked", "is_repeat", "name", "place")

    def __init__(self, name: Key, asked: str, place: str = "") -> None:
        self.name, self.asked, self.place = name, asked, place
        self.answer: str | None = None
        self.is_repeat = False

    def part_id(self, part: str) -> str:
        """The request id of one of several calls that the request makes."""
        return own_id("part", self.name[1], part)

    def part(self, part: str) -> Request:
        """One of several steps of the request, with an answer of its own."""
        return Request((self.name[0], self.part_id(part)), self.asked)


class Repeatable(Generic[T]):
    """A request, and the answer to store for a result of its command."""

    def __init__(self, request: Request, answer: Callable[[T], str]) -> None:
        self.request, self.answer = request, answer


class Once:
    """A unit that runs a script and stores its answer, unless the request has an answer already."""

    def __init__(self, request: Request | None, script: Script, lasts: timedelta) -> None:
        self._request, self._script, self._lasts = request, script, lasts
        self.begin()

    def begin(self) -> Reads:
        """Start over; read the stored answer of the request."""
        self.answer: str | None = None
        self.is_repeat = False
        self._running: Generator[Command, Any, str | None] | None = None
        self._now = LONG_AGO
        return Reads(requests=set() if self._request is None else {self._request.name}, has_commands=True)

    def take(self, found: Found) -> Reads | None:
        """Continue the script; raises RequestReusedError if the id belongs to another request."""
        self._now = max(self._now, found.now)
        try:
            if self._running is None:
                if self._repeats(found):
                    return None
                self._running = self._script()
                command = next(self._running)
            else:
                command = self._running.send(found.results[0])
        except StopIteration as end:
            self.answer = end.value
            return None
        return Reads(commands=(command,), has_commands=True)

    def changes(self) -> Changes:
        """The answer, if it is new and to be stored."""
        if self._request is None or self.is_repeat or self.answer is None:
            return Changes()
        request = self._request
        return Changes(
            requests=[RequestRow(*request.name, request.asked, self.answer, self._now + self._lasts)]
        )

    def _repeats(self, found: Found) -> bool:
        stored = None if self._request is None else stored_answer(self._request, found)
        self.answer, self.is_repeat = stored, stored is not None
        return self.is_repeat


class StoredAnswer:
    """A unit that reads the stored answer of a request; None if there is none, or it has expired."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.answer: str | None = None

    def begin(self) -> Reads:
        """Read it."""
        return Reads(requests={self._request.name})

    def take(self, found: Found) -> None:
        """Take it; raises RequestReusedError if the id belongs to another request."""
        self.answer = stored_answer(self._request, found)

    def changes(self) -> Changes:
        """None."""
        return Changes()


def stored_answer(request: Request, found: Found) -> str | None:
    """The answer among what was read, unless it has expired.

    Raises RequestReusedError if it is the answer to another request.
    """
    row = found.requests.get(request.name)
    if row is None or row.expires_at <= found.now:
        return None
    if row.body != request.asked:
        raise RequestReusedError("the request id was used for another request")
    return row.answer


async def run_once(
    store: Store, request: Request | None, script: Script, lasts: timedelta = DAY
) -> str | None:
    """Run a script and store the answer it returns in one transaction; a repeat gets the stored answer.

    Without a request it runs each time. Raises RequestReusedError, and what the script raises.
    """
    unit = Once(request, script, lasts)
    await store.run(unit)
    if request is not None:
        request.answer, request.is_repeat = unit.answer, unit.is_repeat
    return unit.answer


async def run_command(
    store: Store,
    command: Command,
    once: Repeatable[T] | None,
    *,
    lasts: timedelta = DAY,
    keeps: Callable[[T], bool] = lambda _: True,
) -> T:
    """The result of a command; with `once`, its answer is stored in the same transaction if `keeps` says so.

    Raises RepeatedError and RequestReusedError.
    """
    results: list[T] = []

    def script() -> Generator[Command, Any, str | None]:
        results[:] = [(yield command)]
        return once.answer(results[0]) if once is not None and keeps(results[0]) else None

    await run_once(store, None if once is None else once.request, script, lasts)
    if once is not None and once.request.is_repeat:
        raise RepeatedError("the request was carried out before")
    return results[0]


async def store_answer(store: Store, request: Request, answer: str, lasts: timedelta) -> str:
    """Store an answer without any other effect; the stored one, which an earlier request may have stored."""

    def script() -> Generator[Command, Any, str]:
        yield from ()
        return answer

    return await run_once(store, request, script, lasts) or answer


class RequestListener(Protocol):
    """Called for each request with an id, with its tenant, its entry point, and whether it is a repeat."""

    def __call__(self, tenant: str, place: str, *, is_hit: bool) -> None:
        """Record the request."""


class Requests:
    """The requests with ids whose answers are stored beside the engine's own calls."""

    def __init__(self, store: Store, tally: Counter[str]) -> None:
        self._store, self._tally = store, tally
        self.listeners: list[RequestListener] = []
        self._under_way: dict[Key, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(
        self, request: Request, waiting: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> AsyncIterator[str | None]:
        """Carry out a request while no other one with its id runs in this process.

        Gives the stored answer, None if the request is new. In another process the same request may run at
        the same time: its effects are fenced by the ids of its parts, and the first answer stored counts.
        `waiting` is entered while an earlier request is waited for. Raises RequestReusedError.
        """
        while (first := self._under_way.get(request.name)) is not None:
            with waiting():
                await asyncio.wait({first})
        done = self._under_way[request.name] = asyncio.get_running_loop().create_future()
        try:
            yield await self._stored(request)
        finally:
            del self._under_way[request.name]
            done.set_result(None)

    def forget(self) -> None:
        """Drop what was under way on an event loop that is closed."""
        self._under_way.clear()

    async def _stored(self, request: Request) -> str | None:
        unit = StoredAnswer(request)
        await self._store.run(unit)
        request.answer, request.is_repeat = unit.answer, unit.answer is not None
        self._tally["replayed"] += request.is_repeat
        for tell in self.listeners:
            tell(request.name[0], request.place, is_hit=request.is_repeat)
        return unit.answer


class Replay:
    """Notes whether a call to the engine within its block gets the answer of an earlier one."""

    __slots__ = ("_outer", "happened")

    def __init__(self) -> None:
        self.happened = False

    def __enter__(self) -> Self:
        """Begin the block."""
        self._outer = _REPLAY.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End the block."""
        _REPLAY.reset(self._outer)


_REPLAY: ContextVar[Replay | None] = ContextVar("headway_replay", default=None)


def note_replay() -> None:
    """A call to the engine got a stored answer."""
    replay = _REPLAY.get()
    if replay is not None:
        replay.happened = True
