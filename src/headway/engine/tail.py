"""The live log: what happens to all instances, for as many followers as there are."""

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
"""After so many seconds in which a transaction holds the log back, a line tells of it."""

Place = tuple[str, str | None]
"""What an event and those who follow it have in common: a property, and its value."""
EVERYWHERE: Place = ("", None)
CURSOR = re.compile(r"[0-9]{1,18}-[0-9]{1,18}(-[0-9]{1,18})?")


class Tail(WatchingService):
    """Reads the log of events once for all who follow it, as long as somebody does.

    Its events are the lines of all histories and the live messages, which follow the lines of their step.

    It is woken by the commits of its own engine and by what other processes announce, and looks now and
    then for what nobody has announced. On PostgreSQL a line can be read when all older transactions have
    ended; while one holds lines back, the tail looks again soon.
    """

    name = "tail"
    longest_rest = 0.5

    def __init__(self, engine: Engine, *, page: int = PAGE, remembered: int = REMEMBERED) -> None:
        """`remembered` is how many of the last events are kept, for those who come back to find them."""
        super().__init__(engine)
        self._page = page
        self._recent = Recent(remembered)
        self._end: Cursor | None = None
        # Weak: who is dropped without being closed is gone all the same.
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

        Without a tenant it is the log of all of them.
        """
        limit = self._page
        wanted = EventQuery(
            Cursor(), tenant, instance, chart, owner=owner, parent=parent, readable=readable, limit=limit
        )
        return Follower(self, wanted, cursor, most_waiting)

    async def has_forgotten(self, cursor: Cursor) -> bool:
        """Whether something that came after a cursor was pruned: who reads on from there misses it."""
        return cursor < await self._store.events.forgotten()

    async def stop(self) -> None:
        """Read no more: all who follow come to an end, each with its cursor."""
        await super().stop()
        for follower in [*self._attending]:
            follower.close()
        self._sleep()

    async def turn(self) -> bool:
        """Read on and hand over what is new; True when there is more."""
        if not self._attending:
            self._sleep()
            return False
        end = await self._wake_up() if self._end is None else self._end
        page = await self._store.events.page(EventQuery(after=end, limit=self._page))
        for event in page.events:
            self._hand_over(event)
        self._tell_of_delay(stands_still=page.held_back and page.cursor == end)
        self._end = page.cursor
        self.tally["events"] += len(page.events)
        self._look_again = self._when_to_look_again(page)
        return not page.complete

    async def rest(self) -> float:
        """Not long while lines are held back."""
        return self.longest_rest if self._look_again is None else self._look_again

    async def _wake_up(self) -> Cursor:
        """Find out from where the log is read, and tell those who wait for that."""
        self._end = end = await self._store.events.last()
        self._recent.clear(end)
        for follower in [*self._attending]:
            follower.nudge()
        return end

    def _sleep(self) -> None:
        self._end = self._look_again = None
        self._joined.clear()

    def _tell_of_delay(self, *, stands_still: bool) -> None:
        """Say once that the log does not go on though there is more."""
        now = asyncio.get_running_loop().time()
        if not stands_still:
            self._held_back_since = None
        elif self._held_back_since is None:
            self._held_back_since = now
        elif now - self._held_back_since >= LONG_HELD_BACK:
            self._held_back_since = math.inf
            LOG.warning(
                "tail: a transaction that is open since long holds the log back: followers, relays and the"
                " mirror wait until it ends"
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

    # What its followers need of it.

    @property
    def is_awake(self) -> bool:
        """Whether it is known from where the log is read."""
        return self._end is not None

    @property
    def end(self) -> Cursor:
        """How far those who have joined have come, when nothing waits for them."""
        return self._end or Cursor()

    async def now(self) -> Cursor:
        """The cursor of the last event; reading after it returns only new events."""
        return await self._store.events.last()

    async def read(self, query: EventQuery) -> EventPage:
        """A page for a follower that is behind."""
        self.tally["read again"] += 1
        return await self._store.events.page(query)

    def attend(self, follower: Follower) -> None:
        """Somebody wants to follow, and may have to catch up; it is nudged when it can."""
        self._engine.require_loop()
        self._attending.add(follower)
        self.wake()

    def join(self, follower: Follower, after: Cursor) -> bool:
        """Hand over to a follower from now on, and what it has missed; False when it must read that first."""
        if self._end is None or after < self._recent.begin:
            return False
        self._joined.setdefault(follower.place, WeakSet()).add(follower)
        for event in self._recent.after(after):
            follower.take(event)
        return True

    def leave(self, follower: Follower) -> None:
        """Hand over no more for a while."""
        there = self._joined.get(follower.place, WeakSet())
        there.discard(follower)
        if not there:
            self._joined.pop(follower.place, None)

    def detach(self, follower: Follower) -> None:
        """Somebody follows no more."""
        self.leave(follower)
        self._attending.discard(follower)


class Follower:
    """Events in the order of the log, none missed and none twice; the next one when it is asked for.

    One that is slow costs no more than `most_waiting` events: then it is left behind, and reads on by
    itself when it has worked them off. `cursor` is where to go on after the event it has given last, in
    another process, too. Closed, or with its tail stopped, it comes to an end.
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
        """Everything up to here was given out, or not wanted."""
        if self._waiting:
            return self._given
        return max(self._reached, self._tail.end) if self._has_joined else self._reached

    async def open(self) -> Self:
        """Begin: who has no cursor gets what comes from this call on."""
        self._tail.attend(self)
        if self._is_new:
            self._reached = self._given = await self._tail.now()
            self._is_new = False
        return self

    def close(self) -> None:
        """Follow no more."""
        if not self._waiting:
            self._reached = self.cursor
        self._has_joined, self._is_closed = False, True
        self._tail.detach(self)
        self.nudge()

    def nudge(self) -> None:
        """Something has changed."""
        self._arrived.set()

    async def __aenter__(self) -> Self:
        """Follow for the length of a block."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Follow no more."""
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogRow:
        """The next event; raises StoreError when it cannot be read, and can be asked again."""
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            await (self._wait() if self._has_joined else self._catch_up())
        event = self._waiting.popleft()
        self._given = event.cursor
        return event

    def take(self, event: LogRow) -> None:
        """Here is an event, wanted or not, perhaps known already."""
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
        """Join the others, or read on until that can be done."""
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
    """The last events, a bounded number of bounded size: all there are after `begin`."""

    def __init__(self, most: int) -> None:
        self.begin = Cursor()
        self._most = most
        self._events: deque[LogRow] = deque()
        self._characters = 0

    def clear(self, begin: Cursor) -> None:
        """Begin anew."""
        self.begin = begin
        self._events.clear()
        self._characters = 0

    def add(self, event: LogRow) -> None:
        """Keep one more, and let go of those that are too many."""
        self._events.append(event)
        self._characters += len(event.data or "")
        while self._events and (len(self._events) > self._most or self._characters > REMEMBERED_CHARACTERS):
            gone = self._events.popleft()
            self._characters -= len(gone.data or "")
            self.begin = gone.cursor

    def after(self, cursor: Cursor) -> Iterator[LogRow]:
        """Those after a cursor; who has just left does not look at all of them."""
        missed: list[LogRow] = []
        for event in reversed(self._events):
            if event.cursor <= cursor:
                break
            missed.append(event)
        return reversed(missed)


def cursor_text(cursor: Cursor) -> str:
    """A cursor as an id that can travel, such as the last event id of a stream."""
    line = f"{cursor.stamp}-{cursor.position}"
    return f"{line}-{cursor.message}" if cursor.message else line


def cursor_of(text: str) -> Cursor:
    """The cursor that a text stands for; raises InputError."""
    if not CURSOR.fullmatch(text):
        raise InputError("not a cursor: use the one that came with an event")
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
    """Where a follower waits: where fewest others pass by."""
    for name in ("instance", "parent", "owner", "tenant", "chart"):
        value = getattr(wanted, name)
        if value is not None:
            return name, value
    return EVERYWHERE
