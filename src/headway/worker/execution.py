"""Runs the handlers of a worker in this process, each attempt in a task, and sends their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from logging import getLogger
from typing import TypeVar

from headway.clock import backoff
from headway.engine.orders import CURRENT, Answer
from headway.errors import HeadwayError, StoreError, UnknownVersionError
from headway.statechart.snapshot import Event, work_timed_out
from headway.worker.attempt import OBSOLETE, Again, Fail, RunningAttempt, conclude, failure, release
from headway.worker.handlers import Handlers
from headway.worker.threads import Threads
from headway.worker.work import Work, WorkerParts

T = TypeVar("T")
LOG = getLogger("headway.worker")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
POSTPONEMENT = timedelta(seconds=30)
"""How long nobody retries work for which the engine accepts no outcome at all."""
CANCELLED = object()
"""The outcome of a handler that was cancelled before it had one."""


class Execution:
    """Runs the attempts of a worker."""

    def __init__(self, handlers: Handlers, parts: WorkerParts) -> None:
        self._handlers, self._parts = handlers, parts
        self._engine, self._attempts, self._tally = parts.engine, parts.attempts, parts.attempts.tally
        self._reports_of_timeouts: set[asyncio.Task[None]] = set()
        self._threads = Threads()
        self._drained: list[RunningAttempt] = []

    def begin(self, running: RunningAttempt, loop: asyncio.AbstractEventLoop) -> None:
        """Start the task of an attempt."""
        self._attempts.add(running)
        running.task = loop.create_task(self._run(running, loop))

    def take_drained(self) -> list[RunningAttempt]:
        """The attempts that were cancelled because the worker drains; they are to be released."""
        drained, self._drained = self._drained, []
        return drained

    def close(self) -> None:
        """Let the threads end."""
        threads, self._threads = self._threads, Threads()
        threads.close()

    def give_up(self, running: RunningAttempt) -> None:
        """Report the timeout of an attempt without waiting any longer for its handler."""
        self._attempts.let_linger(running)
        running.given_up = True
        task = asyncio.create_task(self._time_out(running))
        self._reports_of_timeouts.add(task)
        task.add_done_callback(self._reports_of_timeouts.discard)

    async def _run(self, running: RunningAttempt, loop: asyncio.AbstractEventLoop) -> None:
        running.started = True
        if running.row.trace is not None:
            CURRENT.set(running.row.trace)  # for what the attempt leads to; the task has a context of its own
        try:
            outcome = CANCELLED if running.cancelled else await self._call_handler(running, loop)
            running.ending = True
            if not running.given_up:
                await self._end(running, outcome)
        except Exception:
            LOG.exception("the outcome of %s could not be sent", running.row.id)
        finally:
            self._attempts.end(running)

    async def _call_handler(self, running: RunningAttempt, loop: asyncio.AbstractEventLoop) -> object:
        """The outcome of the handler, whatever it does."""
        handler = self._handlers[running.row.handler]
        work = Work(running, self._parts, self._threads, loop)
        try:
            if running.row.affinity is not None:
                affinity = (running.row.tenant, running.row.affinity)
                running.resource_lost = await self._parts.resources.is_lost(affinity)
            if running.in_thread:
                return await work.in_thread(handler.function, work)
            return await handler.function(work)
        except asyncio.CancelledError as error:
            task = running.task
            if running.cancelled or (task is not None and task.cancelling()):
                return CANCELLED
            return self._failure(running, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            return self._failure(running, error)

    def _failure(self, running: RunningAttempt, error: BaseException) -> Fail:
        row = running.row
        LOG.warning("attempt %s of %s (%s) failed", row.attempt, row.id, row.handler, exc_info=error)
        return failure(error)

    async def _end(self, running: RunningAttempt, outcome: object) -> None:
        """Send the outcome, unless it is of no interest any more."""
        if running.cancelled in OBSOLETE:
            self._tally["lost" if running.cancelled == "lost" else "cancelled"] += 1
        elif running.cancelled == "timeout":
            await self._time_out(running)
        elif outcome is CANCELLED:
            await self._release_cancelled(running)
        elif isinstance(outcome, Again):
            if await self._persist(running, partial(self._release, running, outcome.after)):
                self._tally["again"] += 1
        else:
            await self._conclude(running, outcome, "failed" if isinstance(outcome, Fail) else "done")

    async def _release_cancelled(self, running: RunningAttempt) -> None:
        """Release an attempt without an outcome: together with others if the worker drains, else at once."""
        self._tally["cancelled"] += 1
        if running.thread is not None and not running.thread.done():
            return
        if running.cancelled == "drain":
            await self._persist(running, partial(self._parts.reports.flush, running))
            self._drained.append(running)
        else:
            await self._persist(running, partial(self._release, running))

    async def _time_out(self, running: RunningAttempt) -> None:
        row, by = running.row, running.ref.by
        await self._conclude(running, work_timed_out(row.id, row.attempt, by), "timed_out")

    async def _conclude(self, running: RunningAttempt, outcome: object, counted: str) -> None:
        """End the attempt, and count how it ended."""
        try:
            conclusion = await conclude(running.ref, outcome, partial(self._send, running))
        except HeadwayError as error:
            await self._postpone(running, str(error))
            return
        if conclusion.end == "accepted":
            self._tally[counted] += 1
        elif conclusion.end == "over":
            self._tally["stale"] += 1
        elif conclusion.failure is not None:
            row, message = running.row, conclusion.failure.message
            LOG.error("the outcome of %s (%s) was not accepted: %s", row.id, row.handler, message)
            if conclusion.end == "refused":
                self._tally["failed"] += 1
            else:
                await self._postpone(running, message)

    async def _send(self, running: RunningAttempt, event: Event) -> Answer | None:
        """Send the event that ends an attempt; None if the lease was lost, or another node sends it."""
        send = self._engine.send if running.progress is None else partial(self._flush_and_send, running)
        try:
            return await self._persist(running, partial(send, *running.instance, event))
        except UnknownVersionError as error:
            LOG.warning("%s of %s is forwarded to another node: %s", event.name, running.row.id, error)
            await self._persist(running, partial(self._engine.forward, *running.instance, event))
            self._tally["forwarded"] += 1
            return None

    async def _flush_and_send(
        self, running: RunningAttempt, tenant: str, instance: str, event: Event
    ) -> Answer:
        await self._parts.reports.flush(running)
        return await self._engine.send(tenant, instance, event)

    async def _release(self, running: RunningAttempt, after: timedelta = timedelta()) -> bool:
        """Let any worker have the same attempt after a while; False if this worker no longer held it."""
        await self._parts.reports.flush(running)
        if await release(self._engine.store, running.ref, after):
            return True
        self._tally["lost"] += 1
        return False

    async def _postpone(self, running: RunningAttempt, message: str) -> None:
        LOG.error("no outcome of %s is accepted; it is tried again later: %s", running.row.id, message)
        await self._persist(running, partial(self._release, running, POSTPONEMENT))

    async def _persist(self, running: RunningAttempt, call: Callable[[], Awaitable[T]]) -> T | None:
        """Repeat a call until the database is back; None if the lease expires before that."""
        failures = 0
        while True:
            try:
                return await call()
            except StoreError as error:
                failures += 1
                if running.lease_until <= self._parts.monotonic():
                    LOG.warning("the lease of %s has expired: %s", running.row.id, error)
                    self._tally["lost"] += 1
                    return None
                LOG.warning("the outcome of %s is sent again later: %s", running.row.id, error)
            await asyncio.sleep(backoff(failures, base=FIRST_PAUSE, cap=LONGEST_PAUSE))
