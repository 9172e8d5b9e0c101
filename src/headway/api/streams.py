"""Limits for connections that are held for long: streams, and WebSockets that have not sent a hello."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.api.caller import Caller
from headway.api.limits import Limits
from headway.api.problems import Problem

RETRY_AFTER = {"Retry-After": "5"}


class Streams:
    """Counts the streams that are open, and refuses one that is beyond a limit.

    A stream is a request that may take long because it waits: live events, a claim with `wait`, or a repeat
    for the answer to the first request.
    """

    def __init__(self, limits: Limits) -> None:
        self.refused: Counter[str] = Counter()
        """How many were refused, by the limit: `key`, `tenant` or `all`."""
        self._most = {
            "key": limits.most_key_streams,
            "tenant": limits.most_tenant_streams,
            "all": limits.most_streams,
        }
        self._open: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """How many are open."""
        return self._open["all", ""]

    def take(self, caller: Caller) -> Slot:
        """Count a stream of a caller until its slot is released; raises Problem 429 that names the limit."""
        places = [("key", caller.credential), ("tenant", caller.tenant), ("all", "")]
        for limit, name in places:
            if self._open[limit, name] >= self._most[limit]:
                self.refused[limit] += 1
                raise Problem("too_many_streams", self._detail(limit), headers=RETRY_AFTER, limit=limit)
        self._open.update(places)
        return Slot(self._open, places)

    def _detail(self, limit: str) -> str:
        whose = {"key": "this credential has", "tenant": "this tenant has", "all": "this process serves"}
        return f"{whose[limit]} {self._most[limit]:,} streams open, which is the limit"


class Slot:
    """The place of one open stream."""

    __slots__ = ("_open", "_places")

    def __init__(self, counts: Counter[tuple[str, str]], places: list[tuple[str, str]]) -> None:
        self._open, self._places = counts, places

    def release(self) -> None:
        """The stream has ended; to say so again changes nothing."""
        for place in self._places:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]
        self._places = []

    def __enter__(self) -> None:
        """It is open."""

    def __exit__(self, *_: object) -> None:
        """It has ended."""
        self.release()


class Handshake:
    """A WebSocket that has not sent a hello, and the timer that ends its wait."""

    __slots__ = ("address", "made_room_for", "timer")

    def __init__(self, address: str, timer: asyncio.Timeout) -> None:
        self.address, self.timer = address, timer
        self.made_room_for: str | None = None

    def problem(self) -> Problem:
        """Why it did not get to send one."""
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

        Raises Problem 408 when the block takes longer than so many seconds, and 429 when it was ended to make
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
            return  # its time is over: it makes room by itself
        self.refused[limit] += 1
        oldest.made_room_for = limit
        oldest.timer.reschedule(asyncio.get_running_loop().time())

    def _forget(self, one: Handshake) -> None:
        self._all.pop(one, None)
        of_address = self._waiting.get(one.address, {})
        of_address.pop(one, None)
        if not of_address:
            self._waiting.pop(one.address, None)
