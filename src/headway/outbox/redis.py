"""Messages to Redis: to channels for who listens now, and to streams for who reads later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal

try:
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import (
        BusyLoadingError,
        ClusterDownError,
        MasterDownError,
        OutOfMemoryError,
        ReadOnlyError,
        RedisError,
    )
    from redis.exceptions import (
        ConnectionError as LostError,
    )
    from redis.exceptions import (
        TimeoutError as SlowError,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('Redis needs its client: pip install "headway[redis]"') from error

from headway.clock import milliseconds
from headway.errors import InputError
from headway.outbox.cloudevents import cloud_event
from headway.outbox.destination import (
    SOON,
    Backoff,
    DeliveryError,
    Fates,
    Message,
    PermanentError,
    Terms,
    UnreachableError,
    Wants,
    deliver_one,
    several,
)
from headway.outbox.templates import Template

PAGE = 2_000
REST_SECONDS = 1.0
LONGEST_STREAM = 100_000
GONE = (LostError, SlowError, OSError)
UNFIT = (BusyLoadingError, ClusterDownError, MasterDownError, OutOfMemoryError, ReadOnlyError)
"""It answers, but cannot write at present."""
UNFIT_WORDS = frozenset({"LOADING", "CLUSTERDOWN", "MASTERDOWN", "OOM", "READONLY", "MISCONF", "NOREPLICAS"})
"""The same, as the first word of an answer."""

Part = str | bytes | int
Command = tuple[Part, ...]
# A page is one script: carried out as a whole, and Redis answers only for what it does not take.
PUBLISH = """
local problems = {}
for i = 1, #ARGV, 2 do
    local said = redis.pcall('PUBLISH', ARGV[i], ARGV[i + 1])
    if type(said) == 'table' and said.err then table.insert(problems, {(i - 1) / 2, said.err}) end
end
return problems
"""
ADD = """
local problems = {}
for i = 1, #KEYS do
    local at = 4 * i - 2
    local said = redis.pcall('XADD', KEYS[i], 'MAXLEN', '~', ARGV[1], '*', 'id', ARGV[at],
        'type', ARGV[at + 1], 'subject', ARGV[at + 2], 'event', ARGV[at + 3])
    if type(said) == 'table' and said.err then table.insert(problems, {i - 1, said.err}) end
end
return problems
"""


class RedisServer:
    """Redis at a URL (`redis://`, `rediss://`, `unix://`); connects when it is first used."""

    def __init__(self, url: str, *, timeout: str | float = "5s") -> None:
        """Raises InputError for a URL that is none, and does not repeat it."""
        seconds = milliseconds(timeout) / 1_000
        try:
            self._client: Redis = Redis.from_url(
                url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=Retry(NoBackoff(), 1)
            )
        except ValueError:
            raise InputError("not the URL of a Redis server") from None

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to commands that are carried out together or not at all; an error of one is its answer.

        Raises UnreachableError and DeliveryError.
        """
        pipeline = self._client.pipeline(transaction=True)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            return await pipeline.execute(raise_on_error=False)
        except (*GONE, *UNFIT) as error:
            raise UnreachableError(f"Redis: {_text(error)}", after=REST_SECONDS) from None
        except RedisError as error:
            raise DeliveryError(f"Redis: {_text(error)}") from None

    async def call(self, script: str, keys: Sequence[str], values: Sequence[str | bytes | int]) -> Any:
        """The answer of a script, carried out as a whole. Raises UnreachableError and DeliveryError."""
        command = ("EVAL", script, len(keys), *keys, *values)
        try:
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # theirs
        except (*GONE, *UNFIT) as error:
            raise UnreachableError(f"Redis: {_text(error)}", after=REST_SECONDS) from None
        except RedisError as error:
            raise DeliveryError(f"Redis: {_text(error)}") from None

    async def close(self) -> None:
        """Close the connections; the next command opens new ones."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


class RedisDestination(ABC):
    """What channels and streams have in common: a page of messages in one script of Redis."""

    def __init__(
        self,
        name: str,
        place: str,
        server: str | RedisServer,
        *,
        events: str | Sequence[str] = "*",
        kinds: str | Sequence[str] = ("topic", "live"),
        tenant: str | None = None,
        source: str = "headway",
        begins: Literal["now", "first"] = "now",
        backoff: Backoff = SOON,
    ) -> None:
        self.name = name
        self.wants = Wants(several(kinds), several(events), tenant)
        self.terms = Terms(begins, PAGE, backoff, PAGE)
        self._place, self._source = Template(place), source
        self._server = RedisServer(server) if isinstance(server, str) else server

    async def deliver(self, message: Message) -> None:
        """Write one message; raises DeliveryError, of which kind ever, when it is not taken."""
        await deliver_one(self, message)

    async def deliver_all(self, messages: Iterable[Message], fates: Fates) -> None:
        """Write messages in their order, and tell of each."""
        letters: list[tuple[int, str, Message]] = []
        for place, message in enumerate(messages):
            try:
                letters.append((place, self._place.fill(message), message))
            except PermanentError as error:
                fates.failed.append((place, error))
        if not letters:
            return
        places = [place for place, _, _ in letters]
        try:
            problems = await self.send([(name, message) for _, name, message in letters])
        except DeliveryError as error:
            fates.failed += [(place, error) for place in places]
            return
        failed = {places[number]: _explained(said.decode(errors="replace")) for number, said in problems}
        fates.failed += failed.items()
        fates.arrived += [place for place in places if place not in failed]

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    @abstractmethod
    async def send(self, letters: Sequence[tuple[str, Message]]) -> Sequence[tuple[int, bytes]]:
        """Hand over messages and where they go; answers which of them Redis refuses, and why."""


class RedisChannel(RedisDestination):
    """Publishes each message to a channel, such as `tasks:{userId}`: for who listens at that moment."""

    def __init__(self, name: str, channel: str, server: str | RedisServer, **options: Any) -> None:
        super().__init__(f"redis-channel:{name}", channel, server, **options)

    async def send(self, letters: Sequence[tuple[str, Message]]) -> Sequence[tuple[int, bytes]]:
        """A CloudEvent as the payload."""
        parts: list[Part] = []
        for channel, message in letters:
            parts += (channel, cloud_event(message, self._source))
        found: Sequence[tuple[int, bytes]] = await self._server.call(PUBLISH, (), parts)
        return found


class RedisStream(RedisDestination):
    """Appends each message to a stream that keeps about `longest` entries."""

    def __init__(
        self,
        name: str,
        stream: str,
        server: str | RedisServer,
        *,
        longest: int = LONGEST_STREAM,
        **options: Any,
    ) -> None:
        super().__init__(f"redis-stream:{name}", stream, server, **options)
        self._longest = longest

    async def send(self, letters: Sequence[tuple[str, Message]]) -> Sequence[tuple[int, bytes]]:
        """The message's own id as a field, because the entry's is another at every attempt."""
        parts: list[Part] = [self._longest]
        for _, message in letters:
            parts += (message.id, message.name, message.instance, cloud_event(message, self._source))
        names = [name for name, _ in letters]
        found: Sequence[tuple[int, bytes]] = await self._server.call(ADD, names, parts)
        return found


def _explained(said: str) -> Exception:
    """What Redis says of one message: it may be unable to write anything at present."""
    if said.partition(" ")[0] in UNFIT_WORDS:
        return UnreachableError(f"Redis: {said}", after=REST_SECONDS)
    return DeliveryError(f"Redis: {said}")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
