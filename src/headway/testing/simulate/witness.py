"""The witness: sees every call to an engine and every handler that runs, and keeps the trace of a run."""

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
    """Lines with the virtual time and whose they are."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._lines: list[tuple[float, str, str]] = []

    def note(self, who: str, what: str) -> None:
        """Something has happened."""
        self._lines.append((self._time(), who, what))

    @property
    def lines(self) -> list[str]:
        """All lines as text."""
        return [f"{at:9.4f}  {who:10} {what}" for at, who, what in self._lines]

    @property
    def hash(self) -> str:
        """The same for two runs only if they are the same."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]


class HandlerRun(NamedTuple):
    """A handler that runs, in a process, until when by its worker's own clock."""

    process: str
    attempt: Attempt
    running: RunningAttempt
    monotonic: Callable[[], float]
    holds: Callable[[], bool]

    def believes(self) -> bool:
        """Whether its worker is sure to have the lease."""
        return self.holds() and self.monotonic() < self.running.lease_until


class Witness:
    """Keeps what was answered, who claimed what, and which handlers run."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self.clocks_agree = True
        """Whether a lease is as long for its worker as for the database."""
        self.begun_anew: set[Key] = set()
        """Work that an upgrade has begun anew: who did it before learns so by the next heartbeat."""
        self.runs: list[HandlerRun] = []
        self.claimed: dict[Attempt, str] = {}
        self.receipts: list[tuple[Key, Receipt]] = []
        self.cancelled: dict[tuple[Key, int], None] = {}
        """Who was cancelled with all its children, and where that has brought it."""
        self._answers: dict[Key, str] = {}
        self._fired: Counter[Key] = Counter()
        self._ended: Counter[Attempt] = Counter()
        self._wins: list[tuple[Key, int, int]] = []
        self._places: dict[tuple[Key, int], str] = {}
        self._latest: dict[Key, int] = {}

    # Calls.

    def watch(self, engine: Any) -> None:
        """See what an engine is asked, alone or among others, and what it answers."""
        wait, outcome = engine._wait, engine._outcome  # noqa: SLF001 - all calls pass there
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
        """Each place in an instance's history belongs to one call, and comes after those answered before."""
        name = order.act.name if isinstance(order.act, Event) else type(order.act).__name__
        place = (order.key, receipt.seq)
        if place in self._places:
            self._violated(f"{name} and {self._places[place]} both brought {order.key[1]} to {receipt.seq}")
        self._places[place] = name
        if receipt.seq <= latest:
            self._violated(f"{name} brought {order.key[1]} to {receipt.seq} after it was at {latest}")
        self._latest[order.key] = max(self._latest.get(order.key, 0), receipt.seq)
        if order.expected_seq is not None:
            self._wins.append((order.key, order.expected_seq, receipt.seq))

    def check_wins(self) -> None:
        """Who expected a version found it: nobody else came between, and nobody else has won with it."""
        winners: Counter[tuple[Key, int]] = Counter()
        for key, expected, seq in self._wins:
            between = [self._places[key, n] for n in range(expected + 1, seq) if (key, n) in self._places]
            winners[key, expected] += 1
            if between or winners[key, expected] > 1:
                self._violated(
                    f"{key[1]} was expected at {expected}, and {between or 'another call'} came first"
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
        """Work was handed out."""
        for row in rows:
            self.claimed[row.tenant, row.id, row.attempt] = row.worker or ""

    def begins(self, work: Work, monotonic: Callable[[], float]) -> HandlerRun:
        """A handler begins."""
        running, held = work._running, work._parts.attempts.held  # noqa: SLF001 - a witness sees everything
        holds = lambda: held.get(running.key) is running and not running.ending  # noqa: E731 - short
        run = HandlerRun(PROCESS.get(), running.ref.key, running, monotonic, holds)
        self.runs.append(run)
        self.looks(run)
        return run

    def looks(self, run: HandlerRun) -> None:
        """Nobody else who does the same work may be sure to have its lease."""
        if not self.clocks_agree or run.attempt[:2] in self.begun_anew or not run.believes():
            return
        for other in self.runs:
            if other is not run and other.attempt[:2] == run.attempt[:2] and other.believes():
                self._violated(
                    f"{run.process} and {other.process} both hold {run.attempt[1]}"
                    f" (attempts {run.attempt[2]} and {other.attempt[2]})"
                )

    def ends(self, run: HandlerRun) -> None:
        """A handler has ended."""
        self.runs.remove(run)

    def gone(self, process: str) -> None:
        """A process is no more, and its handlers with it."""
        self.runs = [run for run in self.runs if run.process != process]
