"""`Worker`: claims work, runs handlers, keeps leases, and hands back what it cannot finish."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from logging import getLogger

from headway.clock import milliseconds
from headway.engine.engine import Engine
from headway.engine.service import Service
from headway.errors import InputError, StoreError
from headway.statechart.identity import require_id
from headway.statechart.snapshot import Actor
from headway.store.queries import Claim
from headway.store.rows import Attempt, WorkRow
from headway.store.unit import Changes
from headway.worker.claims import Claims
from headway.worker.execute import Execution
from headway.worker.handlers import Handlers
from headway.worker.heartbeat import Deadlines, Heartbeat
from headway.worker.holders import escaped
from headway.worker.reports import Reports
from headway.worker.resources import Resources
from headway.worker.running import Attempts, Running
from headway.worker.work import Lent

LOG = getLogger("headway.worker")


class Worker(Service):
    """Runs the handlers of work that waits in its queues, at most `capacity` at a time.

    With `tenants` it serves those only. `grace` is how long a worker that stops lets its handlers finish,
    `patience` how many seconds a handler that was stopped has for cleaning up.
    `tally` counts what it has claimed, and how attempts ended: done, failed, again, timed_out, lost, stale,
    cancelled. `id` is never that of another worker.
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
        """Raises InputError for a worker that could do nothing, and ValueError for what is no duration."""
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
        self.id = f"{escaped(own)}#{secrets.token_hex(4)}"
        self._monotonic = monotonic
        self._attempts = Attempts(capacity, self.tally, self._ended)
        self._resources = Resources(self._store, self.id, monotonic)
        by = Actor(self.id, "service", frozenset({"system"}))
        self._reports = Reports(engine, self._attempts, by, monotonic)
        lent = Lent(self.id, engine, self._attempts, self._reports, self._resources, monotonic)
        self._execution = Execution(handlers, lent, by)
        self._heartbeat = Heartbeat(
            self._store, self.id, self._attempts, self._resources, monotonic=monotonic
        )
        self._deadlines = Deadlines(
            self._attempts, self._resources, self._execution.give_up, patience=patience, monotonic=monotonic
        )
        self._claims = Claims(self._attempts, self.turn, monotonic)
        self._claiming: asyncio.Future[Sequence[WorkRow]] | None = None
        self._watches = self._draining = False
        self._seen: tuple[datetime, float] | None = None

    @property
    def running(self) -> int:
        """How many attempts it has under way."""
        return len(self._attempts.held) + len(self._attempts.lingering)

    async def start(self) -> None:
        """Begin to claim work in the background."""
        self._draining = False
        self._watch()
        for part in (self._heartbeat, self._deadlines, self._reports, self._claims):
            await part.start()

    async def stop(self) -> None:
        """Drain with the worker's grace."""
        await self.drain(self.grace)

    def wake(self) -> None:
        """There may be work."""
        self._claims.wake()

    async def turn(self) -> bool:
        """Claim as much as there is room for, and start it; True when there was something."""
        self._watch()
        room = self._attempts.room
        if self._draining or room < 1 or not self.handlers.names:
            return False
        versions = self.engine.charts.versions
        claim = Claim(self.id, self.queues, room, versions, self.handlers.names, self.tenants)
        taken = self._monotonic()
        self._claiming = asyncio.ensure_future(self._store.work.claim(claim))
        # Whoever stops the worker in this moment must not lose sight of what was claimed.
        rows = await asyncio.shield(self._claiming)
        self._claiming = None
        self._begin(rows, taken)
        self._claims.more_waits = len(rows) == room
        return bool(rows)

    async def beat(self) -> None:
        """One round of what else runs in the background: deadlines, heartbeats, progress."""
        await self._deadlines.turn()
        await self._heartbeat.turn()
        await self._reports.turn()

    async def settled(self) -> None:
        """Wait until everything that runs has ended and was told."""
        while tasks := self._attempts.tasks:
            await asyncio.wait(tasks)

    async def drain(self, grace: float = 0.0) -> None:
        """Claim nothing more, let handlers finish for `grace` seconds, then stop them and hand work back.

        What runs in a thread and does not end stays leased until the lease runs out. May be called again
        at any time, also with less grace.
        """
        self._draining = True
        await self._stop_claiming()
        await self._wait(grace)
        for running in list(self._attempts.held.values()):
            self._attempts.cancel(running, "drain")
        await self._wait(self.patience)
        await self._release([running.attempt for running in self._execution.take_stopped()])
        for part in (self._reports, self._deadlines, self._heartbeat):
            await part.stop()
        await self._resources.close()
        self._execution.close()
        self._unwatch()

    async def _stop_claiming(self) -> None:
        await self._claims.stop()
        claiming, self._claiming = self._claiming, None
        if claiming is not None:
            try:
                rows = await claiming
            except StoreError as error:
                LOG.warning("%s: the last claim failed: %s", self.id, error)
                return
            await self._release([(row.tenant, row.id, row.attempt) for row in rows])

    async def _wait(self, seconds: float) -> None:
        tasks = self._attempts.tasks
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def _release(self, attempts: Sequence[Attempt]) -> None:
        """Hand work back, so that another worker has it at once."""
        try:
            if attempts:
                await self._store.work.release(self.id, attempts)
        except StoreError as error:
            LOG.warning("%s attempts could not be handed back: %s", len(attempts), error)

    def _begin(self, rows: Sequence[WorkRow], taken: float) -> None:
        if not rows:
            return
        loop, now = asyncio.get_running_loop(), self._monotonic()
        for row in rows:
            in_thread = self.handlers[row.handler].in_thread
            running = Running(row, in_thread=in_thread, taken=taken, now=now)
            self._execution.begin(running, loop)
            self._heartbeat.expect(running.beat_at)
            self._deadlines.expect(min(running.deadline, running.lease_until))
            if row.rate is not None:
                self._claims.wake_in(row.rate_per / row.rate_most / 1_000)
        self.tally["claimed"] += len(rows)
        if rows[0].started_at is not None:
            self._seen = (rows[0].started_at, now)

    def _ended(self, running: Running) -> None:
        self._claims.room_made(running)

    def _watch(self) -> None:
        if not self._watches:
            self._watches = True
            self.engine.watch(self._changed)

    def _unwatch(self) -> None:
        if self._watches:
            self._watches = False
            self.engine.unwatch(self._changed)

    def _changed(self, changes: Changes) -> None:
        """Something was committed: stop what is no longer wanted, and see what is new."""
        held = self._attempts.held
        if held:
            for key in changes.work_gone:
                if key in held:
                    self._attempts.cancel(held[key], "left")
        for row in changes.work:
            running = held.get((row.tenant, row.id))
            if running is not None and running.row.attempt != row.attempt:
                self._attempts.cancel(running, "lost")
        self._look_for_news(changes.work)
        self._resources.follow(changes.updated)

    def _look_for_news(self, rows: Sequence[WorkRow]) -> None:
        """Claim when the first of these is due."""
        dues = [row.due for row in rows if row.queue in self.queues]
        if dues:
            wait = self._seconds_until(min(dues))
            if wait <= 0:
                self._claims.wake()
            elif wait < self._claims.longest_rest:
                self._claims.wake_in(wait)

    def _seconds_until(self, due: datetime) -> float:
        """How long it is until a time of the store, as far as that was seen."""
        if self._seen is None:
            return 0.0
        at, seen = self._seen
        return (due - at).total_seconds() - (self._monotonic() - seen)
