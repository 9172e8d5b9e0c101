"""Outcomes of deliveries: what becomes of each message, and what to write at the end. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

from headway.codec import Value, replace
from headway.errors import BusyError, DeliveryError, NotHereError, PermanentError, UnreachableError
from headway.outbox.destination import DeliveryReport
from headway.outbox.plan import LONGEST_QUIET, DeliveryPlan, DeliveryState, Row, key_of, letter_of
from headway.store.queries import Settlement
from headway.store.rows import Key, LetterRow, MessageRow

LONGEST_WAIT = timedelta(days=1)
SHORTEST_REST = 1.0
LONGEST_ERROR = 500
NOT_HERE_FIRST, NOT_HERE_LATER = timedelta(seconds=1), timedelta(seconds=10)
"""After so long a message is retried that this node could not deliver, the first time and later."""


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
    retried = (letter for letter, _ in results.retries.values())
    for row in (*results.untried(plan), *retried, *plan.queued):
        state.backlog.add(key_of(row), row.position, row.attempts if isinstance(row, LetterRow) else 0)


def explain(error: Exception) -> str:
    """What went wrong, printable and short; errors of destinations speak for themselves."""
    said = str(error) if isinstance(error, DeliveryError) else f"{type(error).__name__}: {error}"
    return "".join(char if char.isprintable() else " " for char in said[:LONGEST_ERROR])
