"""Delivery: what a relay does with a round, and when it leaves a destination alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from headway.codec import replace
from headway.engine.service import LOG
from headway.errors import InputError
from headway.outbox.breaker import Breaker
from headway.outbox.destination import (
    Bulk,
    BusyError,
    DeliveryError,
    Destination,
    Fates,
    Message,
    NotHereError,
    PermanentError,
    UnfinishedError,
    UnreachableError,
    message_of,
)
from headway.outbox.round import Round, Row, key_of, letter_of
from headway.store.rows import Key, LetterRow, Version

LONGEST_PAUSE = timedelta(hours=1)
LONGEST_WAIT = timedelta(days=1)
SHORTEST_REST = 1.0
LONGEST_ROUND = 5.0
"""After so many seconds a round begins no more deliveries: messages of others wait for its end."""
LONGEST_ERROR = 500
NOT_HERE_FIRST, NOT_HERE_LATER = timedelta(seconds=1), timedelta(seconds=10)
"""After so long a message is tried again that a node could not deliver, the first time and later."""
TOO_MANY = "not tried: too many messages wait before it"


class Delivery:
    """Hands the messages of rounds to a destination, and decides about those that are not taken."""

    def __init__(
        self, name: str, destination: Destination, now: Callable[[], Awaitable[datetime]], tally: Counter[str]
    ) -> None:
        self._name, self._destination, self._now, self._tally = name, destination, now, tally
        self.breaker = Breaker()
        self.longest_round = LONGEST_ROUND
        self.has_room = True
        self.not_here: set[Version] = set()
        """Chart versions that a node must know to deliver what this one could not."""
        self._quiet_until: datetime | None = None

    def is_quiet(self, now: datetime) -> bool:
        """Whether the destination is to be left alone until later."""
        # Nobody is left alone for longer than that, unless the clock was set back meanwhile.
        if self._quiet_until is not None and not now < self._quiet_until <= now + LONGEST_PAUSE:
            self._quiet_until = None
        return self._quiet_until is not None

    def walks(self, round_: Round) -> list[Coroutine[Any, Any, None]]:
        """What has to run, side by side, to deliver a round."""
        if isinstance(self._destination, Bulk):
            return [self._deliver_in_bulk(self._destination, round_)] if round_.trying else []
        lanes = round_.lanes()
        left, until = iter(lanes), asyncio.get_running_loop().time() + self.longest_round
        walkers = min(self._destination.terms.at_once, len(lanes))
        return [self._walk(left, round_, until) for _ in range(walkers)]

    async def _deliver_in_bulk(self, destination: Bulk, round_: Round) -> None:
        rows, fates = round_.trying, Fates()
        again = sum(1 for letter in round_.due if letter.attempts)
        self._tally["retried"] += again
        self._tally["tried"] += len(rows) - again
        try:
            await destination.deliver_all(map(message_of, rows), fates)
        except asyncio.CancelledError as error:
            if _is_asked_to_stop():
                raise
            await self._leave_alone(UnreachableError(f"cancelled: {error}"))
        except InputError:  # the destination was made wrongly, and no message is to blame
            raise
        except Exception as error:  # noqa: BLE001 - else what has arrived would come again, and again
            LOG.warning("%s: %s", self._name, _text(error))
            fates.failed += [(place, error) for place in _first_untold(len(rows), fates)]
        finally:
            self._tally["delivered"] += len(fates.arrived)
            round_.arrived([rows[place] for place in fates.arrived])
        if fates.arrived:
            self._answered()
        failures = [(rows[place], error) for place, error in sorted(fates.failed, key=_first)]
        gone = [error for _, error in failures if isinstance(error, UnreachableError)]
        if gone and not fates.arrived:
            # All of it stays where it is; what has failed by itself is judged when the others can go.
            await self._leave_alone(gone[0])
        else:
            await self._judge(failures, round_, counts=not fates.arrived)

    async def _judge(self, failures: Sequence[tuple[Row, Exception]], round_: Round, *, counts: bool) -> None:
        """Decide about failures in the order of the messages; what waits behind one was not tried."""
        behind: set[Key] = set()
        for row, error in failures:
            key = key_of(row)
            if key not in behind and not await self._decide(row, error, round_, counts=counts):
                behind.add(key)

    async def _walk(self, lanes: Iterator[Sequence[Row]], round_: Round, until: float) -> None:
        """Deliver lane after lane; what is not tried in time waits for the next round."""
        time = asyncio.get_running_loop().time
        for lane in lanes:
            for row in lane:
                if self._quiet_until is not None or not await self._try(row, round_) or time() >= until:
                    break
            if time() >= until:
                break

    async def _try(self, row: Row, round_: Round) -> bool:
        """Deliver one message; False when those behind it must wait."""
        message = message_of(row)
        self._tally["retried" if message.attempt > 1 else "tried"] += 1
        try:
            await self._hand_over(message)
        except asyncio.CancelledError as error:
            if _is_asked_to_stop():
                raise
            return await self._decide(row, DeliveryError(f"cancelled: {error}"), round_)
        except UnfinishedError:
            return False
        except Exception as error:  # noqa: BLE001 - whatever a receiver does, other messages must go on
            return await self._decide(row, error, round_)
        self._tally["delivered"] += 1
        self._answered()
        round_.arrived([row])
        return True

    async def _hand_over(self, message: Message) -> None:
        """Deliver within the time there is for it."""
        allowed = self._destination.terms.timeout
        seconds = None if allowed is None else allowed / 1_000
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._destination.deliver(message)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeliveryError(f"it was not taken within {seconds:g} s") from None

    async def _decide(self, row: Row, error: Exception, round_: Round, *, counts: bool = True) -> bool:
        """Decide about a message that was not taken; False when those behind it must wait.

        `counts`: the destination may be to blame, because it has taken nothing beside it.
        """
        if isinstance(error, UnreachableError):
            await self._leave_alone(error)
            return False
        letter = letter_of(self._destination.name, row)
        if isinstance(error, NotHereError):
            return self._leave_to_others(letter, error, round_)
        letter = replace(letter, attempts=letter.attempts + 1, error=_text(error))
        self._tally["failed"] += 1
        if isinstance(error, PermanentError):
            self._answered()
            return self._bury(letter, round_)
        if counts:
            await self._count(letter)
        pause = await self._pause(letter, error)
        if pause is None or not (self.has_room or isinstance(row, LetterRow)):
            return self._bury(letter, round_)
        LOG.info("%s: %s of %s/%s failed: %s", self._name, *_place(letter), letter.error)
        round_.failed(letter, pause)
        return False

    def _leave_to_others(self, letter: LetterRow, error: NotHereError, round_: Round) -> bool:
        """Keep a message for a node that can deliver it; the first attempt is its last that counts."""
        self._tally["not_here"] += 1
        if not letter.attempts:
            LOG.info("%s: %s of %s/%s waits for another node: %s", self._name, *_place(letter), error)
        self.not_here.add(error.version)
        pause = NOT_HERE_LATER if letter.attempts else NOT_HERE_FIRST
        round_.failed(replace(letter, attempts=max(1, letter.attempts), error=_text(error)), pause)
        return False

    async def _pause(self, letter: LetterRow, error: Exception) -> timedelta | None:
        """How long a message waits for its next attempt, if there is one; the destination may want a rest."""
        wait = self._destination.terms.backoff.wait(letter.id, letter.attempts)
        if wait is None:
            return None
        pause = timedelta(milliseconds=wait)
        if not isinstance(error, DeliveryError):
            return pause
        asked = timedelta(seconds=min(error.after, LONGEST_WAIT.total_seconds()))
        if isinstance(error, BusyError) and asked:
            self._quiet_until = await self._now() + min(asked, LONGEST_PAUSE)
        return max(pause, asked)

    def give_up(self, round_: Round, failed: Collection[Key]) -> None:
        """Bury what would wait behind letters of instances that fail: there are too many."""
        rows = [row for row in round_.queued if key_of(row) in failed]
        if not rows:
            return
        round_.queued = [row for row in round_.queued if key_of(row) not in failed]
        for row in rows:
            round_.died(replace(letter_of(self._destination.name, row), dead=True, error=TOO_MANY))
        self._tally["dead"] += len(rows)
        LOG.warning("%s: %d messages are dead: %s", self._name, len(rows), TOO_MANY)

    def _bury(self, letter: LetterRow, round_: Round) -> bool:
        self._tally["dead"] += 1
        LOG.warning("%s: %s of %s/%s is dead: %s", self._name, *_place(letter), letter.error)
        round_.died(replace(letter, dead=True))
        return True

    async def _leave_alone(self, error: UnreachableError) -> None:
        """The destination is not there: its messages stay where they are, none the worse for it."""
        now = await self._now()
        if self._quiet_until is None:
            self._tally["unreachable"] += 1
            # Its messages are due again at once, so without a rest it would be asked over and over.
            rest = min(max(error.after, SHORTEST_REST), LONGEST_PAUSE.total_seconds())
            LOG.warning("%s: %s; going on in %.1f s", self._name, _text(error), rest)
            self._quiet_until = now + timedelta(seconds=rest)

    async def _count(self, letter: LetterRow) -> None:
        """Leave the destination alone when messages are not to blame for so many failures."""
        now = await self._now()  # first: of those that fail at the same time one begins a pause
        if self._quiet_until is not None:
            return
        pause = self.breaker.failed(key_of(letter))
        if pause is not None:
            self._tally["paused"] += 1
            said = "%s takes nothing, last: %s; one message is tried in %.0f s"
            LOG.warning(said, self._name, letter.error, pause.total_seconds())
            self._quiet_until = now + pause

    def _answered(self) -> None:
        if self.breaker.answered():
            LOG.warning("%s takes messages again", self._name)


def _is_asked_to_stop() -> bool:
    """Whether a cancellation is meant for us; else a library has let out one of its own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _first_untold(count: int, fates: Fates) -> list[int]:
    """The first place of which nobody has told, if there is one: the others may not be to blame."""
    told = {*fates.arrived, *(place for place, _ in fates.failed)}
    return [place for place in range(count) if place not in told][:1]


def _first(failure: tuple[int, Exception]) -> int:
    return failure[0]


def _place(letter: LetterRow) -> tuple[str, str, str]:
    return letter.name, letter.tenant, letter.instance


def _text(error: Exception) -> str:
    """What went wrong, printable and short; our own errors speak for themselves."""
    said = str(error) if isinstance(error, DeliveryError) else f"{type(error).__name__}: {error}"
    return "".join(char if char.isprintable() else " " for char in said[:LONGEST_ERROR])
