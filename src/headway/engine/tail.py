"""The tail of the event log: reads the log once and passes its events to all followers."""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Iterator
from typing import Self
from weakref import WeakSet

from headway.codec import replace
from headway.engine.engine import Engine
from headway.engine.service import LOG, WatchingService
from headway.errors import InputError
from headway.store.queries import EventPage, EventQuery, Readable
from headway.store.rows import Cursor, LogRow
from headway.store.unit import Changes

PAGE = 500
REMEMBERED = 10_000
REMEMBERED_CHARACTERS = 16_000_000
MOST_WAITING = 256
SHORTEST_LOOK = 0.002
LONGEST_LOOK = 0.05
LONG_HELD_BACK = 10.0
"""Seconds for which a transaction may hold the log back before a warning is logged."""

Place = tuple[str, str | None]
"""A property and its value, by which followers are found for an event."""
EVERYWHERE: Place = ("", None)
CURSOR = re.compile(r"[0-9]{1,18}-[0-9]{1,18}(-[0-9]{1,18})?")


class Tail(WatchingService):
    """Reads the event log once for all followers, while there are any.

    Its events are the lines of all histories and the live messages, which follow the lines of their step.

    It is woken by commits of its own engine and by announcements of other processes, and also polls. On
    PostgreSQL a line can be read when all older transactions have ended; while one holds lines back, the
    tail polls more often.
    """

    name = "tail"
    longest_rest = 0.5

    def __init__(self, engine: Engine, *, page: int = PAGE, remembered: int = REMEMBERED) -> None:
        """`remembered` is how many recent events are kept for followers that are a little behind."""
        super().__init__(engine)
        self._page = page
        self._recent = Recent(remembered)
        self._end: Cursor | None = None
        # Weak: a follower may be dropped without being closed.
        self._attending: WeakSet[Follower] = WeakSet()
        self._joined: dict[Place, WeakSet[Follower]] = {}
        self._look_again: float | None = None
        self._held_back_since: float | None = None

    def follow(
        self,
        cursor: Cursor | None = None,
        *,
        tenant: str | None = None,
        chart: str | None = None,
        instance: str | None = None,
        owner: str | None = None,
        parent: str | None = None,
        readable: Readable | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> Follower:
        """The events after a cursor, or from now on, that have all of the given properties.

        Without a tenant the events of all tenants are given.
        """
        limit = self._page
        wanted = EventQuery(
            Cursor(), tenant, instance, chart, owner=owner, parent=parent, readable=readable, limit=limit
        )
        return Follower(self, wanted, cursor, most_waiting)

    async def has_forgotten(self, cursor: Cursor) -> bool:
        """Whether events after a cursor were pruned, so that a follower from there misses them."""
        return cursor < await self._store.events.forgotten()

    async def stop(self) -> None:
        """Stop reading: all followers end, each with its cursor."""
        await super().stop()
        for follower in [*self._attending]:
            follower.close()
        self._sleep()

    async def turn(self) -> bool:
        """Read the next page and pass its events on; True if there is more."""
        if not self._attending:
            self._sleep()
            return False
        end = await self._wake_up() if self._end is None else self._end
        page = await self._store.events.page(EventQuery(after=end, limit=self._page))
        for event in page.events:
            self._hand_over(event)
        self._warn_of_delay(stands_still=page.held_back and page.cursor == end)
        self._end = page.cursor
        self.tally["events"] += len(page.events)
        self._look_again = self._when_to_look_again(page)
        return not page.complete

    async def rest(self) -> float:
        """Seconds until the next poll: few while lines are held back."""
        return self.longest_rest if self._look_again is None else self._look_again

    async def _wake_up(self) -> Cursor:
        """Set the place from which the log is read, and wake the followers that wait for it."""
        self._end = end = await self._store.events.last()
        self._recent.clear(end)
        for follower in [*self._attending]:
            follower.nudge()
        return end

    def _sleep(self) -> None:
        self._end = self._look_again = None
        self._joined.clear()

    def _warn_of_delay(self, *, stands_still: bool) -> None:
        """Log once that an open transaction holds the log back."""
        now = asyncio.get_running_loop().time()
        if not stands_still:
            self._held_back_since = None
        elif self._held_back_since is None:
            self._held_back_since = now
        elif now - self._held_back_since >= LONG_HELD_BACK:
            self._held_back_since = math.inf
            LOG.warning(
                "tail: a transaction that has been open for long holds the log back: followers, relays and"
                " the mirror wait until it ends"
            )

    def _when_to_look_again(self, page: EventPage) -> float | None:
        if not page.held_back:
            return None
        if page.events or self._look_again is None:
            return SHORTEST_LOOK
        return min(2 * self._look_again, LONGEST_LOOK)

    def look(self, changes: Changes) -> None:
        """Wake up for lines of history and for messages."""
        if changes.history or changes.messages:
            self.wake()

    def _hand_over(self, event: LogRow) -> None:
        self._recent.add(event)
        for place in _places(event):
            for follower in [*self._joined.get(place, ())]:
                follower.take(event)

    # For its followers.

    @property
    def is_awake(self) -> bool:
        """Whether the place from which the log is read is set."""
        return self._end is not None

    @property
    def end(self) -> Cursor:
        """The cursor of followers that have joined and have no backlog."""
        return self._end or Cursor()

    async def now(self) -> Cursor:
        """The cursor of the last event; reading after it returns only new events."""
        return await self._store.events.last()

    async def read(self, query: EventQuery) -> EventPage:
        """A page for a follower that is behind."""
        self.tally["read again"] += 1
        return await self._store.events.page(query)

    def attend(self, follower: Follower) -> None:
        """Register a follower; it is nudged when it can join or catch up."""
        self._engine.require_loop()
        self._attending.add(follower)
        self.wake()

    def join(self, follower: Follower, after: Cursor) -> bool:
        """Pass events to a follower from now on, recent ones first; False if it must catch up by pages."""
        if self._end is None or after < self._recent.begin:
            return False
        self._joined.setdefault(follower.place, WeakSet()).add(follower)
        for event in self._recent.after(after):
            follower.take(event)
        return True

    def leave(self, follower: Follower) -> None:
        """Stop passing events to a follower, until it joins again."""
        there = self._joined.get(follower.place, WeakSet())
        there.discard(follower)
        if not there:
            self._joined.pop(follower.place, None)

    def detach(self, follower: Follower) -> None:
        """Remove a follower that is closed."""
        self.leave(follower)
        self._attending.discard(follower)


class Follower:
    """An iterator over events in the order of the log, each exactly once.

    A slow follower holds at most `most_waiting` events; after these it catches up by reading pages. `cursor`
    is the place behind the last event it gave, from which another process can continue. It ends when it is
    closed or its tail stops.
    """

    def __init__(self, tail: Tail, wanted: EventQuery, cursor: Cursor | None, most_waiting: int) -> None:
        self.place = _place(wanted)
        self._tail, self._wanted, self._most_waiting = tail, wanted, most_waiting
        self._is_new = cursor is None
        self._reached = self._given = cursor or Cursor()
        self._waiting: deque[LogRow] = deque()
        self._arrived = asyncio.Event()
        self._has_joined = self._is_closed = False

    @property
    def cursor(self) -> Cursor:
        """All matching events up to here were given."""
        if self._waiting:
            return self._given
        return max(self._reached, self._tail.end) if self._has_joined else self._reached

    @property
    def waits(self) -> bool:
        """Whether events wait to be given."""
        return bool(self._waiting)

    async def open(self) -> Self:
        """Start following; without a cursor, from this call on."""
        self._tail.attend(self)
        if self._is_new:
            self._reached = self._given = await self._tail.now()
            self._is_new = False
        return self

    def close(self) -> None:
        """Stop following."""
        if not self._waiting:
            self._reached = self.cursor
        self._has_joined, self._is_closed = False, True
        self._tail.detach(self)
        self.nudge()

    def nudge(self) -> None:
        """Wake it: an event, the tail or its end may have changed."""
        self._arrived.set()

    async def __aenter__(self) -> Self:
        """Follow for the length of a block."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Stop following."""
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogRow:
        """The next event; raises StoreError if it cannot be read, and can be called again."""
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            await (self._wait() if self._has_joined else self._catch_up())
        event = self._waiting.popleft()
        self._given = event.cursor
        return event

    def take(self, event: LogRow) -> None:
        """Take an event if it matches and is new."""
        if not self._has_joined or event.cursor <= self._reached or not self._wanted.takes(event):
            return
        if len(self._waiting) >= self._most_waiting:
            self._has_joined = False
            self._tail.leave(self)
            self._tail.tally["left behind"] += 1
            return
        self._waiting.append(event)
        self._reached = event.cursor
        self._arrived.set()

    async def _wait(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    async def _catch_up(self) -> None:
        """Join the tail, or read the next page if it is too far behind."""
        await self.open()
        if not self._tail.is_awake:
            await self._wait()
            return
        self._has_joined = True
        if self._tail.join(self, self._reached):
            return
        self._has_joined = False
        page = await self._tail.read(replace(self._wanted, after=self._reached))
        self._waiting += page.events
        self._reached = page.cursor


class Recent:
    """The events after `begin`, bounded in number and size."""

    def __init__(self, most: int) -> None:
        self.begin = Cursor()
        self._most = most
        self._events: deque[LogRow] = deque()
        self._characters = 0

    def clear(self, begin: Cursor) -> None:
        """Forget all events, and start at a cursor."""
        self.begin = begin
        self._events.clear()
        self._characters = 0

    def add(self, event: LogRow) -> None:
        """Add an event, and drop the oldest ones beyond the bounds."""
        self._events.append(event)
        self._characters += len(event.data or "")
        while self._events and (len(self._events) > self._most or self._characters > REMEMBERED_CHARACTERS):
            gone = self._events.popleft()
            self._characters -= len(gone.data or "")
            self.begin = gone.cursor

    def after(self, cursor: Cursor) -> Iterator[LogRow]:
        """The events after a cursor, found from the newest end."""
        missed: list[LogRow] = []
        for event in reversed(self._events):
            if event.cursor <= cursor:
                break
            missed.append(event)
        return reversed(missed)


def cursor_text(cursor: Cursor) -> str:
    """A cursor as a text, such as the last event id of a stream."""
    line = f"{cursor.stamp}-{cursor.position}"
    return f"{line}-{cursor.message}" if cursor.message else line


def cursor_of(text: str) -> Cursor:
    """The cursor that a text stands for; raises InputError."""
    if not CURSOR.fullmatch(text):
        raise InputError("not a cursor: use one that came with an event")
    return Cursor(*map(int, text.split("-")))


def _places(event: LogRow) -> Iterator[Place]:
    yield EVERYWHERE
    yield "instance", event.instance
    yield "tenant", event.tenant
    yield "chart", event.chart
    if event.owner is not None:
        yield "owner", event.owner
    if event.parent is not None:
        yield "parent", event.parent


def _place(wanted: EventQuery) -> Place:
    """The property under which a follower is registered: the most selective one."""
    for name in ("instance", "parent", "owner", "tenant", "chart"):
        value = getattr(wanted, name)
        if value is not None:
            return name, value
    return EVERYWHERE
