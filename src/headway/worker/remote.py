"""The calls of remote workers: they claim, extend, checkpoint, release and end attempts over HTTP.

Claims, leases and fencing are those of the workers in this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from headway.clock import milliseconds
from headway.codec import Scratch, Value, decode, encode, require_depth
from headway.engine.engine import LONGEST_NAME, Engine
from headway.engine.orders import CURRENT, HOUR, Answer, Receipt, parent_named, tracing
from headway.engine.requests import Request, run_once
from headway.engine.service import LOG
from headway.errors import EngineError, InputError, ResultRefusedError, StoreError, WorkLostError
from headway.statechart.snapshot import Event, Snapshot, work_timed_out
from headway.store.queries import Claim
from headway.store.rows import Attempt, InstanceRow, Version, WorkRow
from headway.store.unit import ClaimWork, Command, LookUpInstances
from headway.worker.attempt import (
    REFUSAL_CODES,
    AttemptRef,
    Fail,
    LeaseStatus,
    conclude,
    find_work,
    lease_status,
    progress_event,
    release,
    save_checkpoint,
    send_progress,
)
from headway.worker.progress import ProgressReport, remaining
from headway.worker.waiting_claims import WaitingClaims

T = TypeVar("T")
LONGEST_WAIT = 30.0
FORGOTTEN_AFTER = 300.0
MOST_WORKERS = 10_000
UNREADABLE = "unreadable"
"""The error code of work whose context or checkpoint cannot be sent to a worker."""


class ClaimedWork(Value):
    """A work item that was claimed, and the snapshot of its instance."""

    row: WorkRow
    snapshot: Snapshot


class ClaimResult(Value):
    """What was claimed: the items for the worker, and those that cannot be sent to it, with the reason."""

    items: Sequence[ClaimedWork] = ()
    unreadable: Sequence[tuple[WorkRow, InputError]] = ()


class RemoteWorker(Scratch):
    """A remote worker, what it claims, and when it last called, by the monotonic clock of this process."""

    tenant: str
    name: str
    seen_at: float
    queues: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    waiting: bool = False
    claimed: int = 0
    ended: int = 0


class RemoteWorkers:
    """The remote workers that have called this process in the last minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], RemoteWorker] = {}

    def of(self, tenant: str) -> Sequence[RemoteWorker]:
        """The workers of a tenant; the one that called last comes first."""
        self._forget()
        return sorted(
            (worker for worker in self._known.values() if worker.tenant == tenant),
            key=lambda worker: -worker.seen_at,
        )

    def claim_begun(self, claim: Claim) -> None:
        """A worker asks for work."""
        worker = self.seen(claim.tenants[0], claim.worker)
        worker.queues, worker.handlers, worker.waiting = claim.queues, claim.handlers, True

    def claim_ended(self, claim: Claim, count: int) -> None:
        """A worker has its answer."""
        worker = self.seen(claim.tenants[0], claim.worker)
        worker.waiting = False
        worker.claimed += count

    def seen(self, tenant: str, name: str) -> RemoteWorker:
        """A worker has called."""
        worker = self._known.pop((tenant, name), None) or RemoteWorker(tenant, name, 0.0)
        worker.seen_at = self._monotonic()
        self._known[tenant, name] = worker
        if len(self._known) > MOST_WORKERS:
            self._known.pop(next(iter(self._known)))
        return worker

    def _forget(self) -> None:
        """Drop old workers; they are in the order of their last call."""
        too_old = self._monotonic() - FORGOTTEN_AFTER
        for key, worker in [*self._known.items()]:
            if worker.seen_at > too_old:
                break
            if not worker.waiting:
                del self._known[key]


class Remote:
    """What remote workers can call. No two workers at a time have the same id."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._store, self._monotonic = engine, engine.store, monotonic
        self._tasks: set[asyncio.Task[None]] = set()
        self.waiting = WaitingClaims(engine)
        self.workers = RemoteWorkers(monotonic)

    def versions(self, known: Mapping[str, Collection[int]] | None) -> tuple[Version, ...]:
        """The chart versions whose work a worker gets: those of this node that it knows; all if None."""
        here = self._engine.charts.versions
        if known is None:
            return here
        return tuple((chart, version) for chart, version in here if version in known.get(chart, ()))

    async def claim(self, claim: Claim, wait: float = 0.0) -> Sequence[ClaimedWork]:
        """Lease work of one tenant; if there is none, wait for it.

        When the call is cancelled, nothing stays claimed.
        """
        await self.waiting.listen()
        self.workers.claim_begun(claim)
        rows: Sequence[WorkRow] = ()
        try:
            rows = await self._wait_for(claim, wait, lambda _: self._lease(claim))
            return await self._read(rows, claim.worker)
        except BaseException:
            self._release_later(claim.worker, rows)
            raise
        finally:
            self.workers.claim_ended(claim, len(rows))

    async def claim_once(
        self, claim: Claim, wait: float, request: Request, answer: Callable[[Sequence[ClaimedWork]], str]
    ) -> str | None:
        """As `claim`, with an idempotency key: the leases and the stored answer are one transaction.

        Returns the stored answer; a repeat gets the same, and leases nothing. When the call is cancelled,
        what it has leased is kept for its repeat. Raises RequestReusedError.
        """
        await self.waiting.listen()
        self.workers.claim_begun(claim)
        result = ClaimResult()

        def script(*, is_last: bool) -> Generator[Command, Any, str | None]:
            nonlocal result
            rows: Sequence[WorkRow] = yield ClaimWork(claim)
            found = yield LookUpInstances(tuple({(row.tenant, row.instance): None for row in rows}))
            result = _read(rows, found)
            return answer(result.items) if rows or is_last else None

        async def lease(is_last: bool) -> Sequence[ClaimedWork] | None:  # noqa: FBT001 - called by position
            nonlocal result
            await run_once(self._store, request, partial(script, is_last=is_last), HOUR)
            if request.is_repeat:
                result = ClaimResult()
            return None if request.answer is None else result.items

        try:
            await self._wait_for(claim, wait, lease)
            await self._fail_unreadable(result, claim.worker)
        finally:
            self.workers.claim_ended(claim, len(result.items))
        return request.answer

    async def heartbeat(
        self, ref: AttemptRef, report: ProgressReport | None = None, request_id: str | None = None
    ) -> LeaseStatus:
        """Extend a lease and send the progress; the answer says whether the worker may continue.

        A report that is repeated with the same request id counts once. Raises InputError if the chart
        refuses the progress, and what `Engine.send` raises.
        """
        row = await self._find(ref)
        status = lease_status(ref, row)
        if row is None or status != "held":
            return status
        if _is_overdue(row, await self._store.now()):
            await self._engine.send(row.tenant, row.instance, work_timed_out(row.id, row.attempt, ref.by))
            return "timeout"
        if not await self._store.work.extend(ref.worker, [ref.key]):
            return await self._what_became_of(ref)
        if report is None:
            return "held"
        event = progress_event(ref, report, _eta(row, report.fraction, await self._store.now()))
        own = None if request_id is None else ref.request_id(f"progress/{request_id}")
        if await send_progress(self._engine, (row.tenant, row.instance), event, own):
            return "held"
        return await self._what_became_of(ref)

    async def checkpoint(self, ref: AttemptRef, value: object) -> None:
        """Store how far the work is, for the next attempt; raises WorkLostError and InputError."""
        self._seen(ref)
        if not await save_checkpoint(self._store, ref, value):
            raise _lost(ref, await self._what_became_of(ref))

    async def release(self, ref: AttemptRef, after: str | float = 0) -> None:
        """Let any worker claim the same attempt after a while; raises WorkLostError, ValueError."""
        pause = timedelta(milliseconds=milliseconds(after))
        self._seen(ref)
        if not await release(self._store, ref, pause):
            raise _lost(ref, await self._what_became_of(ref))
        self.waiting.wake_all()

    async def end(self, ref: AttemptRef, outcome: object) -> Receipt:
        """End an attempt: with a result, a `Fail`, or an event that the chart waits for.

        A repeat gets the first answer. Raises WorkLostError, and ResultRefusedError if the outcome was not
        accepted: then the work has failed, as it does with an embedded worker.
        """
        row = await self._find(ref)
        status = lease_status(ref, row)
        if row is not None and status != "held":
            raise _lost(ref, status)
        # If there is no such work, this very call may have ended it when it came for the first time.
        instance = parent_named(ref.id) if row is None else row.instance
        if instance is None or len(instance) > LONGEST_NAME:
            raise _lost(ref, "left")  # no work has such an id
        with tracing(CURRENT.get() or (None if row is None else row.trace)):
            receipt = await self._conclude(ref, instance, outcome)
        self._seen(ref).ended += 1
        return receipt

    async def _conclude(self, ref: AttemptRef, instance: str, outcome: object) -> Receipt:
        async def send(event: Event) -> Answer:
            # The failure of a refused outcome is another request than the outcome itself.
            request_id = ref.request_id("refused" if _is_refusal(event) else "end")
            return await self._engine.send(
                ref.tenant, instance, event, request_id=request_id, keeps_refusals=False
            )

        conclusion = await conclude(ref, outcome, send)
        if conclusion.failure is not None:
            raise ResultRefusedError(conclusion.failure.message, conclusion.failure.code)
        if conclusion.receipt is None:
            raise _lost(ref, await self._what_became_of(ref))
        return conclusion.receipt

    async def _wait_for(
        self, claim: Claim, seconds: float, lease: Callable[[bool], Awaitable[Sequence[T] | None]]
    ) -> Sequence[T]:
        """Call `lease` until it does not return None; its argument is whether this is the last call."""
        until = self._monotonic() + min(seconds, LONGEST_WAIT)
        with self.waiting.enter(claim) as waiting:
            while True:
                waiting.woken.clear()
                left = until - self._monotonic()
                rows = await lease(left <= 0)
                if rows is not None or left <= 0:
                    break
                await waiting.wait(left)
        if rows is not None and len(rows) == claim.limit:
            self.waiting.wake_next(waiting.line)
        return rows or ()

    async def _lease(self, claim: Claim) -> Sequence[WorkRow] | None:
        """Claim, None for nothing; what is claimed for a caller who has gone meanwhile is released."""
        claiming = asyncio.ensure_future(self._store.work.claim(claim))
        try:
            return await asyncio.shield(claiming) or None
        except asyncio.CancelledError:
            self._spawn(self._release_claimed(claim.worker, claiming))
            raise

    async def _release_claimed(self, worker: str, claiming: asyncio.Future[Sequence[WorkRow]]) -> None:
        try:
            rows = await claiming
        except StoreError as error:
            LOG.warning("a claim of %s, who has gone, has failed: %s", worker, error)
            return
        self._release_later(worker, rows)

    def _release_later(self, worker: str, rows: Sequence[WorkRow]) -> None:
        if rows:
            self._spawn(self._release([(row.tenant, row.id, row.attempt) for row in rows], worker))

    async def _release(self, attempts: Sequence[Attempt], worker: str) -> None:
        try:
            await self._store.work.release(worker, attempts)
        except StoreError as error:
            LOG.warning("%s attempts could not be released: %s", len(attempts), error)
        self.waiting.wake_all()

    def _spawn(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, rows: Sequence[WorkRow], worker: str) -> Sequence[ClaimedWork]:
        """What was claimed, except for what cannot be read: that fails, the rest is returned."""
        if not rows:
            return ()
        result = _read(
            rows, await self._store.instances.look_up({(row.tenant, row.instance) for row in rows})
        )
        await self._fail_unreadable(result, worker)
        return result.items

    async def _fail_unreadable(self, result: ClaimResult, worker: str) -> None:
        """Fail attempts that cannot be sent to a worker; if even that fails, they are left to the rescue."""
        for row, error in result.unreadable:
            LOG.error("%s cannot be sent to a worker: %s", row.id, error)
            ref = AttemptRef(tenant=row.tenant, worker=worker, id=row.id, attempt=row.attempt)
            try:
                await self._conclude(ref, row.instance, Fail(UNREADABLE, str(error)))
            except (EngineError, InputError) as left:
                LOG.warning("%s stays leased until its lease expires: %s", ref.id, left)

    def _seen(self, ref: AttemptRef) -> RemoteWorker:
        return self.workers.seen(ref.tenant, ref.worker)

    async def _find(self, ref: AttemptRef) -> WorkRow | None:
        self._seen(ref)
        return await find_work(self._store, ref)

    async def _what_became_of(self, ref: AttemptRef) -> LeaseStatus:
        """Why an attempt is over."""
        status = lease_status(ref, await self._find(ref))
        return "lost" if status == "held" else status


def _read(rows: Sequence[WorkRow], found: Sequence[InstanceRow]) -> ClaimResult:
    """Work with the snapshots of its instances, except for instances that are gone."""
    stored = {(row.tenant, row.id): row.snapshot for row in found}
    items: list[ClaimedWork] = []
    unreadable: list[tuple[WorkRow, InputError]] = []
    for row in rows:
        text = stored.get((row.tenant, row.instance))
        if text is None:
            LOG.warning("%s has no instance", row.id)
            continue
        try:
            items.append(_claimed_work(row, text))
        except InputError as error:
            unreadable.append((row, error))
    return ClaimResult(items=items, unreadable=unreadable)


def _claimed_work(row: WorkRow, text: str) -> ClaimedWork:
    """What a worker gets; raises InputError if it is nested too deep for an answer."""
    snapshot = decode(Snapshot, text)
    require_depth(encode(snapshot.context))
    require_depth((row.checkpoint or "").encode())
    return ClaimedWork(row=row, snapshot=snapshot)


def _is_refusal(event: Event) -> bool:
    data = event.data
    return event.name == "work.failed" and isinstance(data, dict) and data.get("code") in REFUSAL_CODES


def _lost(ref: AttemptRef, status: LeaseStatus) -> WorkLostError:
    return WorkLostError(f"attempt {ref.attempt} of {ref.id} is not with this worker any more", status)


def _is_overdue(row: WorkRow, now: datetime) -> bool:
    if row.timeout is None or row.started_at is None:
        return False
    return now - row.started_at > timedelta(milliseconds=row.timeout)


def _eta(row: WorkRow, fraction: float, now: datetime) -> float | None:
    """Seconds until the end at the rate so far; None if an earlier attempt did a part of it."""
    if row.started_at is None or row.checkpoint is not None:
        return None
    return remaining((now - row.started_at).total_seconds(), fraction)
