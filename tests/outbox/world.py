"""What the tests of the outbox share: messages in a store, readers with moods, and an HTTP receiver."""

import asyncio
import contextlib
import itertools
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from headway.codec import encode
from headway.engine.engine import Engine
from headway.outbox.destination import Backoff, Subscriber
from headway.outbox.message import Message
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.store.queries import Settlement
from headway.store.rows import Cursor, MessageRow
from headway.store.sqlite.store import SqliteStore
from headway.store.unit import Changes, Found, Reads
from headway.testing import FakeClock
from tests.overlay import Overlay

ACME = "acme"
QUICK = Backoff.after("10s", "10s", jitter=0)
NUMBERS = itertools.count(1)

Mood = Callable[[Message], Awaitable[None] | None]


class Publication:
    """A unit that writes messages and nothing else."""

    def __init__(self, messages: Sequence[MessageRow]) -> None:
        self.messages = messages

    def begin(self) -> Reads:
        """Nothing has to be read."""
        return Reads()

    def take(self, _found: Found) -> None:
        """Everything is decided."""

    def changes(self) -> Changes:
        """The messages."""
        return Changes(messages=list(self.messages))


async def publish(
    store: Store, instance: str, *names: str, kind: str = "topic", tenant: str = ACME, data: Any = None
) -> None:
    """Write messages of an instance, each in a transaction of its own."""
    for name in names:
        row = MessageRow(
            tenant,
            f"{instance}:{next(NUMBERS)}:0",
            instance,
            kind,
            name,
            None if data is None else encode(data).decode(),
            await store.now(),
        )
        await store.run(Publication([row]))


class Reader:
    """Notes what it was given; its `mood` for a name may raise or wait."""

    def __init__(self, **moods: Mood) -> None:
        self.moods = moods
        self.given: list[Message] = []
        self.taken: list[Message] = []

    async def __call__(self, message: Message) -> None:
        """Take a message, or do not."""
        self.given.append(message)
        mood = self.moods.get(message.name)
        if mood is not None:
            waited = mood(message)
            if waited is not None:
                await waited
        self.taken.append(message)

    @property
    def names(self) -> list[str]:
        """What it has taken, in order."""
        return [message.name for message in self.taken]

    @property
    def attempts(self) -> list[str]:
        """What it was given, in order."""
        return [message.name for message in self.given]


def always(error: Exception) -> Mood:
    """Never take it."""

    def mood(_message: Message) -> None:
        raise error

    return mood


def at_first(error: Exception, times: int = 1) -> Mood:
    """Do not take it so many times."""
    left = Counter({"times": times})

    def mood(_message: Message) -> None:
        left["times"] -= 1
        if left["times"] >= 0:
            raise error

    return mood


def relay_to(store: Any, reader: Reader, **options: Any) -> Relay:
    """A relay to a subscriber that begins with the first message."""
    names = ("holder", "lease", "page", "most_waiting")
    own = {name: options.pop(name) for name in names if name in options}
    subscriber = Subscriber("reader", reader, **{"begins": "first", "backoff": QUICK, **options})
    return Relay(Engine(store), subscriber, **own)


async def until_idle(*relays: Relay) -> None:
    """Take turns until none of the relays has anything more to do."""
    while any([await relay.turn() for relay in relays]):
        pass


@asynccontextmanager
async def memory_store(clock: FakeClock) -> AsyncIterator[SqliteStore]:
    """A store in memory."""
    store = SqliteStore(":memory:", clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Failing:
    """A store whose settlements fail as long as it is told so: what a crash before them looks like.

    With `writes` they are written all the same, and only the answer is lost.
    """

    def __init__(self, store: Store, error: Exception, *, writes: bool = False) -> None:
        self._store, self._error, self._writes = store, error, writes
        self.messages: Any = Overlay(store.messages, settle=self._settle)
        self.fails = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _settle(self, settlement: Settlement) -> bool:
        if self.fails and (settlement.letters or settlement.delivered or settlement.cursor != Cursor()):
            if self._writes:
                await self._store.messages.settle(settlement)
            raise self._error
        return await self._store.messages.settle(settlement)


Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""What a receiver writes, or what it does instead."""


def http(status: int, *headers: str, body: bytes = b"") -> bytes:
    """An HTTP answer."""
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def never(_writer: asyncio.StreamWriter) -> None:
    """Do not answer as long as the sender stays."""
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter) -> None:
    """Cut the connection hard."""
    writer.transport.abort()


class Request:
    """One request as it came over the wire."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode().rstrip("\r\n").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        named = (line.split(": ", 1) for line in lines)
        self.headers = {name.lower(): value for name, value in named}
        self.body = b""


class Receiver:
    """A real HTTP server on loopback that answers as told; when nothing is left to say, 204."""

    def __init__(self, *answers: Answer, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.connections = 0
        self._host, self._tls = host, tls
        self._talks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    _port = 0

    def at(self, port: int) -> Self:
        """Listen on this port."""
        self._port = port
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cut all connections."""
        self._server.close()
        for _turn in range(3):  # who has just come is let in first, to be shown out
            await asyncio.sleep(0)
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        # Whatever ends it, it ends well: a handler that is cancelled is an error for asyncio.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                await self._talk(reader, writer)
            finally:
                writer.transport.abort()
                await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            request = Request(head)
            request.body = await reader.readexactly(int(request.headers["content-length"]))
            self.requests.append(request)
            answer = self.answers.pop(0) if self.answers else http(204)
            if not isinstance(answer, bytes):
                await answer(writer)
                return
            writer.write(answer)
            await writer.drain()
