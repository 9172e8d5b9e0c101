"""Delivery: hands the messages of a plan to a destination, and decides what becomes of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from headway.codec import Value, replace
from headway.engine.service import LOG
from headway.errors import (
    BusyError,
    DeliveryError,
    InputError,
    NotHereError,
    PermanentError,
    UnfinishedError,
    UnreachableError,
)
from headway.outbox.destination import BulkDestination, DeliveryReport, Destination
from headway.outbox.message import Message, message_of
from headway.outbox.plan import LONGEST_QUIET, DeliveryPlan, DeliveryState, Row, key_of, lanes, letter_of
from headway.store.queries import Settlement
from headway.store.rows import Key, LetterRow, MessageRow

LONGEST_WAIT = timedelta(days=1)
SHORTEST_REST = 1.0
LONGEST_ERROR = 500
NOT_HERE_FIRST, NOT_HERE_LATER = timedelta(seconds=1), timedelta(seconds=10)
"""Waits before the first and later retries of a message that another node has to deliver."""
LONGEST_ROUND = 5.0
"""Seconds after which no more deliveries of a plan begin: others wait for progress to be written."""


class Verdict(Value):
    """What becomes of a message that was not accepted.

    It is retried after a pause, or dead, or waits for another node; its `letter` says so. A message whose
    destination is unreachable has none: nothing is written about it. `paused` is the number of seconds for
    which deliveries stop because of it. `recovered`: the destination had been probed, and answers again.
    """

    kind: Literal["retry", "dead", "not_here", "unreachable"]
    letter: LetterRow | None = None
    pause: timedelta = timedelta()
    paused: float | None = None
    recovered: bool = False


class Results:
    """What has become of the messages of a plan so far, by position; the others count as not tried."""

    def __init__(self) -> None:
        self.delivered: set[int] = set()
        self.retries: dict[int, tuple[LetterRow, timedelta]] = {}
        self.dead: dict[int, LetterRow] = {}

    def note(self, verdict: Verdict) -> None:
        """Add what becomes of a message that was not accepted."""
        letter = verdict.letter
        if letter is None:
            return
        if letter.dead:
            self.dead[letter.position] = letter
        else:
            self.retries[letter.position] = (letter, verdict.pause)

    def untried(self, plan: DeliveryPlan) -> list[Row]:
        """The messages of a plan of which nothing is known."""
        if len(self.delivered) == len(plan.tries):
            return []
        known = {*self.delivered, *self.retries, *self.dead}
        return [row for row in plan.tries if row.position not in known]

    def is_untouched(self, plan: DeliveryPlan) -> bool:
        """Whether nothing has become of any message, so that the same plan can be made again."""
        return not (self.delivered or self.retries or self.dead or plan.queued or plan.given_up)


def succeed(state: DeliveryState) -> bool:
    """The destination accepted a message; answers whether it had been probed before."""
    was_probing = state.breaker.is_probing
    state.breaker = state.breaker.succeeded()
    return was_probing


def judge(state: DeliveryState, row: Row, error: Exception, now: datetime, *, counts: bool = True) -> Verdict:
    """Decide about a message that was not accepted.

    `counts`: the destination may be to blame, because it has accepted nothing beside it.
    """
    if isinstance(error, UnreachableError):
        return leave_alone(state, error, now)
    letter = letter_of(state.consumer, row)
    if isinstance(error, NotHereError):
        state.missing.add(error.version)
        pause = NOT_HERE_LATER if letter.attempts else NOT_HERE_FIRST
        kept = replace(letter, attempts=max(1, letter.attempts), error=explain(error))
        return Verdict("not_here", kept, pause)
    letter = replace(letter, attempts=letter.attempts + 1, error=explain(error))
    if isinstance(error, PermanentError):
        return Verdict("dead", replace(letter, dead=True), recovered=succeed(state))
    pauses = state.breaker.pauses
    if counts:
        state.breaker = state.breaker.failed(key_of(row), now)
    paused = state.breaker.pause if state.breaker.pauses > pauses else None
    wait = state.backoff.wait(letter.id, letter.attempts)
    if wait is None:
        return Verdict("dead", replace(letter, dead=True), paused=paused)
    asked = min(error.after, LONGEST_WAIT.total_seconds()) if isinstance(error, DeliveryError) else 0.0
    if isinstance(error, BusyError) and asked:
        state.breaker = state.breaker.quiet(asked, now)
    if not state.backlog.has_room and isinstance(row, MessageRow):
        return Verdict("dead", replace(letter, dead=True), paused=paused)
    return Verdict(
        "retry", letter, max(timedelta(milliseconds=wait), timedelta(seconds=asked)), paused=paused
    )


def leave_alone(state: DeliveryState, error: UnreachableError, now: datetime) -> Verdict:
    """The destination is unreachable: its messages stay where they are, without an attempt used up."""
    if state.breaker.is_quiet:
        return Verdict("unreachable")
    # Its messages are due again at once, so without a rest it would be asked over and over.
    rest = min(max(error.after, SHORTEST_REST), LONGEST_QUIET.total_seconds())
    state.breaker = state.breaker.quiet(rest, now)
    return Verdict("unreachable", paused=rest)


def judge_all(
    state: DeliveryState, rows: Sequence[Row], report: DeliveryReport, now: datetime
) -> Iterator[tuple[Verdict, Exception]]:
    """Decide about the failures of a bulk delivery in the order of the messages.

    A message behind a failed one of its instance was not tried, unless that one is dead. When the destination
    is unreachable and accepted nothing, all stays where it is: what failed by itself is judged next time.
    """
    failures = sorted(report.failed, key=lambda failure: failure[0])
    gone = [error for _, error in failures if isinstance(error, UnreachableError)]
    if gone and not report.delivered:
        yield leave_alone(state, gone[0], now), gone[0]
        return
    behind: set[Key] = set()
    for index, error in failures:
        row = rows[index]
        if key_of(row) not in behind:
            verdict = judge(state, row, error, now, counts=not report.delivered)
            if verdict.kind != "dead":
                behind.add(key_of(row))
            yield verdict, error


def conclude(state: DeliveryState, plan: DeliveryPlan, results: Results, now: datetime) -> Settlement:
    """What to write: the cursor, letters of what has to wait or is dead, and which letters have arrived."""
    new = [row for row in (*results.untried(plan), *plan.queued) if isinstance(row, MessageRow)]
    letters = [letter_of(state.consumer, row) for row in new]
    letters += [replace(letter, due=now + pause) for letter, pause in results.retries.values()]
    letters += (*results.dead.values(), *plan.given_up)
    delivered = [letter.position for letter in plan.due if letter.position in results.delivered]
    return state.settlement(plan.cursor, letters, delivered)


def remember(state: DeliveryState, plan: DeliveryPlan, results: Results) -> None:
    """Bring the backlog up to date when a settlement is written."""
    for letter in plan.due:
        if letter.position in results.delivered or letter.position in results.dead:
            state.backlog.remove(key_of(letter), letter.position)
    for letter, _ in results.retries.values():
        state.backlog.add(key_of(letter), letter.position, letter.attempts)
    for row in (*results.untried(plan), *plan.queued):
        state.backlog.add(key_of(row), row.position, row.attempts if isinstance(row, LetterRow) else 0)


def explain(error: Exception) -> str:
    """What went wrong, printable and short; errors of destinations speak for themselves."""
    said = str(error) if isinstance(error, DeliveryError) else f"{type(error).__name__}: {error}"
    return "".join(char if char.isprintable() else " " for char in said[:LONGEST_ERROR])


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
        walkers = min(self._destination.policy.at_once, len(found))
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
            report.failed += [(place, error) for place in _first_unreported(len(rows), report)]
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
        except Exception as error:  # noqa: BLE001 - an error of one receiver must not stop other messages
            return await self._fail(row, error, results)
        self._tally["delivered"] += 1
        self._succeed()
        results.delivered.add(row.position)
        return True

    async def _hand_over(self, message: Message) -> None:
        """Deliver within the time allowed."""
        allowed = self._destination.policy.timeout
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
        # Read before judging: of several failures at the same time only one starts a pause.
        now = await self._now()
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


def _first_unreported(count: int, report: DeliveryReport) -> list[int]:
    """The first place without a result, if there is one: it may be the cause, the later ones need not be."""
    reported = {*report.delivered, *(place for place, _ in report.failed)}
    return [place for place in range(count) if place not in reported][:1]


def _place(letter: LetterRow) -> tuple[str, str, str]:
    return letter.name, letter.tenant, letter.instance
