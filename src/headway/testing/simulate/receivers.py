"""Where messages go in a simulation: receivers that fail, are slow, are down, or take what they deny."""

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
    """All of a message but its id."""

    tenant: str
    instance: str
    kind: str
    name: str
    at: str
    data: str


def content_of(message: MessageRow | Message) -> Content:
    """What a message says, committed or delivered."""
    data = message.data if isinstance(message, MessageRow) else _text(message.data)
    return Content(
        message.tenant, message.instance, message.kind, message.name, message.at.isoformat(), data or ""
    )


def _text(data: object) -> str:
    return "" if data is None else encode(data).decode()


class Book:
    """What a destination was given: by id what it said, when it was taken first, and what was denied."""

    def __init__(self, destination: Destination, violated: Callable[[str], None]) -> None:
        self.name, self.filter = destination.name, destination.filter
        self.contents: dict[str, Content] = {}
        self.taken: list[str] = []
        self.denied: set[str] = set()
        self._violated = violated

    def given(self, message: Message) -> None:
        """A message has come; the same id always says the same."""
        content = content_of(message)
        if self.contents.setdefault(message.id, content) != content:
            self._violated(f"{self.name} got {message.id} with another content")

    def took(self, message: Message) -> None:
        """A message was taken."""
        if message.id not in self.taken:
            self.taken.append(message.id)

    def by_content(self, ids: list[str]) -> Iterator[tuple[Content, str]]:
        """What messages said."""
        return ((self.contents[each], each) for each in ids)


class Mood:
    """How receivers feel at the moment: each number is a probability."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fails = 0.0
        self.poison = 0.0
        self.slow = 0.0
        self.down = False

    def calm(self) -> None:
        """All is well from now on."""
        self.fails = self.poison = self.slow = 0.0
        self.down = False


class Receiver:
    """A system outside, as one process reaches it."""

    def __init__(self, name: str, mood: Mood, trace: Trace) -> None:
        self._trace = trace
        self.name = f"receiver:{name}"
        self.filter = MessageFilter(KINDS[name])
        self.policy = POLICY
        self._mood = mood
        self.book: Book | None = None

    async def deliver(self, message: Message) -> None:
        """Take a message, or do not, or take it and say no."""
        mood, random = self._mood, self._mood.random
        await asyncio.sleep(random.random() * (3.0 if random.random() < mood.slow else 0.01))
        if mood.down:
            raise ConnectionError("refused")
        fate = random.random()
        if fate < mood.poison:
            raise PermanentError("never")
        if fate < mood.poison + mood.fails:
            if random.random() < 0.2:  # noqa: PLR2004 - one in five
                raise BusyError("not now", after=random.random() * 2)
            if random.random() < 0.3 and self.book is not None:  # noqa: PLR2004 - three in ten
                self.book.took(message)
            raise DeliveryError("no")
        self._trace.note(self.name, f"takes {message.name} of {message.instance} (attempt {message.attempt})")

    async def close(self) -> None:
        """Nothing to let go of."""


class Recorded:
    """A destination that keeps a book."""

    def __init__(self, inner: Destination, book: Book) -> None:
        self.name, self.filter, self.policy = inner.name, inner.filter, inner.policy
        self._inner, self._book = inner, book
        if isinstance(inner, Receiver):
            inner.book = book

    async def deliver(self, message: Message) -> None:
        """Deliver, and note what became of it."""
        self._book.given(message)
        try:
            await self._inner.deliver(message)
        except PermanentError:
            self._book.denied.add(message.id)
            raise
        except Exception:
            if message.attempt > len(self.policy.backoff.waits):
                self._book.denied.add(message.id)
            raise
        self._book.took(message)

    async def close(self) -> None:
        """Close what is inside."""
        await self._inner.close()
