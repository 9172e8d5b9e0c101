"""An event loop for several processes in one: its time is virtual, and a seed decides who goes next.

What a process has put in its queue runs in that order, as asyncio promises; which process goes next is
random. Time stands still while anything can run, and then jumps to the next timer.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
OUTSIDE = ""
"""Everything that is no process of ours: the database, receivers, clients, fate."""
PROCESS: ContextVar[str] = ContextVar("process", default=OUTSIDE)
STEP = 2e-6
"""Code takes time too: so many seconds a step."""
MOST_STEPS = 1_000_000
MOST_CLOSINGS = 5


class StandstillError(Exception):
    """Nothing will ever happen again."""


class Handle:
    """A callback that waits for its turn, in the process that asked for it."""

    __slots__ = ("args", "callback", "context", "gone", "process", "time")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, time: float = 0.0
    ) -> None:
        self.callback, self.args, self.context, self.time = callback, args, context, time
        self.process = context.get(PROCESS, OUTSIDE)
        self.gone = False

    def cancel(self) -> None:
        """Do not call; it stays where it is until its time."""
        self.gone = True

    def cancelled(self) -> bool:
        """Whether it will not be called."""
        return self.gone

    def when(self) -> float:
        """When it is called, by the clock of its process."""
        return self.time


def context_of(process: str) -> Context:
    """A context in which everything belongs to a process."""
    context = Context()
    context.run(PROCESS.set, process)
    return context


class Loop(asyncio.AbstractEventLoop):
    """Runs callbacks one at a time; never asks the machine for its time, and never waits."""

    def __init__(self, random: Random) -> None:
        self.now = 0.0
        self._steps = 0
        self.failures: list[str] = []
        self._random = random
        self._queues: dict[str, deque[Handle]] = {}
        self._runnable: list[str] = []
        self._timers: list[tuple[float, float, int, Handle]] = []
        self._numbers = count()
        self._gone: set[str] = set()
        self._frozen: set[str] = set()
        self._lags: dict[str, float] = {}
        self._doomed: dict[str, tuple[int, Callable[[], None]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._outside = context_of(OUTSIDE)
        self._closed = False

    # What the simulation decides.

    def end(self, process: str) -> None:
        """A process is no more: whatever it was about to do is not done."""
        self._gone.add(process)
        self._queues.pop(process, None)
        self._doomed.pop(process, None)
        self._frozen.discard(process)
        self._sort_out(process)

    def doom(self, process: str, steps: int, then: Callable[[], None]) -> None:
        """Call back when a process has taken so many more steps."""
        self._doomed[process] = (steps, then)

    def spare(self, process: str) -> None:
        """A process is not doomed any more."""
        self._doomed.pop(process, None)

    def freeze(self, process: str) -> None:
        """A process takes no step until it is thawed."""
        self._frozen.add(process)
        self._sort_out(process)

    def thaw(self, process: str, *, lag: float = 0.0) -> None:
        """A process goes on; its own clock may have stood still meanwhile."""
        self._frozen.discard(process)
        self._lags[process] = self._lags.get(process, 0.0) + lag
        self._sort_out(process)

    def call_outside(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        """Call back after a while, at that very moment, whatever becomes of the process that asks for it."""
        self._set(self.now + delay, Handle(callback, args, self._outside))

    def call_in(self, process: str, delay: float, callback: Callable[..., object], *args: object) -> None:
        """Let a process call something after a while, if it is still there."""
        self._set(self.now + delay, Handle(callback, args, context_of(process)))

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until something is done; raises StandstillError when nothing can happen before that."""
        task = self.create_task(main, context=context_of(OUTSIDE))
        before = events._get_running_loop()  # noqa: SLF001 - a loop in a test that has one itself
        events._set_running_loop(self)  # noqa: SLF001 - see above
        try:
            done = task.done
            while not done():
                self._step()
        finally:
            events._set_running_loop(before)  # noqa: SLF001 - see above
        return task.result()

    def _step(self) -> None:
        timers, runnable = self._timers, self._runnable
        while timers and timers[0][0] <= self.now:
            self._due(heappop(timers)[3])
        if not runnable:
            if not timers:
                raise StandstillError("nothing will ever happen again")
            self.now = max(self.now, timers[0][0])
            return
        process = runnable[int(self._random.random() * len(runnable))] if len(runnable) > 1 else runnable[0]
        queue = self._queues[process]
        handle = queue.popleft()
        if not queue:
            runnable.remove(process)
        if not handle.gone:
            self._call(handle)
            if process in self._doomed:
                self._count_down(process)

    def _call(self, handle: Handle) -> None:
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:  # noqa: BLE001 - no code of a process has caught it
            self.failures.append(f"{handle.callback!r} failed: {error!r}")
        self.now += STEP
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise StandstillError(
                f"{handle.process} goes round in circles: {MOST_STEPS:,} steps were not enough"
            )

    def _count_down(self, process: str) -> None:
        steps, then = self._doomed.pop(process)
        if steps <= 1:
            self._outside.run(then)
        else:
            self._doomed[process] = (steps - 1, then)

    def _due(self, handle: Handle) -> None:
        if handle.context is self._outside:
            self._call(handle)
        elif not handle.gone:
            self._put(handle)

    def _put(self, handle: Handle) -> None:
        process = handle.process
        queue = self._queues.get(process)
        if queue is None:
            if process in self._gone:
                return
            queue = self._queues[process] = deque()
        if not queue and process not in self._frozen:
            self._runnable.append(process)
        queue.append(handle)

    def _sort_out(self, process: str) -> None:
        if process in self._runnable:
            self._runnable.remove(process)
        if self._queues.get(process) and process not in self._frozen:
            self._runnable.append(process)

    def _set(self, at: float, handle: Handle) -> None:
        heappush(self._timers, (at, self._random.random(), next(self._numbers), handle))

    # What asyncio needs of a loop.

    def time(self) -> float:
        """The time by the clock of the process that asks."""
        if not self._lags:
            return self.now
        return self.now - self._lags.get(PROCESS.get(), 0.0)

    def call_soon(  # type: ignore[override]  # typeshed types the arguments by a variadic of its own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Run after what the process has in its queue."""
        handle = Handle(callback, args, copy_context() if context is None else context)
        self._put(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]  # see `call_soon`
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Run after so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # see `call_soon`
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Run at a time of the process's clock."""
        handle = Handle(callback, args, copy_context() if context is None else context, when)
        self._set(when + (self._lags.get(handle.process, 0.0) if self._lags else 0.0), handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # see `call_soon`
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """A task of this loop; it is kept, for what vanishes with its process must not end in good order."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """As long as it is not closed."""
        return not self._closed

    def is_closed(self) -> bool:
        """Whether everything was let go of."""
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What a task has failed with belongs to who waits for it."""

    def close(self) -> None:
        """Let go of all that has not ended."""
        self._closed = True
        before = events._get_running_loop()  # noqa: SLF001 - see `run`
        events._set_running_loop(self)  # noqa: SLF001 - what ends may ask for its loop
        try:
            for task in self._tasks:  # those too that are made while others end
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it is meant to be
                if not task.done():
                    _close(task.get_coro())
        finally:
            events._set_running_loop(before)  # noqa: SLF001 - see above
        self._tasks.clear()
        self._queues.clear()
        self._timers.clear()


def new_loop(seed: str | float) -> Loop:
    """A loop whose every choice is decided by a seed."""
    return Loop(generator(seed))  # type: ignore[abstract]  # sockets, signals and threads are not simulated


def generator(seed: str | float) -> Random:
    """What decides: the same for the same seed."""
    return Random(seed)  # noqa: S311 - chance, not secrets


def _close(coroutine: Any) -> None:
    """End a coroutine where it stands; one that waits while it ends is ended again."""
    for _ in range(MOST_CLOSINGS):
        with suppress(RuntimeError):
            coroutine.close()
            return
