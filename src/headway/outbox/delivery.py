"""Delivery: hands the messages of a plan to a destination, and notes what becomes of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import Any

from headway.engine.service import LOG
from headway.errors import DeliveryError, InputError, UnfinishedError, UnreachableError
from headway.outbox.destination import BulkDestination, DeliveryReport, Destination
from headway.outbox.message import Message, message_of
from headway.outbox.outcome import (
    NOT_HERE_FIRST,
    Results,
    Verdict,
    explain,
    judge,
    judge_all,
    leave_alone,
    succeed,
)
from headway.outbox.plan import DeliveryPlan, DeliveryState, Row, lanes
from headway.store.rows import LetterRow

LONGEST_ROUND = 5.0
"""After so many seconds no more deliveries begin: messages of others wait for progress to be written."""


class Delivery:
    """Delivers plans: the messages of an instance one after the other, instances side by side."""

    def __init__(
        self,
        destination: Destination,
        state: DeliveryState,
        now: Callable[[], Awaitable[datetime]],
        tally: Counter[str],
    ) -> None:
        self._name = f"relay to {destination.name}"
        self._destination, self._state, self._now, self._tally = destination, state, now, tally
        self.longest_round = LONGEST_ROUND

    def walks(self, plan: DeliveryPlan, results: Results) -> list[Coroutine[Any, Any, None]]:
        """What has to run, side by side, to deliver a plan; `results` are true at any time."""
        if isinstance(self._destination, BulkDestination):
            return [self._deliver_in_bulk(self._destination, plan, results)] if plan.tries else []
        found = lanes(plan.tries)
        left, until = iter(found), asyncio.get_running_loop().time() + self.longest_round
        walkers = min(self._destination.terms.at_once, len(found))
        return [self._walk(left, results, until) for _ in range(walkers)]

    async def _deliver_in_bulk(
        self, destination: BulkDestination, plan: DeliveryPlan, results: Results
    ) -> None:
        rows, report = plan.tries, DeliveryReport()
        again = sum(1 for letter in plan.due if letter.attempts)
        self._tally["retried"] += again
        self._tally["tried"] += len(rows) - again
        try:
            await destination.deliver_all(map(message_of, rows), report)
        except asyncio.CancelledError as error:
            if _is_asked_to_stop():
                raise
            gone = UnreachableError(f"cancelled: {error}")
            self._report(leave_alone(self._state, gone, await self._now()), gone)
        except InputError:  # the destination is misconfigured, and no message is to blame
            raise
        except Exception as error:  # noqa: BLE001 - else what has arrived would come again, and again
            LOG.warning("%s: %s", self._name, explain(error))
            report.failed += [(place, error) for place in _first_untold(len(rows), report)]
        finally:
            self._tally["delivered"] += len(report.delivered)
            results.delivered.update(rows[place].position for place in report.delivered)
        if report.delivered:
            self._succeed()
        if report.failed:
            for verdict, reason in judge_all(self._state, rows, report, await self._now()):
                self._conclude(verdict, reason, results)

    async def _walk(self, left: Iterator[Sequence[Row]], results: Results, until: float) -> None:
        """Deliver lane after lane; what is not tried in time waits for the next plan."""
        time = asyncio.get_running_loop().time
        for lane in left:
            for row in lane:
                if self._state.breaker.is_quiet or not await self._try(row, results) or time() >= until:
                    break
            if time() >= until:
                break

    async def _try(self, row: Row, results: Results) -> bool:
        """Deliver one message; False when those behind it must wait."""
        message = message_of(row)
        self._tally["retried" if message.attempt > 1 else "tried"] += 1
        try:
            await self._hand_over(message)
        except asyncio.CancelledError as error:
            if _is_asked_to_stop():
                raise
            return await self._fail(row, DeliveryError(f"cancelled: {error}"), results)
        except UnfinishedError:
            return False
        except Exception as error:  # noqa: BLE001 - whatever a receiver does, other messages must go on
            return await self._fail(row, error, results)
        self._tally["delivered"] += 1
        self._succeed()
        results.delivered.add(row.position)
        return True

    async def _hand_over(self, message: Message) -> None:
        """Deliver within the time allowed."""
        allowed = self._destination.terms.timeout
        seconds = None if allowed is None else allowed / 1_000
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._destination.deliver(message)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeliveryError(f"not accepted within {seconds:g} s") from None

    async def _fail(self, row: Row, error: Exception, results: Results) -> bool:
        """Decide about a message that was not accepted; False when those behind it must wait."""
        now = await self._now()  # first: of those that fail at the same time one begins a pause
        verdict = judge(self._state, row, error, now)
        self._conclude(verdict, error, results)
        return verdict.kind == "dead"

    def _conclude(self, verdict: Verdict, error: Exception, results: Results) -> None:
        results.note(verdict)
        self._report(verdict, error)

    # What is counted and logged.

    def _succeed(self) -> None:
        if succeed(self._state):
            LOG.warning("%s: messages are accepted again", self._name)

    def _report(self, verdict: Verdict, error: Exception) -> None:
        letter, said = verdict.letter, explain(error)
        if letter is None:
            if verdict.paused is not None:
                self._tally["unreachable"] += 1
                LOG.warning("%s: %s; next attempt in %.1f s", self._name, said, verdict.paused)
            return
        if verdict.kind == "not_here":
            self._tally["not_here"] += 1
            if verdict.pause == NOT_HERE_FIRST:
                LOG.info("%s: %s of %s/%s waits for another node: %s", self._name, *_place(letter), said)
            return
        self._tally["failed"] += 1
        if verdict.recovered:
            LOG.warning("%s: messages are accepted again", self._name)
        if verdict.paused is not None:
            self._tally["paused"] += 1
            text = "%s: nothing is accepted, last error: %s; one message is tried in %.0f s"
            LOG.warning(text, self._name, said, verdict.paused)
        if letter.dead:
            self._tally["dead"] += 1
            LOG.warning("%s: %s of %s/%s is a dead letter: %s", self._name, *_place(letter), said)
        else:
            LOG.info("%s: %s of %s/%s failed: %s", self._name, *_place(letter), said)


def _is_asked_to_stop() -> bool:
    """Whether a cancellation is meant for us; else a library has let out one of its own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _first_untold(count: int, report: DeliveryReport) -> list[int]:
    """The first place of which nobody has told, if there is one: the others may not be to blame."""
    told = {*report.delivered, *(place for place, _ in report.failed)}
    return [place for place in range(count) if place not in told][:1]


def _place(letter: LetterRow) -> tuple[str, str, str]:
    return letter.name, letter.tenant, letter.instance
