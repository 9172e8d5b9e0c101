"""Threads for handlers that are not async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

Outcome = tuple[Any, BaseException | None]


class ThreadCall(NamedTuple):
    """A call, and the future of its outcome."""

    function: Callable[[Any], Any]
    argument: Any
    context: Context
    caller: asyncio.Future[Outcome]


class Threads:
    """As many threads as there are calls at the same time; the process can exit while they are busy."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._lock = Lock()
        self._idle = 0
        self._alive = 0

    def call(self, function: Callable[[Any], Any], argument: object) -> asyncio.Future[Outcome]:
        """Call in a thread; the future gets the result or the error when the call has ended."""
        caller: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._alive += 1
                Thread(target=self._serve, name="headway-handler", daemon=True).start()
        self._calls.put(ThreadCall(function, argument, copy_context(), caller))
        return caller

    def close(self) -> None:
        """End each thread as soon as it is idle."""
        with self._lock:
            for _ in range(self._alive):
                self._calls.put(None)
            self._alive = self._idle = 0

    def _serve(self) -> None:
        while call := self._calls.get():
            outcome = _outcome(call)
            with self._lock:
                self._idle += 1
            _deliver(call.caller, outcome)
            del call, outcome


def _outcome(call: ThreadCall) -> Outcome:
    try:
        return call.context.run(call.function, call.argument), None
    except BaseException as error:  # noqa: BLE001 - it belongs to the caller; the thread continues
        return None, error


def _deliver(caller: asyncio.Future[Outcome], outcome: Outcome) -> None:
    with suppress(RuntimeError):  # the caller's loop is closed
        caller.get_loop().call_soon_threadsafe(_settle, caller, outcome)


def _settle(caller: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not caller.done():
        caller.set_result(outcome)
