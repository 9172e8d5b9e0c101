"""`Client`, the calls over HTTP for async programs. The calls themselves are in verbs.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from headway.client.actions import (
    Action,
    ConnectionFailure,
    Finished,
    HttpRequest,
    Item,
    Items,
    Now,
    Pause,
    ReadStream,
    Reply,
    Steps,
    advance,
)
from headway.client.connection import ServiceAddress, failure_of, reply_of
from headway.client.verbs import Verbs

P = ParamSpec("P")
T = TypeVar("T")


def one(
    verb: Callable[Concatenate[Verbs, P], Steps[T]],
) -> Callable[Concatenate[Client, P], Coroutine[Any, Any, T]]:
    """A method that awaits the result of a call."""

    @wraps(verb)
    def call(self: Client, /, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._run(verb(self._verbs, *args, **named))

    return call


def many(
    verb: Callable[Concatenate[Verbs, P], Items[T]],
) -> Callable[Concatenate[Client, P], AsyncIterator[T]]:
    """A method for `async for` over the values of a call."""

    @wraps(verb)
    def call(self: Client, /, *args: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        return self._iterate(verb(self._verbs, *args, **named))

    return call


class Client:
    """Calls a Headway service over HTTP, for async programs; `SyncClient` has the same calls without `await`.

    `url` and `key` come from HEADWAY_URL and HEADWAY_KEY if they are not given. A call that is not answered
    is repeated at most `retries` times, with the same idempotency key. `transport` is one of httpx, for
    certificates and proxies of your own.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises InputError without a key, or for a text that is no URL."""
        self._service = ServiceAddress.given(url, key, timeout)
        self._http = httpx.AsyncClient(transport=transport, **self._service.options())
        self._verbs = Verbs(retries)
        self._sleep, self._monotonic = sleep, monotonic

    create = one(Verbs.create)
    send = one(Verbs.send)
    cancel = one(Verbs.cancel)
    get = one(Verbs.get)
    until = one(Verbs.until)
    list = many(Verbs.list)
    history = many(Verbs.history)
    why = one(Verbs.why)
    allowed = one(Verbs.allowed)
    follow = many(Verbs.follow)
    inbox = many(Verbs.inbox)
    ask = one(Verbs.ask)
    claim = one(Verbs.claim)
    release = one(Verbs.release)
    delegate = one(Verbs.delegate)
    answer = one(Verbs.answer)
    link = one(Verbs.link)
    claim_work = one(Verbs.claim_work)
    heartbeat_work = one(Verbs.heartbeat_work)
    checkpoint_work = one(Verbs.checkpoint_work)
    complete_work = one(Verbs.complete_work)
    fail_work = one(Verbs.fail_work)
    release_work = one(Verbs.release_work)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        """Open the client; the end of the block closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    def _run(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        return self._driver().run(steps)

    def _iterate(self, steps: Items[T]) -> AsyncIterator[T]:
        return self._driver().iterate(steps)

    def _driver(self) -> AsyncDriver:
        return AsyncDriver(self._http, self._service, self._sleep, self._monotonic)


class AsyncDriver:
    """Does what one call asks for."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        service: ServiceAddress,
        sleep: Callable[[float], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        self._http, self._service, self._sleep, self._monotonic = http, service, sleep, monotonic
        self._stream: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def run(self, steps: Steps[T]) -> T:
        """The result of a call; raises what it raises."""
        outcome: Any = None
        while not isinstance(action := advance(steps, outcome), Finished):
            outcome = await self._perform(action)
        result: T = action.value
        return result

    async def iterate(self, steps: Items[T]) -> AsyncIterator[T]:
        """The values of a call; raises what it raises."""
        outcome: Any = None
        try:
            while not isinstance(action := advance(steps, outcome), Finished):
                if isinstance(action, Item):
                    yield action.value
                    outcome = None
                else:
                    outcome = await self._perform(action)
        finally:
            await self._close()

    async def _perform(self, action: Action) -> Any:
        match action:
            case HttpRequest(stream=True):
                return await self._open(action)
            case HttpRequest():
                return await self._exchange(action)
            case ReadStream():
                return await self._read()
            case Pause(seconds):
                return await self._sleep(seconds)
            case Now():
                return self._monotonic()

    async def _exchange(self, request: HttpRequest) -> Reply:
        try:
            response = await self._http.request(**self._service.arguments(request))
        except httpx.RequestError as error:
            return failure_of(error)
        return reply_of(response, response.content)

    async def _open(self, request: HttpRequest) -> Reply:
        await self._close()
        built = self._http.build_request(**self._service.arguments(request))
        try:
            self._stream = response = await self._http.send(built, stream=True)
            body = b"" if response.is_success else await response.aread()
        except httpx.RequestError as error:
            return failure_of(error)
        self._chunks = response.aiter_bytes()
        return reply_of(response, body)

    async def _read(self) -> bytes | ConnectionFailure:
        if self._chunks is None:
            return b""
        try:
            return await anext(self._chunks, b"")
        except httpx.RequestError as error:
            return failure_of(error)

    async def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
