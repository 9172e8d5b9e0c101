"""`Worker`: claims work, runs its handlers, keeps the leases, and releases what it cannot finish."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from logging import getLogger

from headway.clock import milliseconds
from headway.engine.engine import Engine
from headway.engine.service import Component, Service
from headway.errors import InputError, StoreError
from headway.statechart.identity import require_id
from headway.store.queries import Claim
from headway.store.rows import Attempt, WorkRow
from headway.store.unit import Changes
from headway.worker.affinity import LiveResources
from headway.worker.attempt import RunningAttempt, RunningAttempts, worker_id
from headway.worker.execution import Execution
from headway.worker.handlers import Handlers
from headway.worker.heartbeat import Deadlines, Heartbeat, ProgressReports
from headway.worker.work import WorkerParts

LOG = getLogger("headway.worker")
ENOUGH_ROOM = 0.25
"""While more work waits, the next claim is made when this part of the capacity is free,"""
LONGEST_DELAY = 0.05
"""or after this many seconds."""


class Claiming(Service):
    """Decides when to claim: when there is new work or room for it, and once a second in any case."""

    name = "worker"

    def __init__(
        self,
        attempts: RunningAttempts,
        claim: Callable[[], Awaitable[bool]],
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__()
        self._attempts, self._claim, self._monotonic = attempts, claim, monotonic
        self._alarm: asyncio.TimerHandle | None = None
        self._delay_until = 0.0
        self.more_waits = False

    async def turn(self) -> bool:
        """Claim, if there is enough room; later if there is little."""
        if self._has_enough_room() or (self._attempts.room > 0 and self._delay_until <= self._monotonic()):
            self._delay_until = self._monotonic() + LONGEST_DELAY
            await self._claim()
        elif self._attempts.room > 0:
            self.wake_in(LONGEST_DELAY)
        return False

    def _has_enough_room(self) -> bool:
        return self._attempts.room >= max(1, self._attempts.capacity * ENOUGH_ROOM)

    def attempt_ended(self, running: RunningAttempt) -> None:
        """There is room for another attempt, and one with the same concurrency key may run."""
        if self.more_waits or running.row.concurrency is not None:
            if self._has_enough_room():
                self.wake()
            else:
                self.wake_in(LONGEST_DELAY)

    def wake_in(self, seconds: float) -> None:
        """Wake after some seconds; the earliest of several alarms is enough."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._alarm is not None:
            if self._alarm.when() <= at:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()


class Worker(Component):
    """Runs the handlers of work that waits in its queues, at most `capacity` at a time.

    With `tenants` it serves those only. When it stops, handlers have `grace` to finish; a handler that is
    cancelled has `patience` seconds to clean up.
    `tally` counts what it has claimed, and how attempts ended: done, failed, again, timed_out, lost, stale,
    cancelled. No other worker has the same `id`.
    """

    name = "worker"

    def __init__(
        self,
        engine: Engine,
        handlers: Handlers,
        *,
        queues: Sequence[str] = ("default",),
        capacity: int = 100,
        name: str | None = None,
        tenants: Sequence[str] = (),
        grace: str | float | timedelta = "30s",
        patience: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises InputError if there is no capacity or queue, and ValueError if `grace` is no duration."""
        super().__init__()
        if capacity < 1 or not queues or isinstance(queues, str):
            raise InputError("a worker has a capacity of at least 1, and a list of queues")
        self.engine, self.handlers, self._store = engine, handlers, engine.store
        self.queues, self.tenants = tuple(queues), tuple(tenants)
        self.patience = patience
        self.grace = milliseconds(grace) / 1_000
        if name:
            require_id("the name of a worker", name)  # it acts under this name
        own = name or f"{socket.gethostname()}:{os.getpid()}"
        self.id = f"{worker_id(own)}#{secrets.token_hex(4)}"
        self._monotonic = monotonic
        self._attempts = RunningAttempts(capacity, self.tally)
        self._resources = LiveResources(self._store, self.id, monotonic)
        self._reports = ProgressReports(engine, self.id, self._attempts, monotonic)
        parts = WorkerParts(engine, self._attempts, self._reports, self._resources, monotonic)
        self._execution = Execution(handlers, parts)
        self._heartbeat = Heartbeat(
            self._store, self.id, self._attempts, self._resources, monotonic=monotonic
        )
        self._deadlines = Deadlines(
            self._attempts, self._resources, self._execution.give_up, patience=patience, monotonic=monotonic
        )
        self._claiming = Claiming(self._attempts, self.turn, monotonic)
        self._attempts.watcher = self._claiming.attempt_ended
        self._open_claim: asyncio.Future[Sequence[WorkRow]] | None = None
        self._watches = self._draining = False
        self._seen: tuple[datetime, float] | None = None

    @property
    def running(self) -> int:
        """How many attempts it runs."""
        return len(self._attempts.held) + len(self._attempts.lingering)

    async def start(self) -> None:
        """Begin to claim work in the background."""
        self._draining = False
        self._watch()
        for service in (self._heartbeat, self._deadlines, self._reports, self._claiming):
            await service.start()

    async def stop(self) -> None:
        """Drain with the worker's grace."""
        await self.drain(self.grace)

    def wake(self) -> None:
        """Look for work now."""
        self._claiming.wake()

    async def turn(self) -> bool:
        """Claim as much as there is room for, and start it; True if there was something."""
        self._watch()
        room = self._attempts.room
        if self._draining or room < 1 or not self.handlers.names:
            return False
        versions = self.engine.charts.versions
        claim = Claim(self.id, self.queues, room, versions, self.handlers.names, self.tenants)
        claimed = self._monotonic()
        self._open_claim = asyncio.ensure_future(self._store.work.claim(claim))
        # Shielded: if the worker is stopped now, what was claimed must still be released.
        rows = await asyncio.shield(self._open_claim)
        self._open_claim = None
        self._begin(rows, claimed)
        self._claiming.more_waits = len(rows) == room
        return bool(rows)

    async def beat(self) -> None:
        """One turn of everything else: deadlines, heartbeats, progress reports."""
        await self._deadlines.turn()
        await self._heartbeat.turn()
        await self._reports.turn()

    async def settled(self) -> None:
        """Wait until all attempts have ended and their outcomes were sent."""
        while tasks := self._attempts.tasks:
            await asyncio.wait(tasks)

    async def drain(self, grace: float = 0.0) -> None:
        """Claim nothing more, let handlers finish for `grace` seconds, then cancel them and release the work.

        A thread that does not end keeps its work leased until the lease expires. May be called again at any
        time, also with less grace.
        """
        self._draining = True
        await self._stop_claiming()
        await self._wait(grace)
        for running in list(self._attempts.held.values()):
            self._attempts.cancel(running, "drain")
        await self._wait(self.patience)
        await self._release([running.ref.key for running in self._execution.take_drained()])
        for service in (self._reports, self._deadlines, self._heartbeat):
            await service.stop()
        await self._resources.close()
        self._execution.close()
        self._unwatch()

    async def _stop_claiming(self) -> None:
        await self._claiming.stop()
        claim, self._open_claim = self._open_claim, None
        if claim is not None:
            try:
                rows = await claim
            except StoreError as error:
                LOG.warning("%s: the last claim failed: %s", self.id, error)
                return
            await self._release([(row.tenant, row.id, row.attempt) for row in rows])

    async def _wait(self, seconds: float) -> None:
        tasks = self._attempts.tasks
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def _release(self, attempts: Sequence[Attempt]) -> None:
        """Release work, so that another worker can claim it at once."""
        try:
            if attempts:
                await self._store.work.release(self.id, attempts)
        except StoreError as error:
            LOG.warning("%s attempts could not be released: %s", len(attempts), error)

    def _begin(self, rows: Sequence[WorkRow], claimed: float) -> None:
        if not rows:
            return
        loop, now = asyncio.get_running_loop(), self._monotonic()
        for row in rows:
            in_thread = self.handlers[row.handler].in_thread
            running = RunningAttempt(row, self.id, in_thread=in_thread, claimed=claimed, now=now)
            self._execution.begin(running, loop)
            self._heartbeat.schedule(running.beat_at)
            self._deadlines.schedule(min(running.deadline, running.lease_until))
            if row.rate is not None:
                self._claiming.wake_in(row.rate_per / row.rate_most / 1_000)
        self.tally["claimed"] += len(rows)
        if rows[0].started_at is not None:
            self._seen = (rows[0].started_at, now)

    def _watch(self) -> None:
        if not self._watches:
            self._watches = True
            self.engine.watch(self._look)

    def _unwatch(self) -> None:
        if self._watches:
            self._watches = False
            self.engine.unwatch(self._look)

    def _look(self, changes: Changes) -> None:
        """Cancel what a commit has made obsolete, and claim what is new."""
        held = self._attempts.held
        if held:
            for key in changes.work_gone:
                if key in held:
                    self._attempts.cancel(held[key], "left")
        for row in changes.work:
            running = held.get((row.tenant, row.id))
            if running is not None and running.row.attempt != row.attempt:
                self._attempts.cancel(running, "lost")
        self._wake_for(changes.work)
        self._resources.follow(changes.updated)

    def _wake_for(self, rows: Sequence[WorkRow]) -> None:
        """Claim when the first of these is due."""
        dues = [row.due for row in rows if row.queue in self.queues]
        if dues:
            wait = self._seconds_until(min(dues))
            if wait <= 0:
                self._claiming.wake()
            elif wait < self._claiming.longest_rest:
                self._claiming.wake_in(wait)

    def _seconds_until(self, due: datetime) -> float:
        """Seconds until a time of the store, whose clock was last seen with a claim."""
        if self._seen is None:
            return 0.0
        at, seen = self._seen
        return (due - at).total_seconds() - (self._monotonic() - seen)
