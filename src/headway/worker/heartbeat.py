"""What runs beside the handlers of a worker: heartbeats, deadlines and progress reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from logging import getLogger
from math import inf

from headway.engine.engine import Engine
from headway.engine.service import ScheduledService
from headway.errors import HeadwayError, StoreError, UnknownVersionError
from headway.statechart.snapshot import Event
from headway.store.port import Store
from headway.worker.affinity import LiveResources
from headway.worker.attempt import OBSOLETE, RunningAttempt, RunningAttempts, progress_event, send_progress
from headway.worker.progress import Progress

LOG = getLogger("headway.worker")
EARLY = 0.5
"""With the first lease that is due, those are extended whose heartbeat is due within this part of it."""
REPORT_INTERVAL = 1.0
"""Seconds between two progress reports of an attempt, at least."""


class Heartbeat(ScheduledService):
    """Extends the leases of running attempts and live resources, in one call for all that are due."""

    name = "heartbeat"

    def __init__(
        self,
        store: Store,
        worker: str,
        attempts: RunningAttempts,
        resources: LiveResources,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(monotonic)
        self._store, self._worker = store, worker
        self._attempts, self._resources = attempts, resources

    def next_due(self) -> float:
        """When the next lease has to be extended."""
        attempts = min((running.beat_at for running in self._attempts.held.values()), default=inf)
        return min(attempts, self._resources.next_beat())

    async def turn(self) -> bool:
        """Extend what is due; an attempt that this worker no longer holds is cancelled."""
        now = self.monotonic()
        if self.next_due() <= now:
            due = [running for running in self._attempts.held.values() if _beats_early(running) <= now]
            if due:
                await self._extend(due, now)
            await self._resources.beat(now)
        return False

    async def _extend(self, due: list[RunningAttempt], now: float) -> None:
        kept = set(await self._store.work.extend(self._worker, [running.ref.key for running in due]))
        for running in due:
            running.beat_at = now + running.row.heartbeat / 1_000
            if running.key in kept:
                running.lease_until = now + running.row.lease / 1_000
            else:
                self._attempts.cancel(running, "lost")


def _beats_early(running: RunningAttempt) -> float:
    return running.beat_at - EARLY * running.row.heartbeat / 1_000


class Deadlines(ScheduledService):
    """Cancels attempts that take longer than their timeout, or whose lease has expired."""

    name = "deadlines"

    def __init__(
        self,
        attempts: RunningAttempts,
        resources: LiveResources,
        give_up: Callable[[RunningAttempt], None],
        *,
        patience: float,
        monotonic: Callable[[], float],
    ) -> None:
        """`give_up` is called with an attempt that has not ended `patience` seconds after its timeout."""
        super().__init__(monotonic)
        self._attempts, self._resources = attempts, resources
        self._give_up, self._patience = give_up, patience

    def next_due(self) -> float:
        """When the next timeout passes, or the next lease expires."""
        running = (each for each in self._attempts.held.values() if not each.ending)
        attempts = min((min(each.deadline, each.lease_until) for each in running), default=inf)
        return min(attempts, self._resources.next_expiry())

    async def turn(self) -> bool:
        """Cancel what is over; needs no database, so that it works while there is none."""
        now = self.monotonic()
        for running in list(self._attempts.held.values()):
            if running.ending:
                continue
            if running.lease_until <= now:
                self._attempts.cancel(running, "lost")
                self._attempts.let_linger(running)
            elif running.deadline <= now:
                self._time_out(running, now)
        self._resources.expire(now)
        return False

    def _time_out(self, running: RunningAttempt, now: float) -> None:
        if running.cancelled == "timeout":
            self._give_up(running)
        else:
            running.deadline = inf if running.cancelled else now + self._patience
            self._attempts.cancel(running, "timeout")


class ProgressReports(ScheduledService):
    """Sends the first report of an attempt at once, and later ones together, one per interval."""

    name = "progress"

    def __init__(
        self, engine: Engine, worker: str, attempts: RunningAttempts, monotonic: Callable[[], float]
    ) -> None:
        super().__init__(monotonic)
        self._engine, self._worker, self._attempts = engine, worker, attempts
        self._waiting: dict[RunningAttempt, float] = {}
        self._numbers = count(1)

    def notify(self, running: RunningAttempt, loop: asyncio.AbstractEventLoop) -> None:
        """An attempt has something to report; may be called from any thread."""
        progress = running.progress
        if progress is not None and not progress.waits:
            progress.waits = True
            loop.call_soon_threadsafe(self._queue, running, progress)

    def _queue(self, running: RunningAttempt, progress: Progress) -> None:
        self._waiting[running] = max(self.monotonic(), progress.next_at)
        self.schedule(self._waiting[running])

    def next_due(self) -> float:
        """When the next report may be sent."""
        return min(self._waiting.values(), default=inf)

    async def turn(self) -> bool:
        """Send what is due; what cannot be sent now is sent later."""
        now = self.monotonic()
        due = [running for running, at in self._waiting.items() if at <= now]
        for running in due:
            del self._waiting[running]
        answers = await asyncio.gather(*map(self.flush, due), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for running, answer in zip(due, answers, strict=True):
            # An attempt that has ended sends the rest itself; an error that is not the store's would recur.
            if isinstance(answer, StoreError) and running.progress is not None and not running.is_over:
                self._queue(running, running.progress)
        if failed:
            raise failed[0]
        return False

    async def flush(self, running: RunningAttempt) -> None:
        """Send all that was reported so far; raises StoreError if it has to be tried again."""
        progress = running.progress
        if progress is None:
            return
        async with progress.sending:
            progress.waits = False
            progress.next_at = self.monotonic() + REPORT_INTERVAL
            while running.cancelled not in OBSOLETE and (unsent := self._unsent(running, progress)):
                await self._send(running, *unsent)
                progress.unsent = None

    def _unsent(self, running: RunningAttempt, progress: Progress) -> tuple[Event, str | None] | None:
        """What is to be sent next. It stays the same until it has arrived, so nothing is counted twice."""
        if progress.unsent is None and (report := progress.take()):
            event = progress_event(running.ref, report, progress.eta(self.monotonic()))
            progress.unsent = (event, self._request_id() if report.counters else None)
        return progress.unsent

    def _request_id(self) -> str:
        return f"{self._worker}/{next(self._numbers)}"

    async def _send(self, running: RunningAttempt, event: Event, request_id: str | None) -> None:
        try:
            if not await send_progress(self._engine, running.instance, event, request_id):
                self._attempts.cancel(running, "lost")
        except StoreError:
            raise
        except UnknownVersionError:
            own = request_id or self._request_id()
            await self._engine.forward(*running.instance, event, request_id=own)
        except HeadwayError as error:
            LOG.warning("the progress of %s was not accepted: %s", running.row.id, error)
