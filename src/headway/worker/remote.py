"""Work for workers in other processes, by calls: with the claims, leases and fencing of those in this one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NoReturn

from headway.clock import milliseconds
from headway.codec import Value, as_json, encode
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.engine.service import LOG
from headway.engine.trace import CURRENT, tracing
from headway.errors import (
    EngineError,
    InputError,
    RequestReusedError,
    StoreError,
    TooLargeError,
    UnknownInstanceError,
)
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Actor, Event, Snapshot, work_timed_out
from headway.store.port import Attempt, Claim, WorkQuery
from headway.store.rows import WorkRow
from headway.worker.execute import GONE
from headway.worker.outcomes import BAD_RESULT, REFUSED, Fail, event_of
from headway.worker.remote_workers import RemoteWorkers
from headway.worker.waiting_room import WaitingRoom

LONGEST_WAIT = 30.0
REFUSALS = frozenset({BAD_RESULT, REFUSED})
SYSTEM_ROLE = frozenset({"system"})

Standing = Literal["held", "left", "lost", "timeout"]
"""Go on; or stop: the state was left, the attempt is over or another's, it has taken too long."""


class WorkLostError(EngineError):
    """What a worker says of work that is no longer its own; `standing` tells what became of it."""

    def __init__(self, message: str, standing: Standing) -> None:
        self.standing = standing
        super().__init__(message)


class ResultRefusedError(EngineError):
    """A result was not taken, and so the work has failed; `code` is the error that the chart has heard of."""

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(message)


class Holding(Value):
    """The attempt that a worker speaks of."""

    tenant: str
    worker: str
    id: str
    attempt: int

    @property
    def key(self) -> Attempt:
        """What the store knows it by."""
        return (self.tenant, self.id, self.attempt)

    @property
    def by(self) -> Actor:
        """The worker as the sender of events."""
        return Actor(self.worker, "service", SYSTEM_ROLE)

    def request_id(self, what: str) -> str:
        """The id of a request that comes from this attempt: the same when it comes again."""
        named = encode((what, self.worker, self.id, self.attempt))
        return f"work/{sha256(named).hexdigest()}"


class Item(Value):
    """Work that was claimed, and where its instance stands."""

    row: WorkRow
    snapshot: Snapshot


class Told(Value):
    """How far a worker is (0 to 1), what is to be said of it, and what to add to counters.

    With a `request` what comes twice counts once.
    """

    fraction: float
    data: Mapping[str, Any] = {}
    counters: Mapping[str, int] = {}
    request: str | None = None


class Remote:
    """What workers in other processes can do. The name of a worker is no other worker's."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._store, self._monotonic = engine, engine.store, monotonic
        self._tasks: set[asyncio.Task[None]] = set()
        self.room = WaitingRoom(engine)
        self.workers = RemoteWorkers(monotonic)

    async def claim(self, claim: Claim, wait: float = 0.0) -> Sequence[Item]:
        """Lease work of one tenant; when there is none, wait for it.

        When the call is cancelled, nothing stays claimed.
        """
        await self.room.open()
        self.workers.claims(claim)
        rows: Sequence[WorkRow] = ()
        try:
            rows = await self._wait_for(claim, min(wait, LONGEST_WAIT))
            return await self._items(rows)
        except BaseException:
            self._hand_back(claim.worker, rows)
            raise
        finally:
            self.workers.took(claim, len(rows))

    async def heartbeat(self, holding: Holding, told: Told | None = None) -> Standing:
        """Extend a lease, and pass on what the worker tells; whether it may go on.

        Raises InputError, and as `Engine.send` does, for what cannot be passed on.
        """
        row = await self._row(holding)
        standing = _standing(row, holding)
        if row is None or standing != "held":
            return standing
        if _is_overdue(row, await self._store.now()):
            await self._engine.send(row.tenant, row.instance, work_timed_out(row.id, row.attempt, holding.by))
            return "timeout"
        if not await self._store.extend_leases(holding.worker, [holding.key]):
            return await self._what_became_of(holding)
        return "held" if told is None else await self._pass_on(row, holding, told)

    async def checkpoint(self, holding: Holding, value: object) -> None:
        """Keep how far the work is, for an attempt that may follow; raises WorkLostError and InputError."""
        kept = encode(as_json(value)).decode()
        self.workers.spoke(holding.tenant, holding.worker)
        if not await self._store.checkpoint(holding.worker, holding.key, kept):
            raise _lost(holding, await self._what_became_of(holding))

    async def release(self, holding: Holding, after: str | float = 0) -> None:
        """Hand the same attempt back, for anyone to claim after a while; raises WorkLostError, ValueError."""
        pause = timedelta(milliseconds=milliseconds(after))
        self.workers.spoke(holding.tenant, holding.worker)
        due = await self._store.now() + pause
        if not await self._store.release_work(holding.worker, [holding.key], due):
            raise _lost(holding, await self._what_became_of(holding))
        self.room.call_all()

    async def end(self, holding: Holding, outcome: object) -> Receipt:
        """End an attempt: with a result, a `Fail`, or an event that the chart waits for.

        A repeat gets the first answer. Raises WorkLostError, and ResultRefusedError when the outcome was not
        taken: then the work has failed, as it has with an embedded worker.
        """
        row = await self._row(holding)
        standing = _standing(row, holding)
        if row is not None and standing != "held":
            raise _lost(holding, standing)
        # Work that is gone may have been ended by this very call, when it came the first time.
        instance = holding.id.rsplit(":", 2)[0] if row is None else row.instance
        with tracing(CURRENT.get() or (None if row is None else row.trace)):
            answer = await self._conclude(holding, instance, outcome)
        self.workers.spoke(holding.tenant, holding.worker).ended += 1
        return answer

    async def _conclude(self, holding: Holding, instance: str, outcome: object) -> Receipt:
        try:
            answer = await self._send(holding, instance, event_of(outcome, holding, holding.by))
        except (InputError, TooLargeError) as error:
            await self._refuse(holding, instance, outcome, Fail(BAD_RESULT, str(error)))
        if isinstance(answer, Refusal):
            await self._refuse(holding, instance, outcome, Fail(REFUSED, answer.message))
        return answer

    async def _refuse(self, holding: Holding, instance: str, outcome: object, failed: Fail) -> NoReturn:
        """Let work fail whose outcome was not taken."""
        if not (isinstance(outcome, Fail) and outcome.code in REFUSALS):
            await self._send(holding, instance, event_of(failed, holding, holding.by))
        raise ResultRefusedError(failed.message, failed.code)

    async def _send(self, holding: Holding, instance: str, event: Event) -> Receipt | Refusal:
        """Send what ends an attempt; raises WorkLostError when it is over."""
        refused = (
            event.name == "work.failed"
            and isinstance(event.data, dict)
            and event.data.get("code") in REFUSALS
        )
        request_id = holding.request_id("refused" if refused else "end")
        try:
            answer = await self._engine.send(
                holding.tenant, instance, event, request_id=request_id, keeps_refusals=False
            )
        except (UnknownInstanceError, RequestReusedError):
            raise _lost(holding, "left") from None
        if isinstance(answer, Refusal) and answer.code in GONE:
            raise _lost(holding, await self._what_became_of(holding))
        return answer

    async def _pass_on(self, row: WorkRow, holding: Holding, told: Told) -> Standing:
        data = {**told.data, "fraction": told.fraction, **_eta(row, told.fraction, await self._store.now())}
        if told.counters:
            data["counters"] = dict(told.counters)
        request_id = None if told.request is None else holding.request_id(f"progress/{told.request}")
        event = Event("work.progress", data, holding.by, row.id, row.attempt)
        answer = await self._engine.send(row.tenant, row.instance, event, request_id=request_id)
        if not isinstance(answer, Refusal):
            return "held"
        if answer.code in GONE:
            return await self._what_became_of(holding)
        raise InputError(answer.message)

    async def _wait_for(self, claim: Claim, seconds: float) -> Sequence[WorkRow]:
        until = self._monotonic() + seconds
        with self.room.enter(claim) as waiting:
            while True:
                waiting.called.clear()
                rows = await self._lease(claim)
                left = until - self._monotonic()
                if rows or left <= 0:
                    break
                await waiting.wait(left)
        if len(rows) == claim.limit:
            self.room.call_next(waiting.line)
        return rows

    async def _lease(self, claim: Claim) -> Sequence[WorkRow]:
        """Claim; what is claimed for somebody who has gone meanwhile is handed back."""
        claiming = asyncio.ensure_future(self._store.claim_work(claim))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            self._keep(self._hand_back_later(claim.worker, claiming))
            raise

    async def _hand_back_later(self, worker: str, claiming: asyncio.Future[Sequence[WorkRow]]) -> None:
        try:
            rows = await claiming
        except StoreError as error:
            LOG.warning("a claim of %s, who has gone, has failed: %s", worker, error)
            return
        self._hand_back(worker, rows)

    def _hand_back(self, worker: str, rows: Sequence[WorkRow]) -> None:
        if rows:
            self._keep(self._release([(row.tenant, row.id, row.attempt) for row in rows], worker))

    async def _release(self, attempts: Sequence[Attempt], worker: str) -> None:
        try:
            await self._store.release_work(worker, attempts)
        except StoreError as error:
            LOG.warning("%s attempts could not be handed back: %s", len(attempts), error)
        self.room.call_all()

    def _keep(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _items(self, rows: Sequence[WorkRow]) -> Sequence[Item]:
        """What was claimed; not that of an instance that is gone, which nobody waits for."""
        items = []
        for row in rows:
            try:
                items.append(Item(row=row, snapshot=await self._engine.get(row.tenant, row.instance)))
            except UnknownInstanceError:
                LOG.warning("%s has no instance", row.id)
        return items

    async def _row(self, holding: Holding) -> WorkRow | None:
        self.workers.spoke(holding.tenant, holding.worker)
        found = await self._store.work(WorkQuery(tenant=holding.tenant, ids=(holding.id,)))
        return found[0] if found else None

    async def _what_became_of(self, holding: Holding) -> Standing:
        standing = _standing(await self._row(holding), holding)
        return "lost" if standing == "held" else standing


def _standing(row: WorkRow | None, holding: Holding) -> Standing:
    if row is None:
        return "left"
    return "held" if (row.worker, row.attempt) == (holding.worker, holding.attempt) else "lost"


def _lost(holding: Holding, standing: Standing) -> WorkLostError:
    message = f"attempt {holding.attempt} of {holding.id} is not with this worker any more"
    return WorkLostError(message, standing)


def _is_overdue(row: WorkRow, now: datetime) -> bool:
    if row.timeout is None or row.started_at is None:
        return False
    return now - row.started_at > timedelta(milliseconds=row.timeout)


def _eta(row: WorkRow, fraction: float, now: datetime) -> dict[str, float]:
    """Seconds until the end when it goes on as so far; nothing when an earlier attempt did a part of it."""
    if row.started_at is None or row.checkpoint is not None or not fraction:
        return {}
    return {"eta_seconds": round((now - row.started_at).total_seconds() * (1 - fraction) / fraction, 1)}
