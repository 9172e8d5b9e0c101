"""The hub of all live connections: their feeds, heartbeats, and repeated checks of their credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from headway.api.access import Access, Caller, readable_by, readable_row
from headway.api.cursors import CursorCipher, CursorCiphers
from headway.api.follow import Feed, FeedReader, Subscription
from headway.api.frames import Beat, Frames
from headway.api.limits import LiveLimits, Slot, Streams
from headway.api.problems import Problem, lacks_scope, problem_of
from headway.engine.engine import Engine
from headway.engine.service import LOG
from headway.engine.tail import Tail
from headway.errors import UnknownInstanceError
from headway.statechart.identity import same_id
from headway.store.rows import LogRow

SCOPE = "read"
OVER = frozenset({"unauthenticated", "forbidden"})
"""The problems of a credential that is no longer valid; others are temporary."""


class Session(NamedTuple):
    """The credential of a connection, and its tenant."""

    authorization: str | None
    tenant: str
    instance: str | None
    """The one that is followed, if the right to read it can end: its data or an ask names the reader."""
    narrowed: int = 0
    """How often what people may read had been narrowed (`Visibility.narrowed`) when the reader came."""


class Hub:
    """Admits readers, and watches them while there are any."""

    def __init__(
        self,
        engine: Engine,
        tail: Tail,
        access: Access,
        *,
        streams: Streams,
        ciphers: CursorCiphers,
        stopping: asyncio.Event,
        limits: LiveLimits | None = None,
    ) -> None:
        """When `stopping` is set, all readers are ended, each with its cursor."""
        self.limits = limits or LiveLimits()
        self._engine, self._tail, self._access, self._stopping = engine, tail, access, stopping
        self._streams, self._ciphers = streams, ciphers
        self._frames = Frames(engine.charts)
        self._feeds: dict[Subscription, Feed] = {}
        self._sessions: dict[FeedReader, Session] = {}
        self._slots: dict[FeedReader, Slot] = {}
        self._watch: asyncio.Task[None] | None = None
        self._narrowed = 0

    @property
    def readers(self) -> int:
        """The number of connections."""
        return len(self._sessions)

    async def admit(self, authorization: str | None) -> Caller:
        """The caller with this credential, who may read; raises Problem 401 and 403."""
        caller = await self._access.caller(authorization)
        if not caller.may(SCOPE) and not caller.actor.own:
            raise lacks_scope(SCOPE)
        return caller

    async def enter(
        self, authorization: str | None, after: str | None = None, **properties: str | None
    ) -> FeedReader:
        """A reader for the holder of this credential, from a cursor or from now on.

        Events have all the `properties`. Raises Problem 401, 403, 422 and 429, UnknownInstanceError and
        UnknownChartError.
        """
        caller = await self.admit(authorization)
        cipher = await self._ciphers.of(caller.tenant)
        cursor = None if after is None else cipher.cursor(after)
        await self._engine.visibility.refresh()
        narrowed = self._engine.visibility.narrowed
        subscription = await self._subscription(caller, Subscription(caller.tenant, **properties))  # type: ignore[arg-type]  # texts alone
        instance = await self._conditional(caller, subscription)
        session = Session(authorization, caller.tenant, instance, narrowed)
        slot = self._streams.take(caller)
        # Nothing is awaited before the reader is registered: a feed without readers is closed.
        feed = self._feed(subscription, cipher)
        reader = FeedReader(feed, self.limits)
        feed.readers.add(reader)
        self._sessions[reader], self._slots[reader] = session, slot
        try:
            if narrowed < self._engine.visibility.narrowed:
                reader.end(_narrowed())
            await feed.opened()
            if cursor is None:
                reader.begin(feed.cursor)
            elif cursor > (end := await self._tail.now()):
                # The log is shorter than it was: the database was restored from a backup.
                reader.begin(end, has_gap=True)
            else:
                reader.begin(cursor, after, has_gap=await self._tail.has_forgotten(cursor))
        except BaseException:
            self.leave(reader)
            raise
        return reader

    def leave(self, reader: FeedReader) -> None:
        """Remove a reader whose connection is closed."""
        feed = reader.feed
        feed.leave(reader)
        feed.readers.discard(reader)
        self._sessions.pop(reader, None)
        if (slot := self._slots.pop(reader, None)) is not None:
            slot.release()
        if not feed.readers and self._feeds.get(feed.subscription) is feed:
            del self._feeds[feed.subscription]
            feed.close()
        if not self._sessions and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def look(self) -> None:
        """Check all readers: end those that are slow or may no longer read, send idle ones a heartbeat."""
        now = asyncio.get_running_loop().time()
        self._end_outdated()
        refused = await self._refused()
        beats: dict[Feed, Beat] = {}
        for reader, session in [*self._sessions.items()]:
            if (problem := refused.get(session)) is not None:
                reader.end(problem)
            elif reader.is_slow(now):
                reader.end(Problem("slow", after=reader.place))
            elif now - reader.active_at >= self.limits.heartbeat:
                feed = reader.feed
                reader.beat(beats.get(feed) or beats.setdefault(feed, Beat(feed.cursor, feed.cipher)))

    async def _check(self, events: Sequence[LogRow]) -> None:
        """End readers before they get events of a chart that another node has brought, and that limits."""
        for event in events:
            await self._engine.visibility.meet(event)
        self._end_outdated()

    def _end_outdated(self) -> None:
        """End readers that came when more could be read; they come back to where they were."""
        narrowed = self._engine.visibility.narrowed
        if narrowed != self._narrowed:
            self._narrowed = narrowed
            for reader, session in [*self._sessions.items()]:
                if session.narrowed < narrowed:
                    reader.end(_narrowed())

    async def _refused(self) -> dict[Session, Problem]:
        """The sessions that may not read any more: an expired credential, say, or a withdrawn permission."""
        sessions = [*set(self._sessions.values())]
        verdicts = await asyncio.gather(*map(self._verdict, sessions))  # what they look up is read together
        return {session: problem for session, problem in zip(sessions, verdicts, strict=True) if problem}

    async def _verdict(self, session: Session) -> Problem | None:
        try:
            caller = await self.admit(session.authorization)
            if session.instance is not None and caller.tenant == session.tenant:
                await readable_row(self._engine, caller, session.instance)
        except UnknownInstanceError as error:
            return problem_of(error)
        except Problem as problem:
            return problem if problem.code in OVER else None
        except Exception as error:  # noqa: BLE001 - the next round checks it again
            LOG.warning("a credential could not be checked: %s", problem_of(error))
            return None
        return None if caller.tenant == session.tenant else Problem("unauthenticated")

    async def _conditional(self, caller: Caller, subscription: Subscription) -> str | None:
        """The instance of a subscription that the caller may read now, but neither by a role nor as owner."""
        if subscription.instance is None:
            return None
        row = await self._engine.row(caller.tenant, subscription.instance)
        readable = await readable_by(self._engine, caller)
        by_role = not caller.actor.own and (readable is None or readable.takes(row.chart, row.owner))
        return None if by_role or same_id(row.owner, caller.actor.id) else subscription.instance

    async def _subscription(self, caller: Caller, subscription: Subscription) -> Subscription:
        """A subscription, limited to what the caller may read.

        Raises UnknownInstanceError and UnknownChartError for what the tenant does not have.
        """
        if self._stopping.is_set():
            raise _stopping()
        if subscription.chart is not None:
            self._engine.charts.newest(subscription.chart)
        for instance in (subscription.instance, subscription.parent):
            if instance is not None:
                await readable_row(self._engine, caller, instance)
        if subscription.instance is not None:
            return subscription
        if caller.actor.own:
            if subscription.owner not in {None, caller.actor.id}:
                raise Problem("forbidden", "the credential reads only the events of its own instances")
            return subscription._replace(owner=caller.actor.id)
        return subscription._replace(readable=await readable_by(self._engine, caller))

    def _feed(self, subscription: Subscription, cipher: CursorCipher) -> Feed:
        if subscription not in self._feeds:
            self._feeds[subscription] = Feed(
                self._tail, subscription, self._frames, cipher, check=self._check
            )
        if self._watch is None:
            self._watch = asyncio.create_task(self._keep_looking(), name="headway live")
        return self._feeds[subscription]

    async def _keep_looking(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.look):
                    await self._stopping.wait()
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - the next round may go well
                LOG.exception("live connections could not be looked at")
        for reader in [*self._sessions]:
            reader.end(_stopping())


def _narrowed() -> Problem:
    detail = "a new chart limits who may read: connect again"
    return Problem("unavailable", detail, headers={"Retry-After": "1"})


def _stopping() -> Problem:
    return Problem("unavailable", "the service is about to stop", headers={"Retry-After": "1"})
