"""Messages to Redis: published to channels, or appended to streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
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
        TryAgainError,
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
from headway.codec import Value
from headway.errors import DeliveryError, InputError, PermanentError, UnreachableError
from headway.outbox.destination import (
    SOON,
    Backoff,
    DeliveryPolicy,
    DeliveryReport,
    MessageFilter,
    deliver_one,
    outward,
    several,
)
from headway.outbox.message import Message, Template, cloud_event
from headway.store.rows import Key

PAGE = 2_000
MOST_BYTES = 4 * 1024 * 1024
"""A script gets no more than this plus one message: it has to arrive within the timeout."""
REST_SECONDS = 1.0
LONGEST_STREAM = 100_000
GONE = (LostError, SlowError, OSError)
UNFIT = (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
"""Redis answers, but cannot write at present."""
UNFIT_WORDS = frozenset(
    {
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "NOREPLICAS",
        "OOM",
        "READONLY",
        "TRYAGAIN",
    }
)
"""The same, as the first word of an answer."""

Part = str | bytes | int
Command = tuple[Part, ...]
# One script writes many messages atomically and answers only with those that Redis does not accept. Each
# comes with a number for its instance: after one that fails, later ones of its instance are not written.
PUBLISH = """
local problems, behind = {}, {}
for i = 1, #ARGV, 3 do
    local instance = ARGV[i]
    local problem = behind[instance]
    if not problem then
        local said = redis.pcall('PUBLISH', ARGV[i + 1], ARGV[i + 2])
        if type(said) == 'table' then problem = said.err end
    end
    if problem then
        behind[instance] = problem
        table.insert(problems, {(i - 1) / 3, problem})
    end
end
return problems
"""
ADD = """
local problems, behind = {}, {}
for i = 1, #KEYS do
    local at = 5 * i - 3
    local instance = ARGV[at]
    local problem = behind[instance]
    if not problem then
        local said = redis.pcall('XADD', KEYS[i], 'MAXLEN', '~', ARGV[1], '*', 'id', ARGV[at + 1],
            'type', ARGV[at + 2], 'subject', ARGV[at + 3], 'event', ARGV[at + 4])
        if type(said) == 'table' then problem = said.err end
    end
    if problem then
        behind[instance] = problem
        table.insert(problems, {i - 1, problem})
    end
end
return problems
"""


class RedisServer:
    """Redis at a URL (`redis://`, `rediss://`, `unix://`); connects when it is first used."""

    def __init__(self, url: str, *, timeout: str | float = "5s") -> None:
        """Raises InputError for an invalid URL; its text does not contain the URL."""
        seconds = milliseconds(timeout) / 1_000
        try:
            self._client: Redis = Redis.from_url(
                url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=Retry(NoBackoff(), 1)
            )
        except ValueError:
            raise InputError("not a valid URL of a Redis server") from None

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to commands of one transaction; an error of one is its answer.

        Raises UnreachableError and DeliveryError.
        """
        pipeline = self._client.pipeline(transaction=True)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            return await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            raise _failure(error) from None

    async def call(self, script: str, keys: Sequence[Part], values: Sequence[Part]) -> Any:
        """The answer of a script, which runs atomically. Raises UnreachableError and DeliveryError."""
        command = ("EVAL", script, len(keys), *keys, *values)
        try:
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # theirs
        except (RedisError, OSError) as error:
            raise _failure(error) from None

    async def close(self) -> None:
        """Close the connections; the next command opens new ones."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


class RedisEntry(Value):
    """A message for Redis: its index in the page, its instance, its channel or stream, and its values."""

    place: int
    key: Key
    target: bytes
    parts: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """About how many bytes it has on the wire."""
        return len(self.target) + sum(map(len, self.parts))


class RedisDestination(ABC):
    """What channels and streams have in common: a page of messages goes in few scripts."""

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
        self.filter = MessageFilter(outward(kinds), several(events), tenant)
        self.policy = DeliveryPolicy(begins, PAGE, backoff, PAGE)
        self._place, self._source = Template(place), source
        self._server = RedisServer(server) if isinstance(server, str) else server

    async def deliver(self, message: Message) -> None:
        """Write one message; raises DeliveryError or a subclass if Redis does not accept it."""
        await deliver_one(self, message)

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Write messages in order, and report each; if Redis is unreachable the rest is not tried."""
        behind: dict[Key, Exception] = {}
        for entries in _shares(self._entries(messages, report)):
            sent = [entry for entry in entries if entry.key not in behind]
            failed = {entry.place: behind[entry.key] for entry in entries if entry.key in behind}
            failed |= await self._problems(sent) if sent else {}
            behind |= {entry.key: failed[entry.place] for entry in sent if entry.place in failed}
            report.failed += failed.items()
            report.delivered += [entry.place for entry in sent if entry.place not in failed]
            if any(isinstance(error, UnreachableError) for error in failed.values()):
                return

    def _entries(self, messages: Iterable[Message], report: DeliveryReport) -> Iterator[RedisEntry]:
        """The entries that can be written; a bad message fails, with later ones of its instance."""
        behind: dict[Key, Exception] = {}
        for place, message in enumerate(messages):
            key = message.tenant, message.instance
            if key in behind:
                report.failed.append((place, behind[key]))
                continue
            try:
                entry = RedisEntry(place, key, self._place.fill(message).encode(), self.parts(message))
            except Exception as error:  # noqa: BLE001 - it concerns this message only, not the others of the batch
                report.failed.append((place, error))
                if not isinstance(error, PermanentError):
                    behind[key] = error
                continue
            yield entry

    async def _problems(self, entries: Sequence[RedisEntry]) -> dict[int, Exception]:
        """Write a part of a page; answers with errors by the index of the message."""
        try:
            problems = await self.send(entries)
        except DeliveryError as error:
            return dict.fromkeys((entry.place for entry in entries), error)
        return {entries[number].place: _explained(said.decode(errors="replace")) for number, said in problems}

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    @abstractmethod
    def parts(self, message: Message) -> tuple[bytes, ...]:
        """The values to write of a message."""

    @abstractmethod
    async def send(self, entries: Sequence[RedisEntry]) -> Sequence[tuple[int, bytes]]:
        """Write messages; answers with those that Redis refuses, and why."""


class RedisChannel(RedisDestination):
    """Publishes each message to a channel, such as `tasks:{userId}`, for its current listeners."""

    def __init__(self, name: str, channel: str, server: str | RedisServer, **options: Any) -> None:
        super().__init__(f"redis-channel:{name}", channel, server, **options)

    def parts(self, message: Message) -> tuple[bytes, ...]:
        """A CloudEvent as the payload."""
        return (cloud_event(message, self._source),)

    async def send(self, entries: Sequence[RedisEntry]) -> Sequence[tuple[int, bytes]]:
        """Publish them."""
        values: list[Part] = []
        for number, entry in zip(_numbers(entries), entries, strict=True):
            values += (number, entry.target, *entry.parts)
        found: Sequence[tuple[int, bytes]] = await self._server.call(PUBLISH, (), values)
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

    def parts(self, message: Message) -> tuple[bytes, ...]:
        """The message's id is a field, because the id of the entry differs at every attempt."""
        event = cloud_event(message, self._source)
        return message.id.encode(), message.name.encode(), message.instance.encode(), event

    async def send(self, entries: Sequence[RedisEntry]) -> Sequence[tuple[int, bytes]]:
        """Append them."""
        values: list[Part] = [self._longest]
        for number, entry in zip(_numbers(entries), entries, strict=True):
            values += (number, *entry.parts)
        streams = [entry.target for entry in entries]
        found: Sequence[tuple[int, bytes]] = await self._server.call(ADD, streams, values)
        return found


def _shares(entries: Iterable[RedisEntry]) -> Iterator[list[RedisEntry]]:
    """Entries in order, as many at a time as fit in one script."""
    share: list[RedisEntry] = []
    size = 0
    for entry in entries:
        if share and size + entry.size > MOST_BYTES:
            yield share
            share, size = [], 0
        share.append(entry)
        size += entry.size
    if share:
        yield share


def _numbers(entries: Sequence[RedisEntry]) -> Iterator[int]:
    """A number for the instance of each entry."""
    numbers: dict[Key, int] = {}
    return (numbers.setdefault(entry.key, len(numbers)) for entry in entries)


def _explained(said: str) -> Exception:
    """The error for one message: Redis may be unable to write anything at present."""
    if said.partition(" ")[0] in UNFIT_WORDS:
        return UnreachableError(f"Redis: {said}", after=REST_SECONDS)
    return DeliveryError(f"Redis: {said}")


def _failure(error: Exception) -> DeliveryError:
    """The error for an error of the client: Redis may be gone, or unable to write anything at present."""
    said = f"Redis: {type(error).__name__}: {error}"
    # With several commands the client first says which of them failed.
    answer = str(error).rpartition("caused error: ")[2].lstrip("('\"")
    first_word = answer.partition(" ")[0]
    if isinstance(error, (*GONE, *UNFIT)) or first_word in UNFIT_WORDS:
        return UnreachableError(said, after=REST_SECONDS)
    return DeliveryError(said)
