"""An event loop for several simulated processes: time is virtual, and a seed decides which one runs next.

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
"""The name of everything outside the simulated processes: database, receivers, clients, faults."""
PROCESS: ContextVar[str] = ContextVar("process", default=OUTSIDE)
STEP = 2e-6
"""Virtual seconds that one step of code takes."""
MOST_STEPS = 1_000_000
MOST_CLOSINGS = 5


class StandstillError(Exception):
    """Nothing is left to run, and the awaited result is missing."""


class Handle:
    """A scheduled callback, and the process that scheduled it."""

    __slots__ = ("args", "callback", "context", "gone", "process", "time")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, time: float = 0.0
    ) -> None:
        self.callback, self.args, self.context, self.time = callback, args, context, time
        self.process = context.get(PROCESS, OUTSIDE)
        self.gone = False

    def cancel(self) -> None:
        """Do not call it; it stays in its queue until its time."""
        self.gone = True

    def cancelled(self) -> bool:
        """Whether it will not be called."""
        return self.gone

    def when(self) -> float:
        """When it is called, by the clock of its process."""
        return self.time


def context_of(process: str) -> Context:
    """A context whose tasks and callbacks belong to a process."""
    context = Context()
    context.run(PROCESS.set, process)
    return context


class Loop(asyncio.AbstractEventLoop):
    """Runs callbacks one at a time; never reads the machine's clock, and never waits."""

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
        self._kills: dict[str, tuple[int, Callable[[], None]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._outside = context_of(OUTSIDE)
        self._closed = False

    # Control of processes by the simulation.

    def end(self, process: str) -> None:
        """End a process: its scheduled callbacks do not run."""
        self._gone.add(process)
        self._queues.pop(process, None)
        self._kills.pop(process, None)
        self._frozen.discard(process)
        self._sort_out(process)

    def kill_after(self, process: str, steps: int, then: Callable[[], None]) -> None:
        """Call `then` when a process has taken `steps` more steps."""
        self._kills[process] = (steps, then)

    def cancel_kill(self, process: str) -> None:
        """Undo `kill_after`."""
        self._kills.pop(process, None)

    def freeze(self, process: str) -> None:
        """Pause a process: it takes no step until `thaw`."""
        self._frozen.add(process)
        self._sort_out(process)

    def thaw(self, process: str, *, lag: float = 0.0) -> None:
        """Continue a process; with `lag` its own clock has stood still meanwhile."""
        self._frozen.discard(process)
        self._lags[process] = self._lags.get(process, 0.0) + lag
        self._sort_out(process)

    def call_outside(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        """Call back after a delay, even if the calling process has ended by then."""
        self._set(self.now + delay, Handle(callback, args, self._outside))

    def call_in(self, process: str, delay: float, callback: Callable[..., object], *args: object) -> None:
        """Call back in a process after a delay, if it still exists."""
        self._set(self.now + delay, Handle(callback, args, context_of(process)))

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; raises StandstillError if nothing is left to run before that."""
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
            if process in self._kills:
                self._count_down(process)

    def _call(self, handle: Handle) -> None:
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:  # noqa: BLE001 - an exception that a callback did not catch
            self.failures.append(f"{handle.callback!r} failed: {error!r}")
        self.now += STEP
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise StandstillError(f"{handle.process} does not end: it has taken {MOST_STEPS:,} steps")

    def _count_down(self, process: str) -> None:
        steps, then = self._kills.pop(process)
        if steps <= 1:
            self._outside.run(then)
        else:
            self._kills[process] = (steps - 1, then)

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

    # The interface of asyncio event loops.

    def time(self) -> float:
        """The time by the clock of the calling process."""
        if not self._lags:
            return self.now
        return self.now - self._lags.get(PROCESS.get(), 0.0)

    def call_soon(  # type: ignore[override]  # typeshed types the arguments by a variadic of its own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Run after the callbacks that the process has queued."""
        handle = Handle(callback, args, copy_context() if context is None else context)
        self._put(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]  # see `call_soon`
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Run after `delay` seconds."""
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
        """A task of this loop. It is kept: a task of a killed process must not be closed before the end."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        """Always false."""
        return False

    def is_running(self) -> bool:
        """True until the loop is closed."""
        return not self._closed

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Do nothing: a task's error is raised to the code that awaits it."""

    def close(self) -> None:
        """End all tasks that have not ended."""
        self._closed = True
        before = events._get_running_loop()  # noqa: SLF001 - see `run`
        events._set_running_loop(self)  # noqa: SLF001 - closing tasks may ask for their loop
        try:
            for task in self._tasks:  # includes tasks that are made while others end
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it is meant to be
                if not task.done():
                    _close(task.get_coro())
        finally:
            events._set_running_loop(before)  # noqa: SLF001 - see above
        self._tasks.clear()
        self._queues.clear()
        self._timers.clear()


def new_loop(seed: str | float) -> Loop:
    """A loop whose choices are all decided by a seed."""
    return Loop(generator(seed))  # type: ignore[abstract]  # sockets, signals and threads are not simulated


def generator(seed: str | float) -> Random:
    """A random generator: the same numbers for the same seed."""
    return Random(seed)  # noqa: S311 - not used for secrets


def _close(coroutine: Any) -> None:
    """Close a coroutine; one that awaits while it is closed is closed again."""
    for _ in range(MOST_CLOSINGS):
        with suppress(RuntimeError):
            coroutine.close()
            return
