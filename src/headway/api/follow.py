"""Feeds of the event log: all readers of one subscription share one follower and its frames."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from headway.api.cursors import CursorCipher
from headway.api.frames import Frame, Frames, Gap
from headway.api.limits import LiveLimits
from headway.api.problems import Problem
from headway.engine.service import FIRST_PAUSE, LOG, LONGEST_PAUSE
from headway.engine.tail import Follower, Tail
from headway.errors import StoreError
from headway.store.queries import EventQuery, Readable
from headway.store.rows import Cursor, LogRow

PAGE = 100
PAGE_BYTES = 1_000_000
"""Pages get shorter when events are so large that a page holds more."""
MOST_FOR_A_FEED = 2_000
"""The largest number of events that wait for a feed, which takes them as soon as it can run."""
IN_ONE_GO = 16
"""The number of events after which a feed lets its readers run."""

Give = Callable[[Frame], Awaitable[None]]
Check = Callable[[Sequence[LogRow]], Awaitable[None]]
"""Called with events before readers get them: it ends those readers that may not."""


class Subscription(NamedTuple):
    """The events of a tenant that have all of the given properties."""

    tenant: str
    chart: str | None = None
    instance: str | None = None
    owner: str | None = None
    parent: str | None = None
    readable: Readable | None = None


class Page(NamedTuple):
    """Frames, and the cursor behind them."""

    frames: Sequence[Frame]
    cursor: Cursor


class Feed:
    """The events of one subscription, for all its readers; closed when the last one leaves."""

    def __init__(
        self, tail: Tail, subscription: Subscription, frames: Frames, cipher: CursorCipher, *, check: Check
    ) -> None:
        """`cipher` is that of the tenant."""
        self._check = check
        self.subscription, self.cipher = subscription, cipher
        self.readers: set[FeedReader] = set()
        """All readers: those that have joined, and those that catch up."""
        self._tail, self._frames = tail, frames
        self._joined: dict[FeedReader, None] = {}
        self._follower = self._new_follower(None)
        self._passed = Cursor()
        self._pages: dict[Cursor, asyncio.Task[Page]] = {}
        self._page_length = PAGE
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name="headway feed")

    @property
    def cursor(self) -> Cursor:
        """The readers that have joined got all events up to here."""
        return self._follower.cursor

    async def opened(self) -> None:
        """Wait until the feed has its first cursor."""
        await asyncio.shield(self._opened)

    def close(self) -> None:
        """Stop following."""
        self._task.cancel()
        self._follower.close()
        for page in self._pages.values():
            page.cancel()

    def join(self, reader: FeedReader) -> bool:
        """Pass new events to a reader; False if it is behind and must catch up first."""
        if reader.reached < self._passed:
            return False
        self._joined[reader] = None
        return True

    def leave(self, reader: FeedReader) -> None:
        """Stop passing events to a reader, until it joins again."""
        self._joined.pop(reader, None)

    async def page(self, after: Cursor) -> Page:
        """The events after a cursor; concurrent calls for the same cursor share one read."""
        reading = self._pages.get(after)
        if reading is None:
            reading = self._pages[after] = asyncio.create_task(self._read(after))
            reading.add_done_callback(lambda _: self._pages.pop(after, None))
        return await asyncio.shield(reading)

    async def _read(self, after: Cursor) -> Page:
        query = EventQuery(after=after, limit=self._page_length, **self.subscription._asdict())
        page = await self._tail.read(query)
        await self._check(page.events)
        frames = [self._frames.of(event, self.cipher) for event in page.events]
        if sum(frame.size for frame in frames) > PAGE_BYTES:
            self._page_length = max(1, len(frames) // 2)
        else:
            self._page_length = min(PAGE, 2 * self._page_length)
        return Page(frames, page.cursor)

    def _new_follower(self, cursor: Cursor | None) -> Follower:
        return self._tail.follow(cursor, most_waiting=MOST_FOR_A_FEED, **self.subscription._asdict())

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._follow()
            except StoreError as error:
                LOG.warning("live events: %s; going on in %.1f s", error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                break
        for reader in [*self.readers]:
            reader.end(Problem("unavailable", "the service is about to stop"))

    async def _follow(self) -> None:
        """Pass events on until the tail stops."""
        await self._follower.open()
        if not self._opened.done():
            self._passed = self._follower.cursor
            self._opened.set_result(None)
        count = 0
        async for event in self._follower:
            await self._check((event,))
            self._hand_over(self._frames.of(event, self.cipher))
            count += 1
            if count % IN_ONE_GO == 0:
                await asyncio.sleep(0)

    def _hand_over(self, frame: Frame) -> None:
        self._passed = frame.cursor
        behind = [reader for reader in self._joined if not reader.take(frame)]
        for reader in behind:
            self.leave(reader)


class FeedReader:
    """One connection's place in the log, with a bounded backlog of frames.

    `reached` is the cursor of the last frame in the backlog, `given` that of the last one written.
    """

    __slots__ = (
        "_clock",
        "_given_id",
        "_limits",
        "_parked",
        "_pump",
        "_waiting",
        "_waiting_bytes",
        "active_at",
        "feed",
        "given",
        "has_joined",
        "is_busy",
        "problem",
        "reached",
    )

    def __init__(self, feed: Feed, limits: LiveLimits) -> None:
        loop = asyncio.get_running_loop()
        self.feed = feed
        self.reached = self.given = Cursor()
        self.has_joined = self.is_busy = False
        self.active_at = loop.time()
        self.problem: Problem | None = None
        self._limits, self._clock = limits, loop.time
        self._given_id: str | None = None
        self._waiting: deque[Frame] = deque()
        self._waiting_bytes = 0
        self._parked: asyncio.Future[None] | None = None
        self._pump: asyncio.Task[None] | None = None

    @property
    def place(self) -> str:
        """The id from which the reader can resume: that of the last frame, or of the place read since."""
        return self._given_id or self.feed.cipher.place(self.given)

    def begin(self, after: Cursor, given_id: str | None = None, *, has_gap: bool = False) -> None:
        """Start behind `after`, whose id is `given_id` if the reader sent one; a gap is announced first."""
        self.reached = self.given = after
        self._given_id = given_id
        if has_gap:
            self._push(Gap(after, self.place))

    async def run(self, give: Give) -> None:
        """Write all frames to a connection, until the reader is ended or the connection fails."""
        if self.problem is None:
            self._pump = asyncio.ensure_future(self._give_all(give))
            await asyncio.wait({self._pump})
            self._waiting.clear()
            if not self._pump.cancelled() and (error := self._pump.exception()) is not None:
                raise error

    def end(self, problem: Problem | None = None) -> None:
        """Stop writing, even in the middle of a frame."""
        self.problem = self.problem or problem
        if self._pump is not None:
            self._pump.cancel()

    def take(self, frame: Frame) -> bool:
        """Add a frame to the backlog unless it is there already; False if the backlog is full."""
        if frame.cursor <= self.reached:
            return True
        if self._waiting and not self._has_room(frame):
            self.has_joined = False
            return False
        self._push(frame)
        return True

    def is_slow(self, now: float) -> bool:
        """Whether the connection reads too slowly: it is behind and stuck, or has been stuck for long."""
        stuck = now - self.active_at if self.is_busy else 0.0
        return stuck > (self._limits.stalled if self.has_joined else self._limits.patience)

    def beat(self, beat: Frame) -> None:
        """Send a heartbeat if the connection is idle."""
        if self.has_joined and not self._waiting and not self.is_busy:
            self._push(beat)

    def _has_room(self, frame: Frame) -> bool:
        limits = self._limits
        size = self._waiting_bytes + frame.size
        return len(self._waiting) < limits.most_waiting and size <= limits.most_waiting_bytes

    def _push(self, frame: Frame) -> None:
        self._waiting.append(frame)
        self._waiting_bytes += frame.size
        self.reached = frame.cursor
        parked = self._parked
        if parked is not None and not parked.done():
            parked.set_result(None)

    async def _give_all(self, give: Give) -> None:
        waiting = self._waiting
        while True:
            while waiting:
                frame = waiting.popleft()
                self._waiting_bytes -= frame.size
                self.active_at, self.is_busy = self._clock(), True
                await give(frame)
                self.given, self._given_id, self.is_busy = frame.cursor, frame.id, False
            await self._more()

    async def _more(self) -> None:
        """Wait for the feed, or catch up with it by pages and join it."""
        if self.has_joined:
            self._parked = asyncio.get_running_loop().create_future()
            await self._parked
            return
        if self.feed.join(self):
            self.has_joined = True
            return
        try:
            page = await self.feed.page(self.reached)
        except StoreError as error:
            LOG.warning("live events: %s", error)
            await asyncio.sleep(LONGEST_PAUSE / 5)
            return
        for frame in page.frames:
            self._push(frame)
        self.reached = page.cursor
        if not page.frames:
            self.given, self._given_id = page.cursor, None
        await asyncio.sleep(0)
