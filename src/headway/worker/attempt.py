"""An attempt at a work item: who holds its lease, what it reports, its outcome, and how it ends.

Workers in this process (execution.py) and remote workers (remote.py) end their attempts here.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from math import inf
from typing import Any, Literal, NamedTuple, TypeGuard

from headway.clock import milliseconds
from headway.codec import Value, as_json, encode, replace
from headway.engine.engine import Engine
from headway.engine.orders import Answer, Receipt
from headway.errors import InputError, RequestReusedError, TooLargeError, UnknownInstanceError, shown
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.statechart.types import plain
from headway.store.port import Store
from headway.store.queries import WorkQuery
from headway.store.rows import Attempt, Key, WorkRow
from headway.worker.progress import Progress, ProgressReport

LONGEST_MESSAGE = 500
SOONEST_AGAIN = timedelta(milliseconds=100)
"""A handler that always returns `Again` must not keep its worker and the database busy."""

WORD = re.compile(r"[A-Za-z_][\w-]{0,99}", re.ASCII)
PLAIN = frozenset({type(None), bool, int, str})
BAD_RESULT = "bad_result"
REFUSED = "refused"
SYSTEM_ROLE = frozenset({"system"})
REFUSAL_CODES = (BAD_RESULT, REFUSED)
"""Error codes of work whose outcome the engine did not accept."""
OVER_CODES = frozenset({"stale", "terminal", "late"})
"""Codes of refusals which say that the attempt, or its whole instance, has already ended."""

LeaseStatus = Literal["held", "left", "lost", "timeout"]
"""Continue; or stop: the state was left, the lease expired or was taken over, the attempt timed out."""
StopReason = Literal["timeout", "lost", "left", "drain"]
"""Why a handler is stopped: a timeout, a lost lease, a state that was left, a worker that ends."""
OBSOLETE: frozenset[StopReason | None] = frozenset({"lost", "left"})
"""Reasons after which nothing that the attempt reports is of interest."""


class Done(Value, kw_only=False):
    """The work is done; a handler may return the result itself instead."""

    result: Any = None


class Again:
    """The work has not failed, but has to be tried again later: the same attempt, by any worker.

    It is tried again after 100 ms at the earliest.
    """

    __slots__ = ("after",)

    def __init__(self, after: str | float | timedelta = "1s") -> None:
        """Raises ValueError if `after` is no duration ("30s", seconds, a timedelta)."""
        self.after = max(timedelta(milliseconds=milliseconds(after)), SOONEST_AGAIN)


class Fail:
    """The attempt has failed with an error code; the chart says whether there is another one."""

    __slots__ = ("code", "details", "message")

    def __init__(self, code: str, message: str = "", **details: object) -> None:
        """Raises ValueError for a code that is not a word."""
        if not _is_word(code):
            raise ValueError(f"an error code is a word, not {shown(code)}")
        self.code = code
        self.message = message[:LONGEST_MESSAGE]
        self.details = details


def failure(error: BaseException) -> Fail:
    """An exception as a failure: its `code` and `details`, else its class name; never its traceback."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    failed = Fail(code if _is_word(code) else _class_name(error), _text(error))
    if isinstance(details, Mapping):
        failed.details = {str(name): value for name, value in details.items()}
    return failed


def event_of(outcome: object, attempt: AttemptRef) -> Event:
    """The event that ends an attempt with an outcome; raises InputError for a result that is not JSON."""
    if isinstance(outcome, Event):
        sender = attempt.by if outcome.by == SYSTEM else outcome.by
        return replace(outcome, by=sender, ref=attempt.id, attempt=attempt.attempt)
    if isinstance(outcome, Fail):
        data = {**_details(outcome), "code": outcome.code, "message": outcome.message}
        return Event("work.failed", data, attempt.by, attempt.id, attempt.attempt)
    result = outcome.result if isinstance(outcome, Done) else outcome
    kept = result if type(result) in PLAIN else as_json(plain(result))
    return Event("work.done", kept, attempt.by, attempt.id, attempt.attempt)


def _details(failed: Fail) -> dict[str, Any]:
    """The details as JSON, or as text if they are not JSON: the code must arrive in any case."""
    if not failed.details:
        return {}
    try:
        kept: dict[str, Any] = as_json(failed.details)
    except InputError:
        return {name: shown(value) for name, value in failed.details.items()}
    return kept


def _is_word(code: object) -> TypeGuard[str]:
    return isinstance(code, str) and WORD.fullmatch(code) is not None


def _class_name(error: BaseException) -> str:
    name = type(error).__name__
    return name if _is_word(name) else "Exception"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception may be of any class
        return shown(error)


def worker_id(*names: str) -> str:
    """The id under which a worker holds leases, as `actor/worker`; different names never give the same id."""
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


class AttemptRef(Value):
    """One attempt at a work item, and the worker that claimed it."""

    tenant: str
    worker: str
    id: str
    attempt: int

    @property
    def key(self) -> Attempt:
        """Its key in the store."""
        return (self.tenant, self.id, self.attempt)

    @property
    def by(self) -> Actor:
        """The worker as the sender of events."""
        return Actor(self.worker, "service", SYSTEM_ROLE)

    def request_id(self, purpose: str) -> str:
        """The id of a request about this attempt: the same if the request is repeated."""
        named = encode((purpose, self.worker, self.id, self.attempt))
        return f"work/{sha256(named).hexdigest()}"


# The end of an attempt.

Send = Callable[[Event], Awaitable[Answer | None]]
"""Sends the event that ends an attempt; None if this worker no longer has to end it."""


class Conclusion(NamedTuple):
    """How the engine took the end of an attempt.

    `accepted`: as it is. `refused`: the work failed with `failure` instead. `stuck`: neither the outcome nor
    a failure was accepted. `over`: the attempt had ended before. `elsewhere`: not this worker's to end.
    """

    end: Literal["accepted", "refused", "stuck", "over", "elsewhere"]
    receipt: Receipt | None = None
    failure: Fail | None = None


async def conclude(ref: AttemptRef, outcome: object, send: Send) -> Conclusion:
    """End an attempt with an outcome; if the engine does not accept it, the work fails with a code.

    Raises what `send` raises, except for errors that are about the outcome.
    """
    failure: Fail | None = None
    while True:
        try:
            answer = await send(event_of(outcome, ref))
        except (InputError, TooLargeError) as error:
            refused = Fail(BAD_RESULT, str(error))
        except (UnknownInstanceError, RequestReusedError):
            return Conclusion("over")
        else:
            if answer is None:
                return Conclusion("elsewhere")
            if isinstance(answer, Receipt):
                return Conclusion("accepted" if failure is None else "refused", answer, failure)
            if answer.code in OVER_CODES:
                return Conclusion("over")
            refused = Fail(REFUSED, answer.message)
        if isinstance(outcome, Fail) and outcome.code in REFUSAL_CODES:
            return Conclusion("stuck", failure=failure or refused)
        outcome = failure = refused


async def release(store: Store, ref: AttemptRef, after: timedelta = timedelta()) -> bool:
    """Let any worker claim the same attempt after a while; False if this worker did not hold it."""
    due = await store.now() + after
    return bool(await store.work.release(ref.worker, [ref.key], due))


# What an attempt reports before its end.


def progress_event(ref: AttemptRef, report: ProgressReport, eta: float | None) -> Event:
    """The event that reports progress to the instance."""
    data: dict[str, Any] = {**report.data, "fraction": report.fraction}
    if report.counters:
        data["counters"] = dict(report.counters)
    if eta is not None:
        data["eta_seconds"] = round(eta, 1)
    return Event("work.progress", data, ref.by, ref.id, ref.attempt)


async def send_progress(engine: Engine, key: Key, event: Event, request_id: str | None) -> bool:
    """Send progress to an instance; False if the attempt is over. Raises InputError if it is refused."""
    answer = await engine.send(*key, event, request_id=request_id)
    if isinstance(answer, Receipt):
        return True
    if answer.code in OVER_CODES:
        return False
    raise InputError(answer.message)


async def save_checkpoint(store: Store, ref: AttemptRef, value: object) -> bool:
    """Store a checkpoint for the next attempt; False if the lease is lost. Raises InputError if not JSON."""
    return await store.work.checkpoint(ref.worker, ref.key, encode(as_json(value)).decode())


def lease_status(ref: AttemptRef, row: WorkRow | None) -> LeaseStatus:
    """Whether a worker holds the lease of an attempt, by the stored work item."""
    if row is None:
        return "left"
    return "held" if (row.worker, row.attempt) == (ref.worker, ref.attempt) else "lost"


async def find_work(store: Store, ref: AttemptRef) -> WorkRow | None:
    """The stored work item of an attempt; None if its state was left."""
    found = await store.work.page(WorkQuery(tenant=ref.tenant, ids=(ref.id,)))
    return found[0] if found else None


# Attempts whose handlers run in this process.


class RunningAttempt:
    """An attempt whose handler runs here: its task, and its deadline by the monotonic clock."""

    __slots__ = (
        "beat_at",
        "begun",
        "cancelled",
        "deadline",
        "ending",
        "given_up",
        "in_thread",
        "instance",
        "key",
        "lease_until",
        "progress",
        "ref",
        "resource_lost",
        "row",
        "started",
        "task",
        "thread",
    )

    def __init__(self, row: WorkRow, worker: str, *, in_thread: bool, claimed: float, now: float) -> None:
        """`claimed` is a time before the claim: the lease counts from there, so it never seems longer."""
        self.row = row
        self.key: Key = (row.tenant, row.id)
        self.instance: Key = (row.tenant, row.instance)
        self.ref = AttemptRef(tenant=row.tenant, worker=worker, id=row.id, attempt=row.attempt)
        self.in_thread = in_thread
        self.begun = now
        self.lease_until = claimed + row.lease / 1_000
        self.beat_at = claimed + row.heartbeat / 1_000
        self.deadline = inf if row.timeout is None else now + row.timeout / 1_000
        self.cancelled: StopReason | None = None
        self.started = False
        self.ending = False
        self.given_up = False
        self.resource_lost = False
        self.progress: Progress | None = None
        self.task: asyncio.Task[None] | None = None
        self.thread: asyncio.Future[Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether its task has ended."""
        return self.task is not None and self.task.done()


class RunningAttempts:
    """All attempts of a worker.

    `held` are those whose lease it has, `lingering` those that are over but whose code has not ended yet.
    """

    def __init__(self, capacity: int, tally: Counter[str]) -> None:
        self.capacity = capacity
        self.held: dict[Key, RunningAttempt] = {}
        self.lingering: set[RunningAttempt] = set()
        self.tally = tally
        self.watcher: Callable[[RunningAttempt], object] = lambda _: None
        """Called with each attempt that has ended, and made room for another."""

    @property
    def room(self) -> int:
        """How many more fit."""
        return self.capacity - len(self.held) - len(self.lingering)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that have not ended."""
        everything = (*self.held.values(), *self.lingering)
        return [running.task for running in everything if running.task and not running.task.done()]

    def add(self, running: RunningAttempt) -> None:
        """Add an attempt; an earlier one at the same work item is over."""
        earlier = self.held.get(running.key)
        if earlier is not None:
            self.cancel(earlier, "lost")
            self.let_linger(earlier)
        self.held[running.key] = running

    def cancel(self, running: RunningAttempt, reason: StopReason) -> None:
        """Stop a handler; nothing happens if it has ended and its outcome is being sent."""
        first = running.cancelled is None
        if running.ending or not (first or (running.cancelled == "drain" and reason in OBSOLETE)):
            return
        running.cancelled = reason
        if reason in OBSOLETE:
            self.let_linger(running)
        # A thread may finish its work during a drain; a task that has not begun looks at `cancelled` itself.
        may_end = running.in_thread and reason == "drain"
        if running.task and running.started and (first or running.in_thread) and not may_end:
            running.task.cancel(reason)

    def let_linger(self, running: RunningAttempt) -> None:
        """The attempt is over; it uses capacity until its code has ended."""
        if self.held.get(running.key) is running:
            del self.held[running.key]
            self.lingering.add(running)

    def end(self, running: RunningAttempt) -> None:
        """The task of an attempt has ended; a thread that still runs keeps using capacity."""
        if running.thread is not None and not running.thread.done():
            self.let_linger(running)
            running.thread.add_done_callback(lambda _: self._remove(running))
        else:
            self._remove(running)

    def _remove(self, running: RunningAttempt) -> None:
        self.lingering.discard(running)
        if self.held.get(running.key) is running:
            del self.held[running.key]
        self.watcher(running)
