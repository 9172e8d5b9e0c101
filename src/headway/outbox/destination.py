"""A destination: who wants which messages, and how it is served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal, Protocol, runtime_checkable
from zlib import crc32

from headway.clock import backoff, milliseconds
from headway.codec import Value
from headway.errors import InputError
from headway.outbox.message import Message
from headway.store.rows import MessageRow

Duration = str | float
SENT = frozenset({"topic", "webhook", "live", "log"})
"""Kinds of messages that are meant for somebody outside; the others go from instance to instance."""


class Wants(Value):
    """Which messages a destination wants; names are matched as file names are (`expense.*`)."""

    kinds: tuple[str, ...]
    names: tuple[str, ...] = ("*",)
    tenant: str | None = None

    def takes(self, tenant: str, kind: str, name: str) -> bool:
        """Whether a message is wanted."""
        return kind in self.kinds and self.tenant in {None, tenant} and self.takes_name(name)

    def takes_name(self, name: str) -> bool:
        """Whether messages of this name are wanted."""
        return "*" in self.names or any(fnmatchcase(name, pattern) for pattern in self.names)

    def of(self, messages: Sequence[MessageRow]) -> Sequence[MessageRow]:
        """Those that are wanted, of messages whose kind and tenant are."""
        if "*" in self.names:
            return messages
        wanted = {name: self.takes_name(name) for name in {message.name for message in messages}}
        return [message for message in messages if wanted[message.name]]


class Backoff(Value):
    """After which times a message is tried again, in milliseconds; after the last of them it is dead.

    Each wait is longer by up to `jitter` of itself, so that what failed together does not come back
    together.
    """

    waits: tuple[int, ...]
    jitter: float = 0.2

    @classmethod
    def after(cls, *waits: Duration, jitter: float = 0.2) -> Backoff:
        """These waits, one after the other."""
        return cls(tuple(milliseconds(wait) for wait in waits), jitter)

    @classmethod
    def growing(
        cls, attempts: int, base: Duration, *, factor: float = 2, cap: Duration = "1h", jitter: float = 0.2
    ) -> Backoff:
        """So many attempts, the waits between them growing from a base up to a cap."""
        first, most = milliseconds(base), milliseconds(cap)
        waits = (backoff(failures, base=first, cap=most, factor=factor) for failures in range(1, attempts))
        return cls(tuple(map(round, waits)), jitter)

    def wait(self, letter: str, attempts: int) -> int | None:
        """How long to wait after so many attempts; None when there is no further one."""
        if attempts > len(self.waits):
            return None
        wait = self.waits[attempts - 1]
        share = crc32(f"{letter}:{attempts}".encode()) / 2**32
        return round(wait * (1 + self.jitter * share))


STANDARD = Backoff.after("5s", "5m", "30m", "2h", "5h", "10h", "10h")
"""What Standard Webhooks recommends: eight attempts within 28 hours."""
SOON = Backoff.growing(attempts=12, base="1s", factor=3, cap="1h")
"""For what is near: twelve attempts within 4 to 5 hours."""


TIMEOUT = 60_000
"""A minute: who needs longer for one message holds up the others."""


class Terms(Value):
    """How a destination is served.

    A destination that is new `begins` with what is published from now on, or with the first message
    there is. `at_once` is how many instances' messages are on their way at the same time, `page` how many
    messages are read before progress is written. `timeout` is the milliseconds that a call of `deliver` may
    take; without one the destination sees to that itself, as one that takes many messages always does.
    """

    begins: Literal["now", "first"] = "now"
    at_once: int = 32
    backoff: Backoff = STANDARD
    page: int = 500
    timeout: int | None = TIMEOUT


class Destination(Protocol):
    """Where messages go. The name must stay the same: it is what the store remembers progress by."""

    @property
    def name(self) -> str:
        """Its name among all destinations."""

    @property
    def wants(self) -> Wants:
        """Which messages it wants."""

    @property
    def terms(self) -> Terms:
        """How it is served."""

    async def deliver(self, message: Message) -> None:
        """Hand a message over.

        Raises PermanentError when it will never be taken, BusyError to be left alone for a time,
        NotHereError when another node has to do it, UnfinishedError to go on with it later, and anything
        else for a failure that may pass.
        """

    async def close(self) -> None:
        """Let go of connections; a delivery after that opens new ones."""


class DeliveryReport:
    """What becomes of messages that are handed over together, by their place; any thread may tell."""

    def __init__(self) -> None:
        self.delivered: list[int] = []
        self.failed: list[tuple[int, Exception]] = []


@runtime_checkable
class Timed(Protocol):
    """A destination that tells the time of a delivery: it gets the store's, on which all nodes agree."""

    def keep_time(self, now: datetime) -> None:
        """What the time is at this moment."""


@runtime_checkable
class Bulk(Protocol):
    """A destination that takes many messages without an answer to each before the next."""

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Hand messages over, those of an instance in their order, and tell of each as soon as it is known.

        When one fails, those of its instance behind it fail too, unless that is a PermanentError. It ends
        when all are told; one that is not counts as not tried.
        """


async def deliver_one(destination: Bulk, message: Message) -> None:
    """Hand one message over where many could be; raises what is wrong with it."""
    report = DeliveryReport()
    await destination.deliver_all([message], report)
    for _, error in report.failed:
        raise error


def several(given: str | Sequence[str]) -> tuple[str, ...]:
    """One or several, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def outward(kinds: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds of messages for somebody outside; raises InputError for others: instances tell each other all."""
    named = several(kinds)
    if not named or not SENT.issuperset(named):
        raise InputError(f"the kinds of messages are of {', '.join(sorted(SENT))}, not {named}")
    return named
