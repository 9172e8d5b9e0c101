"""Observes every engine call and every running handler, and keeps the trace of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from headway.engine.orders import Answer, Order, Receipt, answer_text
from headway.statechart.snapshot import Event
from headway.store.rows import Attempt, Key, WorkRow
from headway.testing.simulate.loop import PROCESS
from headway.worker.attempt import RunningAttempt
from headway.worker.work import Work

ENDS = frozenset({"work.done", "work.failed"})
Handler = Callable[[Work], Any]


class Trace:
    """The log of a run: lines with virtual time and source."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._lines: list[tuple[float, str, str]] = []

    def note(self, who: str, what: str) -> None:
        """Add a line."""
        self._lines.append((self._time(), who, what))

    @property
    def lines(self) -> list[str]:
        """All lines as text."""
        return [f"{at:9.4f}  {who:10} {what}" for at, who, what in self._lines]

    @property
    def hash(self) -> str:
        """A hash of all lines: equal for equal runs."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]


class HandlerRun(NamedTuple):
    """A running handler: its process, its attempt, and its worker's clock."""

    process: str
    attempt: Attempt
    running: RunningAttempt
    monotonic: Callable[[], float]
    holds: Callable[[], bool]

    def believes(self) -> bool:
        """Whether its worker believes that it holds the lease."""
        return self.holds() and self.monotonic() < self.running.lease_until


class Witness:
    """Records answers, claims and running handlers, and checks that they do not contradict each other."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self.clocks_agree = True
        """Whether workers and the database see a lease end at the same time."""
        self.restarted: set[Key] = set()
        """Work that an upgrade has restarted: its earlier worker learns it from the next heartbeat."""
        self.runs: list[HandlerRun] = []
        self.claimed: dict[Attempt, str] = {}
        self.receipts: list[tuple[Key, Receipt]] = []
        self.cancelled: dict[tuple[Key, int], None] = {}
        """Instances that were cancelled with their children, with the step of the cancellation."""
        self._answers: dict[Key, str] = {}
        self._fired: Counter[Key] = Counter()
        self._ended: Counter[Attempt] = Counter()
        self._wins: list[tuple[Key, int, int]] = []
        self._places: dict[tuple[Key, int], str] = {}
        self._latest: dict[Key, int] = {}

    # Calls.

    def watch(self, engine: Any) -> None:
        """Record the orders of an engine, and their answers."""
        wait, outcome = engine._wait, engine._outcome  # noqa: SLF001 - all calls go through these
        before: dict[int, int] = {}

        def waits(loop: object, *calls: tuple[Order, object]) -> None:
            before.update((id(order), self._latest.get(order.key, 0)) for order, _ in calls)
            wait(loop, *calls)

        def ended(order: Order) -> Answer | BaseException:
            answer: Answer | BaseException = outcome(order)
            latest = before.pop(id(order), 0)
            if not isinstance(answer, BaseException):
                self._answered(order, answer, latest)
            return answer

        engine._wait, engine._outcome = waits, ended  # noqa: SLF001 - see above

    def _answered(self, order: Order, answer: Answer, latest: int) -> None:
        if order.request_id is not None and (order.keeps_refusals or isinstance(answer, Receipt)):
            self._is_the_first(order, answer)
        if order.cascades and isinstance(answer, Receipt):
            self.cancelled[order.key, answer.seq] = None
        if not isinstance(answer, Receipt) or order.replayed:
            return
        self.receipts.append((order.key, answer))
        self._is_alone(order, answer, latest)
        if isinstance(order.act, Event) and order.act.ref is not None:
            self._belongs(order.key[0], order.act)

    def _is_the_first(self, order: Order, answer: Answer) -> None:
        key = (order.key[0], order.request_id or "")
        text = answer_text(answer)
        if self._answers.setdefault(key, text) != text:
            self._violated(f"the request {key[1]} got two answers: {self._answers[key]} and {text}")

    def _is_alone(self, order: Order, receipt: Receipt, latest: int) -> None:
        """Each step of an instance belongs to one call, and comes after the steps answered before it."""
        name = order.act.name if isinstance(order.act, Event) else type(order.act).__name__
        place = (order.key, receipt.seq)
        if place in self._places:
            self._violated(f"{name} and {self._places[place]} both have step {receipt.seq} of {order.key[1]}")
        self._places[place] = name
        if receipt.seq <= latest:
            self._violated(
                f"{name} has step {receipt.seq} of {order.key[1]}, and step {latest} was answered before"
            )
        self._latest[order.key] = max(self._latest.get(order.key, 0), receipt.seq)
        if order.expected_seq is not None:
            self._wins.append((order.key, order.expected_seq, receipt.seq))

    def check_wins(self) -> None:
        """A call with an expected version ran at that version, and only one call did."""
        winners: Counter[tuple[Key, int]] = Counter()
        for key, expected, seq in self._wins:
            between = [self._places[key, n] for n in range(expected + 1, seq) if (key, n) in self._places]
            winners[key, expected] += 1
            if between or winners[key, expected] > 1:
                self._violated(
                    f"a call expected {key[1]} at step {expected}, but {between or 'another call'} came first"
                )

    def _belongs(self, tenant: str, event: Event) -> None:
        ref = event.ref or ""
        if event.name == "timer":
            self._fired[tenant, ref] += 1
            if self._fired[tenant, ref] > 1:
                self._violated(f"the timer {ref} fired twice")
        elif event.name in ENDS:
            attempt = (tenant, ref, event.attempt)
            self._ended[attempt] += 1
            if self._ended[attempt] > 1:
                self._violated(f"attempt {event.attempt} of {ref} ended twice")
            holder = self.claimed.get(attempt)
            if event.by.kind == "service" and holder != event.by.id:
                self._violated(f"{event.by.id} ended attempt {event.attempt} of {ref}, which {holder} has")

    # Handlers.

    def claims(self, rows: list[WorkRow]) -> None:
        """Record claimed work."""
        for row in rows:
            self.claimed[row.tenant, row.id, row.attempt] = row.worker or ""

    def begins(self, work: Work, monotonic: Callable[[], float]) -> HandlerRun:
        """Record that a handler starts."""
        running, held = work._running, work._parts.attempts.held  # noqa: SLF001 - the check needs the worker's own view
        holds = lambda: held.get(running.key) is running and not running.ending  # noqa: E731 - short
        run = HandlerRun(PROCESS.get(), running.ref.key, running, monotonic, holds)
        self.runs.append(run)
        self.looks(run)
        return run

    def looks(self, run: HandlerRun) -> None:
        """No two workers may believe at once that they hold the lease of the same work."""
        if not self.clocks_agree or run.attempt[:2] in self.restarted or not run.believes():
            return
        for other in self.runs:
            if other is not run and other.attempt[:2] == run.attempt[:2] and other.believes():
                self._violated(
                    f"{run.process} and {other.process} both hold {run.attempt[1]}"
                    f" (attempts {run.attempt[2]} and {other.attempt[2]})"
                )

    def ends(self, run: HandlerRun) -> None:
        """Record that a handler has ended."""
        self.runs.remove(run)

    def gone(self, process: str) -> None:
        """Forget the handlers of a process that was killed."""
        self.runs = [run for run in self.runs if run.process != process]
