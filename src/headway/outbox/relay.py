"""A relay: brings messages from the outbox to one destination."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from headway.clock import milliseconds
from headway.codec import replace
from headway.engine.engine import Engine
from headway.engine.service import LOG, Service
from headway.errors import StoreError
from headway.outbox.destination import (
    Bulk,
    BusyError,
    DeliveryError,
    Destination,
    PermanentError,
    UnreachableError,
    message_of,
)
from headway.outbox.round import Round
from headway.store.port import Changes, LetterQuery, MessageQuery, Settlement
from headway.store.rows import Cursor, Key, LetterRow, MessageRow

LEASE = "30s"
LONGEST_PAUSE = timedelta(hours=1)
LONGEST_WAIT = timedelta(days=1)
LONGEST_ERROR = 500


class Relay(Service):
    """Delivers at least once, in order per instance; of many nodes the one that holds the lease.

    A message that is not taken becomes a letter, and what follows of its instance waits behind it as
    letters; other instances go on. Progress and letters are written together after a round. What a
    crash leaves unwritten is delivered again, with the same id.
    """

    longest_rest = 1.0

    def __init__(
        self,
        engine: Engine,
        destination: Destination,
        *,
        holder: str | None = None,
        lease: str = LEASE,
        page: int | None = None,
    ) -> None:
        super().__init__()
        self.name = f"relay to {destination.name}"
        self.destination = destination
        self.tally: Counter[str] = Counter()
        self._engine = engine
        self._store = engine.store
        self._consumer = destination.name
        self._holder = holder or engine.node
        self._lease = milliseconds(lease)
        self._page = page or destination.terms.page
        self._quiet_until: datetime | None = None
        self._forget()

    def _forget(self) -> None:
        """Know nothing: whoever holds the lease next may have done anything meanwhile."""
        self._held_since: datetime | None = None
        self._cursor = self._settled = Cursor()
        self._blocked: dict[Key, set[int]] = {}

    async def turn(self) -> bool:
        """Try the letters that are due and read on; True when there may be more."""
        try:
            now = await self._store.now()
            return await self._hold(now) and not self._quiet(now) and await self._go_on()
        except Exception:
            # Nobody knows what of it was written.
            self._forget()
            raise

    async def _go_on(self) -> bool:
        before, terms, wants = self._cursor, self.destination.terms, self.destination.wants
        due = await self._store.letters(
            LetterQuery(destination=self._consumer, dead=False, due=True, limit=terms.at_once)
        )
        page = await self._store.messages(
            MessageQuery(after=before, kinds=wants.kinds, tenant=wants.tenant, limit=self._page)
        )
        if not await self._work_through(due, page.messages, page.cursor):
            self.tally["lost"] += 1
            LOG.warning("%s: the lease was lost; what was under way may be delivered again", self.name)
            self._forget()
            return True
        return bool(due) or page.cursor != before

    async def rest(self) -> float:
        """Who does not hold the lease only looks now and then whether it is free."""
        return self.longest_rest if self._held_since is not None else self._lease / 6_000

    async def start(self) -> None:
        """Begin to take turns, and at once when this process has written a message.

        What is published from now on is delivered, also to a destination that is new.
        """
        if self._loop is None:
            self._engine.watch(self._look)
            with suppress(StoreError):  # the first turn says so, and tries again
                await self._hold(await self._store.now())
        await super().start()

    def _look(self, changes: Changes) -> None:
        takes = self.destination.wants.takes
        if any(takes(message.tenant, message.kind, message.name) for message in changes.messages):
            self.wake()

    async def stop(self) -> None:
        """Stop, and let another node go on at once."""
        if self._loop is not None:
            self._engine.unwatch(self._look)
        await super().stop()
        self._forget()
        try:
            await self._store.let_go([("", self._consumer)], self._holder)
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
                return True
            if not 0 <= age < self._lease:
                self._forget()
        if not await self._store.hold([("", self._consumer)], self._holder, self._lease):
            self._forget()
            return False
        known = self._held_since is not None and await self._store.consumer(self._consumer) == self._settled
        if not (await self._settle(self._cursor) if known else await self._begin()):
            return False
        self._held_since = now
        return True

    async def _begin(self) -> bool:
        """Learn how far the destination has come, and what waits."""
        self._blocked = {}
        cursor = await self._store.consumer(self._consumer)
        if cursor is None:
            first = self.destination.terms.begins == "first"
            cursor = Cursor() if first else await self._store.last_message()
            # Kept at once: a crash before the first message must not move the beginning.
            if not await self._settle(cursor, always=True):
                return False
        self._cursor = self._settled = cursor
        after = 0
        while True:
            query = LetterQuery(destination=self._consumer, dead=False, after=after, limit=self._page)
            letters = await self._store.letters(query)
            for letter in letters:
                self._block(letter)
            if len(letters) < self._page:
                return True
            after = letters[-1].position

    def _block(self, letter: LetterRow) -> None:
        self._blocked.setdefault((letter.tenant, letter.instance), set()).add(letter.position)

    def _unblock(self, letter: LetterRow) -> None:
        key = (letter.tenant, letter.instance)
        waiting = self._blocked.get(key, set())
        waiting.discard(letter.position)
        if not waiting:
            self._blocked.pop(key, None)

    async def _settle(self, cursor: Cursor, round_: Round | None = None, *, always: bool = False) -> bool:
        """Write how far the destination has come; False when the lease is not ours any more."""
        if not always and round_ is None and cursor == self._settled:
            return True
        letters, delivered = ((), ()) if round_ is None else round_.written(await self._store.now())
        settlement = Settlement(self._consumer, self._holder, cursor, letters, delivered)
        if not await self._store.settle(settlement):
            self._forget()
            return False
        self._cursor = self._settled = cursor
        return True

    # One round: letters that are due and a page of messages, all instances side by side.

    async def _work_through(
        self, due: Sequence[LetterRow], messages: Sequence[MessageRow], cursor: Cursor
    ) -> bool:
        """Deliver and settle; False when the lease was lost."""
        takes = self.destination.wants.takes
        wanted = [each for each in messages if takes(each.tenant, each.kind, each.name)]
        if not due and not wanted:
            self._cursor = cursor
            return True
        letters = [_letter(self._consumer, message) for message in wanted]
        round_ = Round(due, letters, self._blocked)
        self.tally["queued"] += len(round_.queued)
        try:
            held = await self._deliver_all(round_)
        except asyncio.CancelledError:
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

    async def _deliver_all(self, round_: Round) -> bool:
        """Work through the lanes, some at a time, and keep the lease meanwhile; False when it is lost."""
        runners = [asyncio.create_task(walk) for walk in self._walks(round_)]
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
        held = await self._store.hold([("", self._consumer)], self._holder, self._lease)
        if not held or await self._store.consumer(self._consumer) != self._settled:
            return False
        self._held_since = now
        self.tally["extended"] += 1
        return True

    def _walks(self, round_: Round) -> list[Coroutine[Any, Any, None]]:
        if isinstance(self.destination, Bulk):
            return [self._deliver_in_bulk(self.destination, round_)]
        lanes = iter(round_.lanes)
        count = min(self.destination.terms.at_once, len(round_.lanes))
        return [self._walk(lanes, round_) for _ in range(count)]

    async def _deliver_in_bulk(self, destination: Bulk, round_: Round) -> None:
        letters = round_.trying
        failures: list[tuple[int, Exception]] = []

        def told(place: int, error: Exception | None) -> None:
            if error is None:
                self.tally["delivered"] += 1
                round_.arrived(letters[place])
            else:
                failures.append((place, error))

        again = sum(1 for letter in letters if letter.attempts)
        self.tally["retried"] += again
        self.tally["tried"] += len(letters) - again
        await destination.deliver_all([*map(message_of, letters)], told)
        await self._judge([(letters[place], error) for place, error in sorted(failures)], round_)

    async def _judge(self, failures: Sequence[tuple[LetterRow, Exception]], round_: Round) -> None:
        """Decide about failures in the order of the messages; what waits behind one was not tried."""
        behind: set[Key] = set()
        for letter, error in failures:
            key = (letter.tenant, letter.instance)
            if key in behind:
                continue
            if isinstance(error, PermanentError):
                self._bury(letter, error, round_)
            elif isinstance(error, UnreachableError):
                behind.add(key)
                await self._leave_alone(error)
            elif not await self._failed(letter, error, round_):
                behind.add(key)

    async def _leave_alone(self, error: UnreachableError) -> None:
        """The destination is not there: its messages stay where they are, none the worse for it."""
        if self._quiet_until is None:
            self.tally["unreachable"] += 1
            LOG.warning("%s: %s; going on in %.1f s", self.name, _text(error), error.after)
            self._quiet_until = await self._store.now() + timedelta(seconds=error.after)

    async def _walk(self, lanes: Iterator[list[LetterRow]], round_: Round) -> None:
        for lane in lanes:
            for letter in lane:
                if self._quiet_until is not None or not await self._try(letter, round_):
                    break

    async def _try(self, letter: LetterRow, round_: Round) -> bool:
        """Deliver one message; False when those behind it must wait."""
        self.tally["retried" if letter.attempts else "tried"] += 1
        try:
            await self.destination.deliver(message_of(letter))
        except PermanentError as error:
            self._bury(letter, error, round_)
            return True
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return await self._failed(letter, DeliveryError(f"cancelled: {error}"), round_)
        except Exception as error:  # noqa: BLE001 - whatever a receiver does, other messages must go on
            return await self._failed(letter, error, round_)
        self.tally["delivered"] += 1
        round_.arrived(letter)
        return True

    async def _failed(self, letter: LetterRow, error: Exception, round_: Round) -> bool:
        wait = self.destination.terms.backoff.wait(letter.id, letter.attempts + 1)
        if wait is None:
            self._bury(letter, error, round_)
            return True
        self.tally["failed"] += 1
        LOG.info("%s: %s of %s/%s failed: %s", self.name, *_place(letter), _text(error))
        pause = timedelta(milliseconds=wait)
        if isinstance(error, DeliveryError):
            asked = timedelta(seconds=min(error.after, LONGEST_WAIT.total_seconds()))
            pause = max(pause, asked)
            if isinstance(error, BusyError) and asked:
                self._quiet_until = await self._store.now() + min(asked, LONGEST_PAUSE)
        round_.failed(replace(letter, attempts=letter.attempts + 1, error=_text(error)), pause)
        return False

    def _bury(self, letter: LetterRow, error: Exception, round_: Round) -> None:
        self.tally["failed"] += 1
        self.tally["dead"] += 1
        text = _text(error)
        LOG.warning("%s: %s of %s/%s is dead: %s", self.name, *_place(letter), text)
        round_.died(replace(letter, attempts=letter.attempts + 1, error=text, dead=True))

    def _learn(self, round_: Round) -> None:
        """Remember who waits now, and who does not any more."""
        for letter in round_.ended():
            self._unblock(letter)
        for letter in round_.waiting():
            self._block(letter)

    def _quiet(self, now: datetime) -> bool:
        """Whether the destination has asked to be left alone until later."""
        if self._quiet_until is not None and now >= self._quiet_until:
            self._quiet_until = None
        return self._quiet_until is not None


def _letter(destination: str, message: MessageRow) -> LetterRow:
    """A message as a letter that nobody has tried: due as soon as it is the first of its instance."""
    return LetterRow(
        destination=destination,
        tenant=message.tenant,
        id=message.id,
        instance=message.instance,
        kind=message.kind,
        name=message.name,
        data=message.data,
        at=message.at,
        position=message.position,
        attempts=0,
        due=message.at,
        error="",
    )


def _place(letter: LetterRow) -> tuple[str, str, str]:
    return letter.name, letter.tenant, letter.instance


def _text(error: Exception) -> str:
    """What went wrong, printable and short; our own errors speak for themselves."""
    said = str(error) if isinstance(error, DeliveryError) else f"{type(error).__name__}: {error}"
    return "".join(char if char.isprintable() else " " for char in said[:LONGEST_ERROR])
