"""One attempt from beginning to end: run its handler, then tell the engine how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from logging import getLogger
from typing import TypeVar

from headway.engine.orders import Answer
from headway.engine.trace import CURRENT
from headway.errors import (
    HeadwayError,
    InputError,
    StoreError,
    TooLargeError,
    UnknownInstanceError,
    UnknownVersionError,
)
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Actor, Event, work_timed_out
from headway.worker.handlers import Handlers
from headway.worker.outcomes import BAD_RESULT, REFUSED, Again, Fail, event_of, failure
from headway.worker.running import OVER, Running
from headway.worker.threads import Threads
from headway.worker.work import Lent, Work

T = TypeVar("T")
LOG = getLogger("headway.worker")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
PUT_ASIDE = timedelta(seconds=30)
"""For so long nobody tries work again whose outcome the engine does not take at all."""

STOPPED = object()
"""The outcome of a handler that was stopped before it had one."""


class Execution:
    """Runs attempts, each in one task."""

    def __init__(self, handlers: Handlers, lent: Lent, by: Actor) -> None:
        self._handlers, self._lent, self._by = handlers, lent, by
        self._engine, self._attempts, self._tally = lent.engine, lent.attempts, lent.attempts.tally
        self._last_words: set[asyncio.Task[None]] = set()
        self._threads = Threads()
        self._stopped: list[Running] = []

    def begin(self, running: Running, loop: asyncio.AbstractEventLoop) -> None:
        """Start the task of an attempt."""
        self._attempts.add(running)
        running.task = loop.create_task(self._run(running, loop))

    def take_stopped(self) -> list[Running]:
        """What was stopped because the worker drains, to be handed back."""
        stopped, self._stopped = self._stopped, []
        return stopped

    def close(self) -> None:
        """Let the threads end."""
        threads, self._threads = self._threads, Threads()
        threads.close()

    def give_up(self, running: Running) -> None:
        """Report that an attempt took too long without waiting for its handler any longer."""
        self._attempts.let_linger(running)
        running.given_up = True
        task = asyncio.create_task(self._conclude(running, *self._timed_out(running)))
        self._last_words.add(task)
        task.add_done_callback(self._last_words.discard)

    async def _run(self, running: Running, loop: asyncio.AbstractEventLoop) -> None:
        running.started = True
        if running.row.trace is not None:
            CURRENT.set(running.row.trace)  # for what the attempt leads to; the task has a context of its own
        try:
            outcome = STOPPED if running.cancelled else await self._perform(running, loop)
            running.ending = True
            if not running.given_up:
                await self._report(running, outcome)
        except Exception:
            LOG.exception("the outcome of %s could not be told", running.row.id)
        finally:
            self._attempts.end(running)

    async def _perform(self, running: Running, loop: asyncio.AbstractEventLoop) -> object:
        """Run the handler; its outcome, whatever it does."""
        handler = self._handlers[running.row.handler]
        work = Work(running, self._lent, self._threads, loop)
        try:
            if running.row.affinity is not None:
                await self._look_for_resource(running, running.row.affinity)
            if running.in_thread:
                return await work.in_thread(handler.function, work)
            return await handler.function(work)
        except asyncio.CancelledError as error:
            task = running.task
            if running.cancelled or (task is not None and task.cancelling()):
                return STOPPED
            return self._failed(running, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            return self._failed(running, error)

    async def _look_for_resource(self, running: Running, affinity: str) -> None:
        name = (running.row.tenant, affinity)
        running.resource_lost = await self._lent.resources.is_lost(name)

    def _failed(self, running: Running, error: BaseException) -> Fail:
        row = running.row
        LOG.warning("attempt %s of %s (%s) failed", row.attempt, row.id, row.handler, exc_info=error)
        return failure(error)

    async def _report(self, running: Running, outcome: object) -> None:
        """Tell the engine, unless nobody wants to know any more."""
        if running.cancelled in OVER:
            self._tally["lost" if running.cancelled == "lost" else "cancelled"] += 1
        elif running.cancelled == "timeout":
            await self._conclude(running, *self._timed_out(running))
        elif outcome is STOPPED:
            await self._stop(running)
        elif isinstance(outcome, Again):
            if await self._persist(running, lambda: self._hand_back(running, outcome.after)):
                self._tally["again"] += 1
        else:
            await self._conclude(running, *self._told(running, outcome))

    async def _stop(self, running: Running) -> None:
        """Hand back what was stopped on the way: with others when the worker drains, else at once."""
        self._tally["cancelled"] += 1
        if running.thread is not None and not running.thread.done():
            return
        if running.cancelled == "drain":
            await self._persist(running, lambda: self._lent.reports.flush(running))
            self._stopped.append(running)
        else:
            await self._persist(running, lambda: self._hand_back(running))

    def _told(self, running: Running, outcome: object) -> tuple[Event, str]:
        counted = "failed" if isinstance(outcome, Fail) else "done"
        try:
            return event_of(outcome, running.row, self._by), counted
        except InputError as error:
            return self._told(running, Fail(BAD_RESULT, str(error)))

    def _timed_out(self, running: Running) -> tuple[Event, str]:
        return work_timed_out(running.row.id, running.row.attempt, self._by), "timed_out"

    async def _conclude(self, running: Running, event: Event, counted: str) -> None:
        """Send the event that ends the work; when it is refused, the work has failed."""
        try:
            answer = await self._send(running, event)
        except (InputError, TooLargeError) as error:
            await self._refused(running, event, Fail(BAD_RESULT, str(error)))
        except UnknownInstanceError:
            self._tally["stale"] += 1
        except UnknownVersionError as error:
            LOG.warning("%s of %s is sent by another node: %s", event.name, running.row.id, error)
            await self._persist(running, lambda: self._forward(running, event))
            self._tally["forwarded"] += 1
        except HeadwayError as error:
            await self._put_aside(running, str(error))
        else:
            if isinstance(answer, Refusal) and answer.code not in GONE:
                await self._refused(running, event, Fail(REFUSED, answer.message))
            elif answer is not None:
                self._tally["stale" if isinstance(answer, Refusal) else counted] += 1

    async def _forward(self, running: Running, event: Event) -> None:
        await self._engine.forward(running.row.tenant, running.row.instance, event)

    async def _refused(self, running: Running, event: Event, failed: Fail) -> None:
        row = running.row
        LOG.error("%s of %s (%s) was not taken: %s", event.name, row.id, row.handler, failed.message)
        if event.name == "work.failed" and event.data.get("code") in (BAD_RESULT, REFUSED):
            await self._put_aside(running, failed.message)
        else:
            await self._conclude(running, *self._told(running, failed))

    async def _send(self, running: Running, event: Event) -> Answer | None:
        """Send an event after all that was told of the progress; None when the attempt was lost meanwhile."""
        row = running.row
        try:
            if running.progress is None:
                return await self._engine.send(row.tenant, row.instance, event)
        except StoreError as error:
            LOG.warning("%s waits to be told: %s", row.id, error)

        async def send() -> Answer:
            await self._lent.reports.flush(running)
            return await self._engine.send(row.tenant, row.instance, event)

        return await self._persist(running, send)

    async def _hand_back(self, running: Running, after: timedelta = timedelta()) -> bool:
        """Let anyone have the same attempt, after a while; False when it was not this worker's any more."""
        store = self._engine.store
        await self._lent.reports.flush(running)
        due = await store.now() + after
        if await store.work.release(self._lent.worker, [running.attempt], due):
            return True
        self._tally["lost"] += 1
        return False

    async def _put_aside(self, running: Running, message: str) -> None:
        LOG.error(
            "the engine takes no outcome of %s, which is tried again later: %s", running.row.id, message
        )
        await self._persist(running, lambda: self._hand_back(running, PUT_ASIDE))

    async def _persist(self, running: Running, call: Callable[[], Awaitable[T]]) -> T | None:
        """Try until the database is back, as long as the attempt is this worker's; None when it is not."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await call()
            except StoreError as error:
                if running.lease_until <= self._lent.monotonic():
                    LOG.warning("%s is lost: %s", running.row.id, error)
                    self._tally["lost"] += 1
                    return None
                LOG.warning("%s waits to be told: %s", running.row.id, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


GONE = frozenset({"stale", "terminal", "late"})
"""The attempt is over, or the whole life: whoever ended it did not wait for this outcome."""
