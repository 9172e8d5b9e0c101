"""Work for workers in other processes, by calls: with the claims, leases and fencing of those in this one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NoReturn, TypeVar

from headway.clock import milliseconds
from headway.codec import Value, as_json, decode, encode, require_depth
from headway.engine.engine import LONGEST_NAME, Engine
from headway.engine.once import Request, run_once
from headway.engine.orders import HOUR, Receipt, parent_named
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
from headway.store.commands import ClaimWork, Command, LookUpInstances
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import Attempt, InstanceRow, Version, WorkRow
from headway.worker.execute import GONE
from headway.worker.outcomes import BAD_RESULT, REFUSED, Fail, event_of
from headway.worker.remote_workers import RemoteWorkers
from headway.worker.waiting_room import WaitingRoom

T = TypeVar("T")
LONGEST_WAIT = 30.0
REFUSALS = frozenset({BAD_RESULT, REFUSED})
UNREADABLE = "unreadable"
"""The error code of work whose context or checkpoint cannot be sent to a worker."""
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


class Handout(Value):
    """What was claimed: the items for the worker, and the work that cannot be read, each with the reason."""

    items: Sequence[Item] = ()
    unreadable: Sequence[tuple[WorkRow, InputError]] = ()


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

    def versions(self, known: Mapping[str, Collection[int]] | None) -> tuple[Version, ...]:
        """The versions whose work a worker gets: those this node knows, if it says so only those it knows."""
        here = self._engine.charts.versions
        if known is None:
            return here
        return tuple((chart, version) for chart, version in here if version in known.get(chart, ()))

    async def claim(self, claim: Claim, wait: float = 0.0) -> Sequence[Item]:
        """Lease work of one tenant; when there is none, wait for it.

        When the call is cancelled, nothing stays claimed.
        """
        await self.room.open()
        self.workers.claims(claim)
        rows: Sequence[WorkRow] = ()
        try:
            rows = await self._wait_for(claim, wait, lambda _: self._lease(claim))
            return await self._items(rows, claim.worker)
        except BaseException:
            self._hand_back(claim.worker, rows)
            raise
        finally:
            self.workers.took(claim, len(rows))

    async def claim_once(
        self, claim: Claim, wait: float, request: Request, answer: Callable[[Sequence[Item]], str]
    ) -> str | None:
        """As `claim`, for a request with a key: leases and the answer that is kept are one transaction.

        Answers what is kept; a repeat gets the same, and leases nothing. When the call is cancelled, what it
        has leased is for its repeat. Raises RequestReusedError.
        """
        await self.room.open()
        self.workers.claims(claim)
        handout = Handout()

        def script(*, is_last: bool) -> Generator[Command, Any, str | None]:
            nonlocal handout
            rows: Sequence[WorkRow] = yield ClaimWork(claim)
            found = yield LookUpInstances(tuple({(row.tenant, row.instance): None for row in rows}))
            handout = _handout(rows, found)
            return answer(handout.items) if rows or is_last else None

        async def lease(is_last: bool) -> Sequence[Item] | None:  # noqa: FBT001 - called by position
            nonlocal handout
            await run_once(self._store, request, partial(script, is_last=is_last), HOUR)
            if request.is_repeat:
                handout = Handout()
            return None if request.answer is None else handout.items

        try:
            await self._wait_for(claim, wait, lease)
            await self._fail_unreadable(handout, claim.worker)
        finally:
            self.workers.took(claim, len(handout.items))
        return request.answer

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
        if not await self._store.work.extend(holding.worker, [holding.key]):
            return await self._what_became_of(holding)
        return "held" if told is None else await self._pass_on(row, holding, told)

    async def checkpoint(self, holding: Holding, value: object) -> None:
        """Keep how far the work is, for an attempt that may follow; raises WorkLostError and InputError."""
        kept = encode(as_json(value)).decode()
        self.workers.spoke(holding.tenant, holding.worker)
        if not await self._store.work.checkpoint(holding.worker, holding.key, kept):
            raise _lost(holding, await self._what_became_of(holding))

    async def release(self, holding: Holding, after: str | float = 0) -> None:
        """Hand the same attempt back, for anyone to claim after a while; raises WorkLostError, ValueError."""
        pause = timedelta(milliseconds=milliseconds(after))
        self.workers.spoke(holding.tenant, holding.worker)
        due = await self._store.now() + pause
        if not await self._store.work.release(holding.worker, [holding.key], due):
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
        instance = parent_named(holding.id) if row is None else row.instance
        if instance is None or len(instance) > LONGEST_NAME:
            raise _lost(holding, "left")  # no work has such an id
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

    async def _wait_for(
        self, claim: Claim, seconds: float, lease: Callable[[bool], Awaitable[Sequence[T] | None]]
    ) -> Sequence[T]:
        """What `lease` answers when it is not None; it is told whether it is asked for the last time."""
        until = self._monotonic() + min(seconds, LONGEST_WAIT)
        with self.room.enter(claim) as waiting:
            while True:
                waiting.called.clear()
                left = until - self._monotonic()
                rows = await lease(left <= 0)
                if rows is not None or left <= 0:
                    break
                await waiting.wait(left)
        if rows is not None and len(rows) == claim.limit:
            self.room.call_next(waiting.line)
        return rows or ()

    async def _lease(self, claim: Claim) -> Sequence[WorkRow] | None:
        """Claim; what is claimed for somebody who has gone meanwhile is handed back. None for nothing."""
        claiming = asyncio.ensure_future(self._store.work.claim(claim))
        try:
            return await asyncio.shield(claiming) or None
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
            await self._store.work.release(worker, attempts)
        except StoreError as error:
            LOG.warning("%s attempts could not be handed back: %s", len(attempts), error)
        self.room.call_all()

    def _keep(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _items(self, rows: Sequence[WorkRow], worker: str) -> Sequence[Item]:
        """What was claimed, without what cannot be read: that fails alone, the rest is handed out."""
        if not rows:
            return ()
        found = await self._store.instances.look_up({(row.tenant, row.instance) for row in rows})
        handout = _handout(rows, found)
        await self._fail_unreadable(handout, worker)
        return handout.items

    async def _fail_unreadable(self, handout: Handout, worker: str) -> None:
        """Let attempts fail that nobody can be given; what cannot even be told is left to the rescue."""
        for row, error in handout.unreadable:
            LOG.error("%s cannot be handed out: %s", row.id, error)
            holding = Holding(tenant=row.tenant, worker=worker, id=row.id, attempt=row.attempt)
            failed = event_of(Fail(UNREADABLE, str(error)), holding, holding.by)
            try:
                await self._send(holding, row.instance, failed)
            except (EngineError, InputError) as left:
                LOG.warning("%s stays leased until its lease ends: %s", holding.id, left)

    async def _row(self, holding: Holding) -> WorkRow | None:
        self.workers.spoke(holding.tenant, holding.worker)
        found = await self._store.work.page(WorkQuery(tenant=holding.tenant, ids=(holding.id,)))
        return found[0] if found else None

    async def _what_became_of(self, holding: Holding) -> Standing:
        standing = _standing(await self._row(holding), holding)
        return "lost" if standing == "held" else standing


def _handout(rows: Sequence[WorkRow], found: Sequence[InstanceRow]) -> Handout:
    """Work with its instance; not that of an instance that is gone, which nobody waits for."""
    stored = {(row.tenant, row.id): row.snapshot for row in found}
    items: list[Item] = []
    unreadable: list[tuple[WorkRow, InputError]] = []
    for row in rows:
        text = stored.get((row.tenant, row.instance))
        if text is None:
            LOG.warning("%s has no instance", row.id)
            continue
        try:
            items.append(_item(row, text))
        except InputError as error:
            unreadable.append((row, error))
    return Handout(items=items, unreadable=unreadable)


def _item(row: WorkRow, text: str) -> Item:
    """What a worker gets; raises InputError for what no answer could hold."""
    snapshot = decode(Snapshot, text)
    require_depth(encode(snapshot.context))
    require_depth((row.checkpoint or "").encode())
    return Item(row=row, snapshot=snapshot)


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
