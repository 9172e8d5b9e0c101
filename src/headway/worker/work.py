"""`Work`: what a handler gets. Its input, what earlier attempts have stored, and calls to report progress."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from headway.codec import decode, replace
from headway.engine.engine import Engine
from headway.errors import InputError
from headway.statechart.snapshot import Snapshot
from headway.store.queries import InstanceQuery
from headway.store.rows import Key
from headway.worker.affinity import LiveResources
from headway.worker.attempt import RunningAttempt, RunningAttempts, StopReason, save_checkpoint
from headway.worker.heartbeat import ProgressReports
from headway.worker.progress import Progress
from headway.worker.threads import Threads

A = TypeVar("A")
T = TypeVar("T")
PAGE = 500


class WorkerParts(NamedTuple):
    """The parts of a worker that its attempts use."""

    engine: Engine
    attempts: RunningAttempts
    reports: ProgressReports
    resources: LiveResources
    monotonic: Callable[[], float]


class Work:
    """An attempt at the work of a state, as its handler sees it.

    What must be awaited can be used from a thread too: `work.wait(work.checkpoint(page))`.
    """

    __slots__ = ("_loop", "_parts", "_running", "_snapshot", "_threads")

    def __init__(
        self, running: RunningAttempt, parts: WorkerParts, threads: Threads, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._running = running
        self._parts = parts
        self._threads = threads
        self._loop = loop
        self._snapshot: Snapshot | None = None

    @property
    def id(self) -> str:
        """The id of the work: the same for all its attempts, and so a key for what must happen once."""
        return self._running.row.id

    @property
    def tenant(self) -> str:
        """The tenant of the instance."""
        return self._running.row.tenant

    @property
    def instance(self) -> str:
        """The instance that waits for it."""
        return self._running.row.instance

    @property
    def state(self) -> str:
        """The state whose work it is."""
        return self._running.row.state

    @property
    def handler(self) -> str:
        """The name of the handler in the chart."""
        return self._running.row.handler

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1 on."""
        return self._running.row.attempt

    @property
    def trace(self) -> str | None:
        """The W3C `traceparent` of the call that led to the work."""
        return self._running.row.trace

    @property
    def cancelled(self) -> StopReason | None:
        """Why the handler should stop, or None; for code in a thread, which cannot be interrupted."""
        return self._running.cancelled

    def raise_if_cancelled(self) -> None:
        """Raises asyncio.CancelledError if the handler should stop."""
        if self._running.cancelled:
            raise asyncio.CancelledError(self._running.cancelled)

    async def snapshot(self) -> Snapshot:
        """The instance as it was when the handler first asked; raises UnknownInstanceError."""
        if self._snapshot is None:
            self._snapshot = await self._parts.engine.get(self.tenant, self.instance)
        return self._snapshot

    async def context(self) -> dict[str, Any]:
        """The instance's context as it was when the handler first asked."""
        return (await self.snapshot()).context

    async def children(self, status: str | None = None) -> AsyncIterator[Snapshot]:
        """The instance's children as they are now, or those with a status, in the order of their creation."""
        query = InstanceQuery(tenant=self.tenant, parent=self.instance, status=status, limit=PAGE)
        while True:
            rows = await self._parts.engine.list(query)
            for row in rows:
                yield decode(Snapshot, row.snapshot)
            if len(rows) < PAGE:
                return
            query = replace(query, after=rows[-1].id)

    def progress(
        self,
        fraction: float | None = None,
        message: str | None = None,
        *,
        data: Mapping[str, object] | None = None,
        **counters: int,
    ) -> None:
        """Report how far the work is (0 to 1), and what to add to counters: from any thread, at any rate.

        The last fraction and all that was counted arrive before the outcome does. `message` and `data`
        fill in the text that the chart `says`. Raises ValueError, TypeError and InputError.
        """
        said = dict(data or {}) if message is None else {**(data or {}), "message": message}
        self._progress().add(fraction, said, counters, self._parts.monotonic())
        self._parts.reports.notify(self._running, self._loop)

    @property
    def eta(self) -> float | None:
        """Seconds until the end at the rate so far; None while the rate is unknown."""
        return self._progress().eta(self._parts.monotonic())

    def _progress(self) -> Progress:
        if self._running.progress is None:
            resumed = self._running.row.checkpoint is not None
            self._running.progress = Progress(self._running.begun, resumed=resumed)
        return self._running.progress

    async def checkpoint(self, value: object) -> None:
        """Store how far the work is, for the next attempt.

        Raises InputError for what is not JSON, and CancelledError when the lease is lost.
        """
        running, parts = self._running, self._parts
        if not await save_checkpoint(parts.engine.store, running.ref, value):
            parts.attempts.cancel(running, "lost")
            raise asyncio.CancelledError("lost")

    @property
    def checkpointed(self) -> Any:
        """The last checkpoint of earlier attempts, or None."""
        text = self._running.row.checkpoint
        return None if text is None else decode(object, text)

    @property
    def resource(self) -> Any:
        """The live resource (a browser, say) that this worker holds under the work's affinity, or None."""
        return self._parts.resources.get(self._affinity())

    @property
    def resource_lost(self) -> bool:
        """Whether there was a live resource, and it ended with its worker."""
        return self._running.resource_lost

    async def hold(self, resource: object, close: Callable[[], object] | None = None) -> None:
        """Hold a live resource for the next work with this affinity, which this worker will claim.

        `close` is called (and awaited) when the instance ends, the worker ends, or the lease is lost.
        Raises ResourceTakenError when another worker holds one.
        """
        await self._parts.resources.hold(self._affinity(), self._running.row, resource, close)

    async def release_resource(self) -> None:
        """Close the live resource of the work's affinity."""
        await self._parts.resources.release(self._affinity())

    def _affinity(self) -> Key:
        row = self._running.row
        if row.affinity is None:
            raise InputError(
                f"the work of {row.state} has no affinity: say Run(..., affinity=...) in the chart"
            )
        return (row.tenant, row.affinity)

    async def in_thread(self, function: Callable[[A], T], argument: A) -> T:
        """Call a blocking function in a thread; raises what it raises.

        If the handler is stopped, the thread keeps running and uses capacity of the worker until it ends.
        Raises InputError for a second call at the same time.
        """
        running = self._running
        if running.thread is not None and not running.thread.done():
            raise InputError("a thread of this work is still busy")
        own, running.in_thread = running.in_thread, True
        running.thread = self._threads.call(function, argument)
        try:
            result, error = await asyncio.shield(running.thread)
        finally:
            running.in_thread = own
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # what the function has returned

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine from a handler that runs in a thread; raises what it raises."""
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        except concurrent.futures.CancelledError as error:
            raise asyncio.CancelledError(*error.args) from error
