"""A destination: where messages go, which of them it takes, and how they are delivered and retried.

`Subscriber` is the one that needs no connection: an async function in this process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from inspect import isawaitable
from typing import Literal, Protocol, runtime_checkable
from zlib import crc32

from headway.clock import backoff, milliseconds
from headway.codec import Value
from headway.errors import InputError, PermanentError
from headway.outbox.message import Message
from headway.store.rows import MessageRow

Duration = str | float
Handler = Callable[[Message], Awaitable[None]]
SENT = frozenset({"topic", "webhook", "live", "log"})
"""Kinds of messages for receivers outside of the engine; the others go from instance to instance."""


class MessageFilter(Value):
    """The messages that a destination accepts; names are glob patterns (`expense.*`)."""

    kinds: tuple[str, ...]
    names: tuple[str, ...] = ("*",)
    tenant: str | None = None

    def takes(self, tenant: str, kind: str, name: str) -> bool:
        """Whether a message is accepted."""
        return kind in self.kinds and self.tenant in {None, tenant} and self.takes_name(name)

    def takes_name(self, name: str) -> bool:
        """Whether messages of this name are accepted."""
        return "*" in self.names or any(fnmatchcase(name, pattern) for pattern in self.names)

    def of(self, messages: Sequence[MessageRow]) -> Sequence[MessageRow]:
        """The accepted ones of messages whose kind and tenant are accepted already."""
        if "*" in self.names:
            return messages
        accepted = {name: self.takes_name(name) for name in {message.name for message in messages}}
        return [message for message in messages if accepted[message.name]]


class Backoff(Value):
    """The waits before each retry of a message, in milliseconds; after the last retry it is a dead letter.

    Each wait is longer by up to `jitter` of itself, so that messages which failed together are not retried
    together.
    """

    waits: tuple[int, ...]
    jitter: float = 0.2

    @classmethod
    def after(cls, *waits: Duration, jitter: float = 0.2) -> Backoff:
        """With these waits, one after the other."""
        return cls(tuple(milliseconds(wait) for wait in waits), jitter)

    @classmethod
    def growing(
        cls, attempts: int, base: Duration, *, factor: float = 2, cap: Duration = "1h", jitter: float = 0.2
    ) -> Backoff:
        """A number of attempts, with waits between them that grow from a base up to a cap."""
        first, most = milliseconds(base), milliseconds(cap)
        waits = (backoff(failures, base=first, cap=most, factor=factor) for failures in range(1, attempts))
        return cls(tuple(map(round, waits)), jitter)

    def wait(self, letter: str, attempts: int) -> int | None:
        """Milliseconds to wait after this number of attempts; None if there is no further attempt."""
        if attempts > len(self.waits):
            return None
        wait = self.waits[attempts - 1]
        share = crc32(f"{letter}:{attempts}".encode()) / 2**32
        return round(wait * (1 + self.jitter * share))


STANDARD = Backoff.after("5s", "5m", "30m", "2h", "5h", "10h", "10h")
"""What Standard Webhooks recommends: eight attempts within 28 hours."""
SOON = Backoff.growing(attempts=12, base="1s", factor=3, cap="1h")
"""For destinations in the same network: twelve attempts within 4 to 5 hours."""


TIMEOUT = 60_000
"""One minute, in milliseconds."""


class DeliveryPolicy(Value):
    """How messages are delivered to a destination.

    A new destination `begins` with what is published from now on, or with the first message in the outbox.
    `at_once` is the number of instances whose messages are delivered concurrently, `page` the number of
    messages that are read before progress is written. `timeout` is how many milliseconds a call of `deliver`
    may take; with None, and for bulk destinations, the destination limits its time itself.
    """

    begins: Literal["now", "first"] = "now"
    at_once: int = 32
    backoff: Backoff = STANDARD
    page: int = 500
    timeout: int | None = TIMEOUT


class Destination(Protocol):
    """Where messages go. The name must stay the same: progress is stored under it."""

    @property
    def name(self) -> str:
        """A unique name."""

    @property
    def filter(self) -> MessageFilter:
        """The messages that it accepts."""

    @property
    def policy(self) -> DeliveryPolicy:
        """How messages are delivered to it."""

    async def deliver(self, message: Message) -> None:
        """Deliver a message.

        Raises PermanentError if it will never be accepted, BusyError to ask for a pause, NotHereError if
        another node has to deliver it, UnfinishedError to continue later, and anything else to have it
        retried.
        """

    async def close(self) -> None:
        """Close connections; a later delivery opens new ones."""


class DeliveryReport:
    """The results of a bulk delivery, by the index of each message; any thread may add to it."""

    def __init__(self) -> None:
        self.delivered: list[int] = []
        self.failed: list[tuple[int, Exception]] = []


@runtime_checkable
class TimedDestination(Protocol):
    """A destination that sends the time along: it uses the store's, on which all nodes agree."""

    def keep_time(self, now: datetime) -> None:
        """Set the current time."""


@runtime_checkable
class BulkDestination(Protocol):
    """A destination that accepts many messages without waiting for the result of each."""

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Deliver messages, those of an instance in order, and report each result as soon as it is known.

        When one fails, later ones of its instance fail too, unless it fails with PermanentError. Messages
        that are not reported when it returns count as not tried.
        """


async def deliver_one(destination: BulkDestination, message: Message) -> None:
    """Deliver one message to a bulk destination; raises its error."""
    report = DeliveryReport()
    await destination.deliver_all([message], report)
    for _, error in report.failed:
        raise error


def several(given: str | Sequence[str]) -> tuple[str, ...]:
    """One or several, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def outward(kinds: str | Sequence[str]) -> tuple[str, ...]:
    """Check kinds of messages for receivers outside; raises InputError for others."""
    named = several(kinds)
    if not named or not SENT.issuperset(named):
        raise InputError(f"the kinds must be of {', '.join(sorted(SENT))}, not {named}")
    return named


class Subscriber:
    """Calls an async function with each message: at least once, in order per instance.

    If it raises, the message is retried, unless it raises PermanentError. If it is not done within `timeout`
    it is cancelled, and the message is retried. It may get a message again with the same `id`, after a
    failure or a crash.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        *,
        events: str | Sequence[str] = "*",
        kinds: str | Sequence[str] = "topic",
        tenant: str | None = None,
        begins: Literal["now", "first"] = "now",
        at_once: int = 32,
        backoff: Backoff = SOON,
        timeout: Duration = TIMEOUT / 1_000,
    ) -> None:
        if not name or not callable(handler):
            raise InputError("a subscriber needs a name and an async function")
        if begins not in {"now", "first"}:
            raise InputError("begins must be now or first")
        if not {*several(kinds)} <= SENT:
            raise InputError(f"kinds must be among {', '.join(sorted(SENT))}")
        if not milliseconds(timeout):
            raise InputError("the timeout of a subscriber must be more than 0")
        self.name = f"subscriber:{name}"
        self.filter = MessageFilter(several(kinds), several(events), tenant)
        self.policy = DeliveryPolicy(begins, at_once, backoff, timeout=milliseconds(timeout))
        self._handler = handler

    async def deliver(self, message: Message) -> None:
        """Call the function; raises PermanentError if it is not async."""
        answer = self._handler(message)
        if not isawaitable(answer):
            raise PermanentError(f"the function of {self.name} must be async")
        await answer

    async def close(self) -> None:
        """Nothing to close."""
