"""The handshake of a WebSocket: the check of its origin, its hello, and the limits on open handshakes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Receive

from headway.api.limits import RETRY_AFTER, Limits
from headway.api.problems import Problem
from headway.codec import Value, decode

LONGEST_HELLO = 20_000


class Hello(Value):
    """What a client subscribes to, and its credential unless a header has it."""

    type: Literal["hello"]
    token: str | None = None
    after: str | None = None
    chart: str | None = None
    instance: str | None = None
    owner: str | None = None
    parent: str | None = None


async def hello_of(receive: Receive) -> Hello | None:
    """The first message; None if the client has disconnected. Raises Problem 422, and InputError."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        return None
    text = message.get("text")
    if text is None or len(text) > LONGEST_HELLO:
        raise Problem("invalid", f"a hello is a text of at most {LONGEST_HELLO:,} characters")
    return decode(Hello, text)


def credential_of(headers: Headers, hello: Hello) -> str | None:
    """The credential, as the text of an Authorization header; raises Problem 400 for two of them."""
    given = headers.get("authorization")
    if hello.token is None:
        return given
    if given is not None:
        raise Problem(
            "doubled_header", "the hello message has a token in addition to the Authorization header"
        )
    return f"Bearer {hello.token}"


def must_be_own_page(headers: Headers, allowed: Collection[str]) -> None:
    """Raises Problem 403 for a page of another site; clients other than browsers send no origin.

    A browser lets any page open a WebSocket to any site, so it is for the service to look.
    """
    origin = headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return
    if urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise Problem("origin")


class Handshake:
    """A WebSocket that has not sent a hello, and the timer that ends its wait."""

    __slots__ = ("address", "made_room_for", "timer")

    def __init__(self, address: str, timer: asyncio.Timeout) -> None:
        self.address, self.timer = address, timer
        self.made_room_for: str | None = None

    def problem(self) -> Problem:
        """Why it was closed before it sent one."""
        if self.made_room_for is None:
            return Problem("silent")
        return Problem("too_many_handshakes", headers=RETRY_AFTER, limit=self.made_room_for)


class Handshakes:
    """WebSockets that have not sent a hello. Beyond a limit the one that has waited longest is closed.

    Who sends its hello at once is let in, however many others are silent.
    """

    def __init__(self, limits: Limits) -> None:
        self.refused: Counter[str] = Counter()
        """How many were closed, by the limit: `address` or `all`."""
        self._most, self._most_of_one = limits.most_handshakes, limits.most_address_handshakes
        self._waiting: dict[str, dict[Handshake, None]] = {}
        """By address, the oldest first."""
        self._all: dict[Handshake, None] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._all)

    @asynccontextmanager
    async def waiting(self, address: str, seconds: float) -> AsyncIterator[None]:
        """Count one for the length of a block.

        Raises Problem 408 when the block takes longer than `seconds`, and 429 when it was ended to make
        room for another one.
        """
        own = Handshake(address, asyncio.timeout(seconds))
        self._make_room(address)
        self._all[own] = self._waiting.setdefault(address, {})[own] = None
        try:
            async with own.timer:
                yield
        except TimeoutError:
            raise own.problem() from None
        finally:
            self._forget(own)

    def _make_room(self, address: str) -> None:
        of_address = self._waiting.get(address, {})
        if len(of_address) >= self._most_of_one:
            self._end(next(iter(of_address)), "address")
        elif len(self._all) >= self._most:
            self._end(next(iter(self._all)), "all")

    def _end(self, oldest: Handshake, limit: str) -> None:
        self._forget(oldest)
        if oldest.timer.expired():
            return  # it is timing out, and makes room by itself
        self.refused[limit] += 1
        oldest.made_room_for = limit
        oldest.timer.reschedule(asyncio.get_running_loop().time())

    def _forget(self, one: Handshake) -> None:
        self._all.pop(one, None)
        of_address = self._waiting.get(one.address, {})
        of_address.pop(one, None)
        if not of_address:
            self._waiting.pop(one.address, None)
