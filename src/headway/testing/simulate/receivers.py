"""Simulated receivers of messages: they fail, are slow or down, or report errors for accepted messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from headway.codec import encode
from headway.errors import BusyError, DeliveryError, PermanentError
from headway.outbox.destination import Backoff, DeliveryPolicy, Destination, MessageFilter
from headway.outbox.message import Message
from headway.store.rows import MessageRow
from headway.testing.simulate.witness import Trace

KINDS = {"news": ("topic", "live", "log"), "hooks": ("webhook",)}
POLICY = DeliveryPolicy("first", 4, Backoff.after(*[0.3, 0.6, 1, 2, 4, 8]))
POISON = 0.01


class Content(NamedTuple):
    """A message without its id."""

    tenant: str
    instance: str
    kind: str
    name: str
    at: str
    data: str


def content_of(message: MessageRow | Message) -> Content:
    """The content of a committed or delivered message."""
    data = message.data if isinstance(message, MessageRow) else _text(message.data)
    return Content(
        message.tenant, message.instance, message.kind, message.name, message.at.isoformat(), data or ""
    )


def _text(data: object) -> str:
    return "" if data is None else encode(data).decode()


class DeliveryLog:
    """What a destination was given: contents by id, the order of acceptance, and what it denied for good."""

    def __init__(self, destination: Destination, violated: Callable[[str], None]) -> None:
        self.name, self.filter = destination.name, destination.filter
        self.contents: dict[str, Content] = {}
        self.taken: list[str] = []
        self.denied: set[str] = set()
        self._violated = violated

    def given(self, message: Message) -> None:
        """Record an attempt; the same id always has the same content."""
        content = content_of(message)
        if self.contents.setdefault(message.id, content) != content:
            self._violated(f"{self.name} got {message.id} with another content")

    def took(self, message: Message) -> None:
        """Record that a message was accepted."""
        if message.id not in self.taken:
            self.taken.append(message.id)

    def by_content(self, ids: list[str]) -> Iterator[tuple[Content, str]]:
        """The contents of messages, with their ids."""
        return ((self.contents[each], each) for each in ids)


class ReceiverFaults:
    """Faults of a receiver; each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.poison = 0.0
        self.slow = 0.0
        self.down = False

    def stop(self) -> None:
        """No more faults from now on."""
        self.fails = self.poison = self.slow = 0.0
        self.down = False


class Receiver:
    """An external system, as one process reaches it."""

    def __init__(self, name: str, faults: ReceiverFaults, trace: Trace) -> None:
        self._trace = trace
        self.name = f"receiver:{name}"
        self.filter = MessageFilter(KINDS[name])
        self.policy = POLICY
        self._faults = faults
        self.delivery_log: DeliveryLog | None = None

    async def deliver(self, message: Message) -> None:
        """Accept a message, or fail, or accept it and report an error."""
        faults, random = self._faults, self._faults.random
        await asyncio.sleep(random.random() * (3.0 if random.random() < faults.slow else 0.01))
        if faults.down:
            raise ConnectionError("refused")
        draw = random.random()
        if draw < faults.poison:
            raise PermanentError("never")
        if draw < faults.poison + faults.fails:
            if random.random() < 0.2:  # noqa: PLR2004 - one in five
                raise BusyError("not now", after=random.random() * 2)
            if random.random() < 0.3 and self.delivery_log is not None:  # noqa: PLR2004 - three in ten
                self.delivery_log.took(message)
            raise DeliveryError("no")
        self._trace.note(
            self.name, f"accepts {message.name} of {message.instance} (attempt {message.attempt})"
        )

    async def close(self) -> None:
        """Nothing to close."""


class Recorded:
    """A destination that keeps a delivery log."""

    def __init__(self, inner: Destination, delivery_log: DeliveryLog) -> None:
        self.name, self.filter, self.policy = inner.name, inner.filter, inner.policy
        self._inner, self._delivery_log = inner, delivery_log
        if isinstance(inner, Receiver):
            inner.delivery_log = delivery_log

    async def deliver(self, message: Message) -> None:
        """Deliver, and record the outcome."""
        self._delivery_log.given(message)
        try:
            await self._inner.deliver(message)
        except PermanentError:
            self._delivery_log.denied.add(message.id)
            raise
        except Exception:
            if message.attempt > len(self.policy.backoff.waits):
                self._delivery_log.denied.add(message.id)
            raise
        self._delivery_log.took(message)

    async def close(self) -> None:
        """Close the inner destination."""
        await self._inner.close()
