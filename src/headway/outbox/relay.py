"""A relay: brings messages from the outbox to one destination."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from headway.clock import milliseconds
from headway.engine.engine import Engine
from headway.engine.service import LOG
from headway.engine.watching import WatchingService
from headway.errors import StoreError
from headway.outbox.delivery import Delivery
from headway.outbox.destination import Destination, Timed
from headway.outbox.probe import Probe
from headway.outbox.round import Round, key_of
from headway.outbox.waiting import MOST_WAITING, Waiting
from headway.store.queries import (
    LetterPlace,
    LetterQuery,
    MessagePage,
    MessageQuery,
    Settlement,
)
from headway.store.rows import Cursor, Key, LetterRow
from headway.store.unit import Changes

LEASE = "30s"
MOST_TO_CHOOSE_FROM = FIRST_PAGE = 1_000
STAND_BACK = timedelta(seconds=5)
"""For so long a node that has made way for another does not take the lease again."""
MOST_LEARNT = 10_000
MOST_SEARCHED = 10
"""So many pages are looked at in one turn for a message of somebody who does not wait."""
LOOKS = (100, 1_000, *[10_000] * 10)
"""So many messages are looked at, page by page, for one that waits."""


class Relay(WatchingService):
    """Delivers at least once, in order per instance; of many nodes the one that holds the lease.

    A message that is not taken becomes a letter, and what follows of its instance waits behind it as
    letters; other instances go on. Progress and letters are written together after a round. What a
    crash leaves unwritten is delivered again, with the same id. When very many letters wait, more messages of
    instances that fail stay in the outbox, or are dead letters when somebody else has one behind them.
    """

    def __init__(
        self,
        engine: Engine,
        destination: Destination,
        *,
        holder: str | None = None,
        lease: str = LEASE,
        page: int | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        super().__init__(engine)
        self.name = f"relay to {destination.name}"
        self.destination = destination
        self._consumer = destination.name
        self._holder = holder or engine.node
        self._lease = milliseconds(lease)
        self._page = page or destination.terms.page
        self._waiting = Waiting(most_waiting)
        self._back_at: datetime | None = None
        self._delivery = Delivery(self.name, destination, self._store.now, self.tally)
        self._probe = Probe(self._delivery.breaker, destination.wants)
        self._forget()

    def _forget(self) -> None:
        """Know nothing: whoever holds the lease next may have done anything meanwhile."""
        self._held_since: datetime | None = None
        self._learnt_at: datetime | None = None
        self._searches = False
        self._cursor = self._settled = Cursor()
        self._waiting.forget()
        self._probe.forget()
        self._ahead: tuple[Cursor, MessagePage] | None = None

    async def turn(self) -> bool:
        """Try the letters that are due and read on; True when there may be more."""
        try:
            now = await self._store.now()
            if isinstance(self.destination, Timed):
                self.destination.keep_time(now)
            if self._stands_back(now):
                return False
            more = await self._hold(now) and not self._delivery.is_quiet(now) and await self._go_on()
            return more and not await self._make_way(now)
        except (Exception, asyncio.CancelledError):
            # Nobody knows what of it was written.
            self._forget()
            raise

    def _stands_back(self, now: datetime) -> bool:
        """Whether another node is to have the lease first."""
        back = self._back_at
        return back is not None and now < back <= now + STAND_BACK

    async def _make_way(self, now: datetime) -> bool:
        """Let a node go on that knows the versions which are not known here, if one is alive."""
        wanted, self._delivery.not_here = self._delivery.not_here, set()
        if not wanted:
            return False
        nodes = await self._store.nodes.alive()
        if not any(node.name != self._engine.node and wanted.intersection(node.versions) for node in nodes):
            return False
        self.tally["made_way"] += 1
        self._back_at = now + STAND_BACK
        self._forget()
        await self._store.leases.release([("", self._consumer)], self._holder)
        await self._store.announce(["messages"])
        return True

    async def _go_on(self) -> bool:
        before, self._searches = self._cursor, False
        due, page = await self._read()
        if not await self._work_through(due, page):
            self.tally["lost"] += 1
            LOG.warning("%s: the lease was lost; what was under way may be delivered again", self.name)
            self._forget()
            return True
        return bool(due) or bool(page.messages) or page.cursor != before or self._searches

    async def _read(self) -> tuple[Sequence[LetterRow], MessagePage]:
        """What is to be tried now: letters that are due, and what is new; or one of them, as a probe."""
        is_probing = self._delivery.breaker.is_probing
        limit = MOST_TO_CHOOSE_FROM if is_probing else self.destination.terms.at_once
        due = await self._store.letters.page(
            LetterQuery(destination=self._consumer, dead=False, due=True, limit=limit)
        )
        if is_probing:
            return await self._one_of(due)
        # What nobody has tried goes first: while that is as much as can go at once, more would only pile up.
        untried = sum(not row.attempts for row in due)
        page = await self._new() if untried < limit else self._nothing
        return [*due, *await self._behind(due, limit)], page

    async def _one_of(self, due: Sequence[LetterRow]) -> tuple[Sequence[LetterRow], MessagePage]:
        """The probe, with what is passed on the way to it."""
        if self._waiting.are_too_many:
            others = await self._first_with_others(await self._next())
            return self._probe.peeked(due, others or self._nothing, self._cursor, self._waiting.blocked)
        if self._probe.end is None:
            self._probe.end = await self._store.messages.last()
        return self._probe.chosen(due, await self._next(), self._cursor, self._waiting.blocked)

    @property
    def _nothing(self) -> MessagePage:
        return MessagePage([], self._cursor)

    async def _behind(self, due: Sequence[LetterRow], limit: int) -> Sequence[LetterRow]:
        """What can go with letters that are due: those of their instances that nobody has tried since."""
        each = limit // len(due) - 1 if due else 0
        if not each:
            return ()
        ready: list[LetterRow] = []
        resting: set[Key] = set()
        for row in await self._store.letters.behind(due, each):
            if row.attempts:  # it has a time of its own, and what follows waits for it
                resting.add(key_of(row))
            if key_of(row) not in resting:
                ready.append(row)
        return ready

    async def _new(self) -> MessagePage:
        """What is to be read now; when too many wait, only what somebody else is behind, or among."""
        page = await self._next()
        if not self._waiting.are_too_many:
            return page
        others = await self._first_with_others(page)
        if others is None or not self._waiting.can_be_passed(page):
            return self._nothing
        return (
            page if others is not page else self._waiting.up_to_the_last_other(page, self.destination.wants)
        )

    async def _first_with_others(self, page: MessagePage) -> MessagePage | None:
        """A page, or one behind it, with a message of somebody who does not wait."""
        wants, waiting = self.destination.wants, self._waiting
        for _ in range(MOST_SEARCHED):
            if waiting.has_others(page, wants):
                return page
            waiting.searched = max(waiting.searched, page.cursor)
            if page.complete:
                return None
            page = await self._messages(waiting.searched, self._page)
        self._searches = True
        return None

    async def _next(self) -> MessagePage:
        ahead, self._ahead = self._ahead, None
        # A probe is chosen of what is there now, not of what was before the pause.
        if ahead is not None and ahead[0] == self._cursor and not self._delivery.breaker.is_probing:
            return ahead[1]
        # Not all that a page may be: others are read while it is delivered.
        return await self._messages(self._cursor, min(self._page, FIRST_PAGE))

    async def _messages(self, after: Cursor, limit: int) -> MessagePage:
        wants = self.destination.wants
        query = MessageQuery(after=after, kinds=wants.kinds, tenant=wants.tenant, limit=limit)
        return await self._store.messages.page(query)

    async def _read_ahead(self, cursor: Cursor) -> None:
        """Have the next page ready when this one is delivered."""
        with suppress(StoreError):  # who needs it then reads it, and says so
            page = await self._messages(cursor, self._page)
            if page.cursor != cursor:  # what comes meanwhile must not wait behind a page that is empty
                self._ahead = (cursor, page)

    async def rest(self) -> float:
        """Who does not hold the lease only looks now and then whether it is free."""
        return self.longest_rest if self._held_since is not None else self._lease / 6_000

    async def start(self) -> None:
        """Begin to take turns, and at once when this process has written a message.

        What is published from now on is delivered, also to a destination that is new.
        """
        if self._loop is None:
            with suppress(StoreError):  # the first turn says so, and tries again
                await self.take_up()
        await super().start()

    async def lag(self, tenant: str | None = None) -> float:
        """For how many seconds the first message waits that the destination has not got to.

        What is not wanted is passed over, up to a bound. What a transaction under way holds back waits, too.
        """
        cursor, wants = await self._store.messages.consumer(self._consumer), self.destination.wants
        for limit in LOOKS:
            if cursor is None:
                break
            whose = wants.tenant if tenant is None else tenant
            page = await self._store.messages.page(
                MessageQuery(cursor, wants.kinds, whose, limit, early=True)
            )
            waiting = wants.of(page.messages)
            if waiting:
                return max(0.0, (await self._store.now() - waiting[0].at).total_seconds())
            cursor = None if page.complete else page.cursor
        return 0.0

    async def take_up(self) -> None:
        """Take the lease if it is free; a new destination gets what is published from then on."""
        await self._hold(await self._store.now())

    def look(self, changes: Changes) -> None:
        """Wake up for messages that the destination wants."""
        takes = self.destination.wants.takes
        if any(takes(message.tenant, message.kind, message.name) for message in changes.messages):
            self.wake()

    async def stop(self) -> None:
        """Stop, and let another node go on at once."""
        await super().stop()
        self._forget()
        try:
            await self._store.leases.release([("", self._consumer)], self._holder)
        except StoreError as error:
            LOG.warning("%s: the lease could not be given up: %s", self.name, error)
        try:
            await self.destination.close()
        except Exception as error:  # noqa: BLE001 - a destination's own trouble must not keep others running
            LOG.warning("%s could not be closed: %s", self.name, error)

    # The lease, and what is known while it is held.

    async def _hold(self, now: datetime) -> bool:
        """Whether the lease is ours; takes or extends it in good time."""
        if self._held_since is not None:
            age = (now - self._held_since) / timedelta(milliseconds=1)
            if 0 <= age < self._lease / 3:
                await self._look_who_waits(now)
                return True
            if not 0 <= age < self._lease:
                self._forget()
        if not await self._store.leases.hold([("", self._consumer)], self._holder, self._lease):
            self._forget()
            return False
        known = (
            self._held_since is not None
            and await self._store.messages.consumer(self._consumer) == self._settled
        )
        if not (await self._settle(self._cursor) if known else await self._begin()):
            return False
        await self._look_who_waits(now)
        self._held_since = now
        return True

    async def _begin(self) -> bool:
        """Learn how far the destination has come."""
        cursor = await self._store.messages.consumer(self._consumer)
        if cursor is None:
            first = self.destination.terms.begins == "first"
            cursor = Cursor() if first else await self._store.messages.last()
            # Kept at once: a crash before the first message must not move the beginning.
            if not await self._settle(cursor, always=True):
                return False
        self._cursor = self._settled = cursor
        return True

    async def _look_who_waits(self, now: datetime) -> None:
        """Learn it once, and again now and then: somebody may have discarded what waited."""
        if self._learnt_at is not None:
            is_fresh = 0 <= (now - self._learnt_at) / timedelta(milliseconds=1) < self._lease / 3
            if is_fresh or not self._waiting.count:
                return
        found: list[LetterPlace] = []
        while True:
            after = found[-1] if found else LetterPlace()
            page = await self._store.letters.waiting(self._consumer, after, MOST_LEARNT)
            found += page
            if len(page) < MOST_LEARNT:
                break
        self._waiting.learn(found)
        # Only now: who could not read them must not believe that nobody waits.
        self._learnt_at = now

    async def _settle(self, cursor: Cursor, round_: Round | None = None, *, always: bool = False) -> bool:
        """Write how far the destination has come; False when the lease is not ours any more."""
        if not always and round_ is None and cursor == self._settled:
            return True
        letters, delivered = (
            ((), ()) if round_ is None else round_.written(self._consumer, await self._store.now())
        )
        settlement = Settlement(self._consumer, self._holder, cursor, letters, delivered)
        if not await self._store.messages.settle(settlement):
            self._forget()
            return False
        self._cursor = self._settled = cursor
        return True

    # One round: letters that are due and a page of messages, all instances side by side.

    async def _work_through(self, due: Sequence[LetterRow], page: MessagePage) -> bool:
        """Deliver and settle; False when the lease was lost."""
        wanted, cursor = self.destination.wants.of(page.messages), page.cursor
        if not due and not wanted:
            self._cursor = cursor
            return True
        round_ = Round(due, wanted, self._waiting.blocked)
        self._delivery.has_room = self._waiting.has_room
        if self._waiting.are_too_many:
            self._delivery.give_up(round_, self._waiting.failed)
        self.tally["queued"] += len(round_.queued)
        try:
            held = await self._deliver_all(round_, None if page.complete else cursor)
        except (Exception, asyncio.CancelledError):
            # What has arrived is written before the relay stops, so that only what was cut off repeats.
            if not round_.is_untouched:
                with suppress(Exception):  # the end of the relay must not depend on the store
                    await self._settle(cursor, round_)
            raise
        if held and round_.is_untouched:
            return True
        if not held or not await self._settle(cursor, round_):
            return False
        self._learn(round_)
        return True

    async def _deliver_all(self, round_: Round, more: Cursor | None) -> bool:
        """Deliver, read what is next, and keep the lease meanwhile; False when it is lost."""
        walks = self._delivery.walks(round_)
        ahead = [] if more is None else [self._read_ahead(more)]
        runners = [asyncio.create_task(walk) for walk in (*walks, *ahead)]
        pending = set(runners)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, timeout=self._lease / 3_000)
                for runner in done:
                    runner.result()
                if pending and not await self._extend():
                    return False
        finally:
            for runner in pending:
                runner.cancel()
            await asyncio.gather(*runners, return_exceptions=True)
        return True

    async def _extend(self) -> bool:
        """Keep the lease during a round; False when someone else has had it."""
        now = await self._store.now()
        held = await self._store.leases.hold([("", self._consumer)], self._holder, self._lease)
        if not held or await self._store.messages.consumer(self._consumer) != self._settled:
            return False
        self._held_since = now
        self.tally["extended"] += 1
        return True

    def _learn(self, round_: Round) -> None:
        """Remember who waits now, and who does not any more."""
        for letter in round_.ended():
            self._waiting.unblock(key_of(letter), letter.position)
        for row in round_.waiting():
            self._waiting.block(key_of(row), row.position, row.attempts if isinstance(row, LetterRow) else 0)
