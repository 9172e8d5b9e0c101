"""Messages to Redis: to channels for who listens now, and to streams for who reads later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

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

from headway.clock import milliseconds
from headway.errors import InputError
from headway.outbox.cloudevents import cloud_event
from headway.outbox.destination import (
    SOON,
    Backoff,
    DeliveryError,
    Message,
    Terms,
    Told,
    UnreachableError,
    Wants,
    several,
)
from headway.outbox.templates import Template

PAGE = 1_000
REST_SECONDS = 1.0
LONGEST_STREAM = 100_000
GONE = (LostError, SlowError, OSError)
UNFIT = (BusyLoadingError, ClusterDownError, MasterDownError, OutOfMemoryError, ReadOnlyError)
"""It answers, but cannot write at present."""

Command = tuple[str | bytes | int, ...]


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

    async def close(self) -> None:
        """Close the connections; the next command opens new ones."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()


class RedisDestination(ABC):
    """What channels and streams have in common: a page of messages in one transaction of Redis."""

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
        errors: list[Exception | None] = []
        await self.deliver_all([message], lambda _, error: errors.append(error))
        if errors[0] is not None:
            raise errors[0]

    async def deliver_all(self, messages: Sequence[Message], told: Told) -> None:
        """Write messages in their order, and tell of each."""
        places: list[int] = []
        commands: list[Command] = []
        for place, message in enumerate(messages):
            try:
                commands.append(self.command(self._place.fill(message), message))
                places.append(place)
            except Exception as error:  # noqa: BLE001 - it is this message's own; its neighbours go on
                told(place, error)
        if commands:
            for place, answer in zip(places, await self._answers(commands), strict=True):
                told(place, answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    @abstractmethod
    def command(self, place: str, message: Message) -> Command:
        """What a message is for Redis."""

    async def _answers(self, commands: Sequence[Command]) -> list[Exception | None]:
        try:
            answers = await self._server.run(commands)
        except DeliveryError as error:
            return [error] * len(commands)
        return [_problem(answer) for answer in answers]


class RedisChannel(RedisDestination):
    """Publishes each message to a channel, such as `tasks:{userId}`: for who listens at that moment."""

    def __init__(self, name: str, channel: str, server: str | RedisServer, **options: Any) -> None:
        super().__init__(f"redis-channel:{name}", channel, server, **options)

    def command(self, place: str, message: Message) -> Command:
        """A CloudEvent as the payload."""
        return "PUBLISH", place, cloud_event(message, self._source)


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

    def command(self, place: str, message: Message) -> Command:
        """The message's own id as a field, because the entry's is another at every attempt."""
        fields = ("id", message.id, "type", message.name, "subject", message.instance)
        event = cloud_event(message, self._source)
        return "XADD", place, "MAXLEN", "~", self._longest, "*", *fields, "event", event


def _problem(answer: Any) -> Exception | None:
    if isinstance(answer, (*GONE, *UNFIT)):
        return UnreachableError(f"Redis: {_text(answer)}", after=REST_SECONDS)
    return DeliveryError(f"Redis: {_text(answer)}") if isinstance(answer, Exception) else None


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
