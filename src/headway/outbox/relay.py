"""A relay: brings messages from the outbox to one destination."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from headway.clock import milliseconds
from headway.engine.engine import Engine
from headway.engine.lease import Lease
from headway.engine.service import LOG, WatchingService
from headway.errors import StoreError
from headway.outbox.delivery import Delivery, Results, conclude, remember
from headway.outbox.destination import Destination, TimedDestination
from headway.outbox.plan import (
    MOST_WAITING,
    TOO_MANY,
    DeliveryPlan,
    DeliveryState,
    choose,
    first_free,
    reads_on,
    ready,
)
from headway.store.queries import (
    LetterPlace,
    LetterQuery,
    MessagePage,
    MessageQuery,
    Settlement,
)
from headway.store.rows import Cursor
from headway.store.unit import Changes

LEASE = "30s"
MOST_TO_CHOOSE_FROM = FIRST_PAGE = 1_000
STAND_BACK = timedelta(seconds=5)
"""How long a node that released the lease for another node does not take it again."""
MOST_LEARNT = 10_000
MOST_SEARCHED = 10
"""How many pages one turn searches for a message of an instance without letters."""
LOOKS = (100, 1_000, *[10_000] * 10)
"""Sizes of the pages that are searched for the first message that waits."""


class Relay(WatchingService):
    """Delivers at least once, in order per instance; of many nodes the one that holds the lease.

    A message that is not accepted becomes a letter, and later messages of its instance wait behind it as
    letters; other instances continue. Progress and letters are written together when a plan is delivered.
    What a crash leaves unwritten is delivered again, with the same id. When very many letters wait, more
    messages of failing instances stay in the outbox, or become dead letters if other instances have messages
    behind them.
    What is tried, retried, paused and given up is decided in `plan` and `delivery`; this class does the I/O.
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
        self._lease = Lease(
            self._store, destination.name, holder or engine.node, lasts=milliseconds(lease) / 1_000
        )
        self._state = DeliveryState(
            destination.name,
            self._lease.holder,
            destination.filter,
            destination.policy.backoff,
            most_waiting=most_waiting,
        )
        self._delivery = Delivery(destination, self._state, self._store.now, self.tally)
        self._page = page or destination.policy.page
        self._back_at: datetime | None = None
        self._forget()

    def _forget(self) -> None:
        """Forget what was read: the next holder of the lease may change all of it."""
        self._lease.forget()
        self._state.forget()
        self._settled = Cursor()
        self._is_up_to_date = False
        self._learnt_at: datetime | None = None
        self._searches = False
        self._ahead: tuple[Cursor, MessagePage] | None = None

    async def turn(self) -> bool:
        """Try the letters that are due and read on; True when there may be more."""
        try:
            now = await self._store.now()
            if isinstance(self.destination, TimedDestination):
                self.destination.keep_time(now)
            if self._stands_back(now):
                return False
            more = await self._hold(now) and await self._go_on(now)
            return more and not (self._state.missing and await self._make_way(now))
        except (Exception, asyncio.CancelledError):
            # Nobody knows what of it was written.
            self._forget()
            raise

    async def rest(self) -> float:
        """A relay without the lease only checks now and then whether it is free."""
        return self.longest_rest if self._lease.is_held else self._lease.lasts / 6

    async def start(self) -> None:
        """Begin to take turns, and at once when this process has written a message.

        What is published from now on is delivered, also to a destination that is new.
        """
        if self._loop is None:
            with suppress(StoreError):  # the first turn says so, and tries again
                await self.take_up()
        await super().start()

    async def take_up(self) -> None:
        """Take the lease if it is free; a new destination gets what is published from then on."""
        await self._hold(await self._store.now())

    def look(self, changes: Changes) -> None:
        """Wake up for messages that the destination accepts."""
        takes = self.destination.filter.takes
        if any(takes(message.tenant, message.kind, message.name) for message in changes.messages):
            self.wake()

    async def stop(self) -> None:
        """Stop, and release the lease so that another node can take it at once."""
        await super().stop()
        self._forget()
        try:
            await self._lease.release()
        except StoreError as error:
            LOG.warning("%s: the lease could not be released: %s", self.name, error)
        try:
            await self.destination.close()
        except Exception as error:  # noqa: BLE001 - a destination's own trouble must not keep others running
            LOG.warning("%s could not be closed: %s", self.name, error)

    async def lag(self, tenant: str | None = None) -> float:
        """For how many seconds the first message has waited that the destination has not reached.

        What is not wanted is passed over, up to a bound. What an open transaction holds back waits, too.
        """
        cursor, accepted = await self._store.messages.consumer(self._state.consumer), self.destination.filter
        for limit in LOOKS:
            if cursor is None:
                break
            whose = accepted.tenant if tenant is None else tenant
            page = await self._store.messages.page(
                MessageQuery(cursor, accepted.kinds, whose, limit, early=True)
            )
            waiting = accepted.of(page.messages)
            if waiting:
                return max(0.0, (await self._store.now() - waiting[0].at).total_seconds())
            cursor = None if page.complete else page.cursor
        return 0.0

    # The lease, and what is known while it is held.

    async def _hold(self, now: datetime) -> bool:
        """Whether this relay holds the lease; takes or extends it in good time."""
        at = now.timestamp()
        if self._lease.has_lapsed(at):
            self._forget()
        if self._is_up_to_date and self._lease.is_fresh(at):
            await self._learn_who_waits(now)
            return True
        if not await self._lease.extend(at):
            self._forget()
            return False
        cursor = self._state.cursor
        if (
            not self._is_up_to_date
            or await self._store.messages.consumer(self._state.consumer) != self._settled
        ):
            begun = await self._begin()
        else:
            begun = cursor == self._settled or await self._settle(self._state.settlement(cursor))
        if not begun:
            return False
        await self._learn_who_waits(now)
        self._is_up_to_date = True
        return True

    async def _begin(self) -> bool:
        """Learn how far the destination has come; False when the lease was lost."""
        cursor = await self._store.messages.consumer(self._state.consumer)
        if cursor is None:
            first = self.destination.policy.begins == "first"
            cursor = Cursor() if first else await self._store.messages.last()
            # Kept at once: a crash before the first message must not move the beginning.
            return await self._settle(self._state.settlement(cursor))
        self._state.cursor = self._settled = cursor
        return True

    async def _learn_who_waits(self, now: datetime) -> None:
        """Learn it once, and again now and then: somebody may have discarded what waited."""
        if self._learnt_at is not None:
            is_fresh = 0 <= (now - self._learnt_at).total_seconds() < self._lease.lasts / 3
            if is_fresh or not self._state.backlog.count:
                return
        found: list[LetterPlace] = []
        while True:
            after = found[-1] if found else LetterPlace()
            page = await self._store.letters.waiting(self._state.consumer, after, MOST_LEARNT)
            found += page
            if len(page) < MOST_LEARNT:
                break
        self._state.backlog.learn(found)
        # Only now: if they could not be read, nobody may conclude that nothing waits.
        self._learnt_at = now

    async def _extend(self) -> bool:
        """Keep the lease during deliveries; False when another relay has had it."""
        now = await self._store.now()
        held = await self._lease.extend(now.timestamp())
        if not held or await self._store.messages.consumer(self._state.consumer) != self._settled:
            return False
        self.tally["extended"] += 1
        return True

    def _stands_back(self, now: datetime) -> bool:
        """Whether another node is to have the lease first."""
        back = self._back_at
        return back is not None and now < back <= now + STAND_BACK

    async def _make_way(self, now: datetime) -> bool:
        """Release the lease for a node that knows the versions which are not known here, if one is alive."""
        missing, self._state.missing = self._state.missing, set()
        nodes = await self._store.nodes.alive()
        if not any(node.name != self._engine.node and missing.intersection(node.versions) for node in nodes):
            return False
        self.tally["made_way"] += 1
        self._back_at = now + STAND_BACK
        self._forget()
        await self._lease.release()
        await self._store.announce(["messages"])
        return True

    # One plan: letters that are due and a page of messages, all instances side by side.

    async def _go_on(self, now: datetime) -> bool:
        """Make a plan and carry it out; True when there may be more."""
        self._state.breaker = self._state.breaker.at(now)
        if self._state.breaker.is_quiet:
            return False
        self._searches = False
        plan = await self._plan()
        if not await self._work_through(plan):
            self.tally["lost"] += 1
            LOG.warning("%s: the lease was lost; what was under way may be delivered again", self.name)
            self._forget()
            return True
        return not plan.is_idle or self._searches

    async def _plan(self) -> DeliveryPlan:
        """Read the letters that are due and the next messages, and decide what to do with them."""
        state, is_probing = self._state, self._state.breaker.is_probing
        limit = MOST_TO_CHOOSE_FROM if is_probing else self.destination.policy.at_once
        query = LetterQuery(destination=state.consumer, dead=False, due=True, limit=limit)
        due = await self._store.letters.page(query)
        if is_probing and not state.backlog.is_full and state.search_end is None:
            state.search_end = await self._store.messages.last()
        reads = reads_on(state, due, limit)
        page = await self._next() if reads else state.nothing
        others = await self._search(page) if reads and state.backlog.is_full else page
        if due and not is_probing and (each := limit // len(due) - 1):
            due = [*due, *ready(await self._store.letters.behind(due, each))]
        plan = choose(state, due, page, others)
        state.search_end = plan.search_end
        return plan

    async def _search(self, page: MessagePage) -> MessagePage | None:
        """The given page or a later one that has a message of an instance without letters."""
        backlog = self._state.backlog
        for _ in range(MOST_SEARCHED):
            if first_free(self._state, page) is not None:
                return page
            backlog.searched = max(backlog.searched, page.cursor)
            if page.complete:
                return None
            page = await self._messages(backlog.searched, self._page)
        self._searches = True
        return None

    async def _next(self) -> MessagePage:
        cursor = self._state.cursor
        ahead, self._ahead = self._ahead, None
        # A probe is chosen of what is there now, not of what was before the pause.
        if ahead is not None and ahead[0] == cursor and not self._state.breaker.is_probing:
            return ahead[1]
        # Not all that a page may be: others are read while it is delivered.
        return await self._messages(cursor, min(self._page, FIRST_PAGE))

    async def _messages(self, after: Cursor, limit: int) -> MessagePage:
        accepted = self.destination.filter
        query = MessageQuery(after=after, kinds=accepted.kinds, tenant=accepted.tenant, limit=limit)
        return await self._store.messages.page(query)

    async def _read_ahead(self, cursor: Cursor) -> None:
        """Have the next page ready when this one is delivered."""
        with suppress(StoreError):  # the next use reads it again, and reports the error
            page = await self._messages(cursor, self._page)
            if page.cursor != cursor:  # what comes meanwhile must not wait behind a page that is empty
                self._ahead = (cursor, page)

    async def _work_through(self, plan: DeliveryPlan) -> bool:
        """Deliver and settle; False when the lease was lost."""
        if plan.is_empty:
            self._state.cursor = plan.cursor
            return True
        self.tally["queued"] += len(plan.queued)
        if plan.given_up:
            self.tally["dead"] += len(plan.given_up)
            LOG.warning("%s: %d messages are dead letters: %s", self.name, len(plan.given_up), TOO_MANY)
        results = Results()
        try:
            held = await self._deliver(plan, results)
        except (Exception, asyncio.CancelledError):
            # What has arrived is written before the relay stops, so that only what was cut off repeats.
            with suppress(Exception):  # the end of the relay must not depend on the store
                await self._write(plan, results)
            raise
        return held and await self._write(plan, results)

    async def _deliver(self, plan: DeliveryPlan, results: Results) -> bool:
        """Deliver, read what is next, and keep the lease meanwhile; False when it is lost."""
        ahead = [self._read_ahead(plan.cursor)] if plan.has_more else []
        runners = [*map(asyncio.create_task, (*self._delivery.walks(plan, results), *ahead))]
        pending = set(runners)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, timeout=self._lease.lasts / 3)
                for runner in done:
                    runner.result()
                if pending and not await self._extend():
                    return False
        finally:
            for runner in pending:
                runner.cancel()
            await asyncio.gather(*runners, return_exceptions=True)
        return True

    async def _write(self, plan: DeliveryPlan, results: Results) -> bool:
        """Write what has become of a plan; False when the lease is lost."""
        if results.is_untouched(plan):
            return True
        if not await self._settle(conclude(self._state, plan, results, await self._store.now())):
            return False
        remember(self._state, plan, results)
        return True

    async def _settle(self, settlement: Settlement) -> bool:
        """Write how far the destination has come; False when the lease is lost."""
        if not await self._store.messages.settle(settlement):
            self._forget()
            return False
        self._state.cursor = self._settled = settlement.cursor
        return True
