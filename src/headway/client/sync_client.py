"""`SyncClient`, the calls over HTTP for programs without asyncio. The calls themselves are in verbs.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
) -> Callable[Concatenate[SyncClient, P], T]:
    """The synchronous version of a method with one result."""

    @wraps(verb)
    def call(self: SyncClient, /, *args: P.args, **named: P.kwargs) -> T:
        return self._run(verb(self._verbs, *args, **named))

    return call


def many(
    verb: Callable[Concatenate[Verbs, P], Items[T]],
) -> Callable[Concatenate[SyncClient, P], Iterator[T]]:
    """A method for `for` over the values of a call."""

    @wraps(verb)
    def call(self: SyncClient, /, *args: P.args, **named: P.kwargs) -> Iterator[T]:
        return self._iterate(verb(self._verbs, *args, **named))

    return call


class SyncClient:
    """Calls a Headway service over HTTP, for programs without asyncio; see `Client` for its arguments.

    Threads may share it.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises InputError without a key, or for a text that is no URL."""
        self._service = ServiceAddress.given(url, key, timeout)
        self._http = httpx.Client(transport=transport, **self._service.options())
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

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        return self._driver().run(steps)

    def _iterate(self, steps: Items[T]) -> Iterator[T]:
        return self._driver().iterate(steps)

    def _driver(self) -> SyncDriver:
        return SyncDriver(self._http, self._service, self._sleep, self._monotonic)


class SyncDriver:
    """Does what one call asks for."""

    def __init__(
        self,
        http: httpx.Client,
        service: ServiceAddress,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._http, self._service, self._sleep, self._monotonic = http, service, sleep, monotonic
        self._stream: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())

    def run(self, steps: Steps[T]) -> T:
        """The result of a call; raises what it raises."""
        outcome: Any = None
        while not isinstance(action := advance(steps, outcome), Finished):
            outcome = self._perform(action)
        result: T = action.value
        return result

    def iterate(self, steps: Items[T]) -> Iterator[T]:
        """The values of a call; raises what it raises."""
        outcome: Any = None
        try:
            while not isinstance(action := advance(steps, outcome), Finished):
                if isinstance(action, Item):
                    yield action.value
                    outcome = None
                else:
                    outcome = self._perform(action)
        finally:
            self._close()

    def _perform(self, action: Action) -> Any:
        match action:
            case HttpRequest(stream=True):
                return self._open(action)
            case HttpRequest():
                return self._exchange(action)
            case ReadStream():
                return self._read()
            case Pause(seconds):
                return self._sleep(seconds)
            case Now():
                return self._monotonic()

    def _exchange(self, request: HttpRequest) -> Reply:
        try:
            response = self._http.request(**self._service.arguments(request))
        except httpx.RequestError as error:
            return failure_of(error)
        return reply_of(response, response.content)

    def _open(self, request: HttpRequest) -> Reply:
        self._close()
        built = self._http.build_request(**self._service.arguments(request))
        try:
            self._stream = response = self._http.send(built, stream=True)
            body = b"" if response.is_success else response.read()
        except httpx.RequestError as error:
            return failure_of(error)
        self._chunks = response.iter_bytes()
        return reply_of(response, body)

    def _read(self) -> bytes | ConnectionFailure:
        try:
            return next(self._chunks, b"")
        except httpx.RequestError as error:
            return failure_of(error)

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
