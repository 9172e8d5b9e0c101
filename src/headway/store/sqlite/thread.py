"""A thread that owns one connection and runs jobs on it; callers await the results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from headway.errors import StoreUnavailableError
from headway.store.loop_guard import LoopGuard
from headway.store.sqlite.connection import Connection

T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]


class Call(NamedTuple):
    """A job, and what to call on which loop with its outcome."""

    job: Callable[[Connection], Any]
    loop: asyncio.AbstractEventLoop
    done: Callable[[Outcome], None]


class SqliteThread:
    """Runs jobs on a connection one after the other, each to its end, even if its caller was cancelled."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._guard = LoopGuard()

    async def start(self) -> None:
        """Connect; raises what connecting raises."""
        self._guard.bind()
        if self._thread:
            return
        # A process that never closes its store must still be able to end: SQLite undoes what was open.
        self._thread = Thread(target=self._serve, name="headway-sqlite", daemon=True)
        self._thread.start()
        try:
            await self.call(Connection.ping)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish all submitted jobs, disconnect, and end the thread."""
        loop = self._guard.enter()
        thread, self._thread = self._thread, None
        if not thread:
            return
        last: asyncio.Future[Outcome] = loop.create_future()
        self._calls.put(Call(Connection.close, loop, partial(_settle, last)))
        self._calls.put(None)
        await last
        thread.join()
        self._guard.release()

    async def call(self, job: Callable[[Connection], T]) -> T:
        """The result of a job; raises what the job raises."""
        caller: asyncio.Future[Outcome] = self._guard.enter().create_future()
        self.submit(job, partial(_settle, caller))
        answer, error = await caller
        if error is not None:
            raise error
        return answer  # type: ignore[no-any-return]  # what the job returned

    def submit(self, job: Callable[[Connection], Any], done: Callable[[Outcome], None]) -> None:
        """Submit a job; `done` is called on the running loop with its result and its error."""
        call = Call(job, self._guard.enter(), done)
        if self._thread:
            self._calls.put(call)
        else:
            _deliver(call, (None, StoreUnavailableError("the store is not open")))

    def _serve(self) -> None:
        connection: Connection | BaseException
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - it is raised to the callers
            connection = error
        while call := self._calls.get():
            _deliver(call, _outcome(call.job, connection))


def _outcome(job: Callable[[Connection], Any], connection: Connection | BaseException) -> Outcome:
    if isinstance(connection, BaseException):
        return None, connection
    try:
        return job(connection), None
    except BaseException as error:  # noqa: BLE001 - it is raised to the caller
        return None, error


def _deliver(call: Call, outcome: Outcome) -> None:
    with suppress(RuntimeError):  # the caller's loop has closed: nobody waits
        call.loop.call_soon_threadsafe(call.done, outcome)


def _settle(caller: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not caller.done():
        caller.set_result(outcome)
