"""Connections to PostgreSQL: they raise Headway's errors, and one of them listens for notifications."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg

from headway.errors import STORE_NOT_OPEN, InputError, StoreError, StoreFullError, StoreUnavailableError
from headway.store.loop_guard import LoopGuard
from headway.store.port import ANYTHING
from headway.store.unit import ConflictError

T = TypeVar("T")

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""From which PostgreSQL counts."""
MICROSECOND = timedelta(microseconds=1)
TIMES_KEPT = 1024
"""Rows that were written together share their times."""

PATIENCE = 10
LONGEST_STATEMENT = 60
PLANS_ARE_GOOD_FOR = 10
"""Seconds. A plan made for an empty table is bad once it grows; making a new plan takes a millisecond."""

# Each statement finds its rows by their keys, however few rows the planner believes a table to hold. A node
# that is stopped in the middle of a transaction does not hold the others up for ever.
SETTINGS = {
    "cpu_index_tuple_cost": "1",
    "enable_seqscan": "off",
    "idle_in_transaction_session_timeout": "30s",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "random_page_cost": "0.01",
}
SET = "".join(f"SET {name} = '{value}';" for name, value in SETTINGS.items())
"""Sent after a session has started: PgBouncer refuses to start one with settings that it does not know."""
START_OVER = {"23505", "40001", "40P01"}  # unique violation, serialization failure, deadlock
FULL = "53100"
READ_ONLY = "25006"
"""A primary that became a standby refuses each change, on connections that it has not cut."""
# By class: connection, authorization, no such database, resources, operator, system.
UNAVAILABLE = {"08", "28", "3D", "53", "57", "58"}
UNFIT = {"22", "54"}  # by class: data exception, program limit
DATABASE_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
CHANNEL = "headway"
ANNOUNCE = "SELECT pg_notify($1, $2 || ' ' || topic) FROM unnest($3::text[]) AS topic"
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
CHECKED_EVERY = 15.0
"""Seconds between checks whether the connection still answers: it may be lost without notice."""


class LostError(StoreUnavailableError):
    """The connection was lost or could not be made."""


class Connection:
    """One connection, for one user at a time."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def is_quiet(self) -> bool:
        """Whether there is no unread input, such as the end of the connection."""
        transport = self._raw._transport  # noqa: SLF001 - the driver sees it only after the next turn of the loop
        poll = select.poll()
        poll.register(transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)

    async def fetch(self, sql: str, *values: Any, writes: bool = False) -> list[Any]:
        """The rows that a statement answers with; one that writes outside a transaction commits by itself."""
        return await self._call(
            self._raw.fetch(sql, *values), commits=writes and not self._raw.is_in_transaction()
        )

    async def script(self, sql: str) -> None:
        """Run statements in one transaction."""
        await self._call(self._raw.execute(sql), commits=True)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """All that is written within stays, or nothing when it raises."""
        transaction = self._raw.transaction()
        await self._call(_done(transaction.start))
        try:
            yield
        except BaseException:
            with suppress(StoreError):  # the error that led here says more
                await self._call(_done(transaction.rollback))
            raise
        await self._call(_done(transaction.commit), commits=True)

    async def _call(self, answer: Awaitable[T], *, commits: bool = False) -> T:
        was_closed = self._raw.is_closed()
        try:
            return await answer
        except DATABASE_ERRORS as error:
            raise translated(error, committing=commits and not was_closed) from error


async def _done(step: Callable[[], Awaitable[T]]) -> T:
    """A step of the driver, which refuses some before there is anything to wait for."""
    return await step()


class Connections:
    """A pool of connections, made on demand; lost ones are replaced. `made` is called for each."""

    def __init__(self, address: str, size: int, made: Callable[[], None] = lambda: None) -> None:
        self._address, self._made = address, made
        self._room = asyncio.Semaphore(size)
        self._free: list[Any] = []
        self._calls = 0
        self._is_open = False
        self._idle = asyncio.Event()
        self._guard = LoopGuard()

    def open(self) -> None:
        """Be ready to connect."""
        self._guard.bind()
        self._is_open = True

    def require_loop(self) -> None:
        """Raise WrongLoopError if the running loop is another one than that of `open`."""
        self._guard.enter()

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        self.require_loop()
        self._is_open = False
        while self._calls:
            self._idle.clear()
            await self._idle.wait()
        while self._free:
            with suppress(*DATABASE_ERRORS):  # it is gone either way
                await self._free.pop().close(timeout=PATIENCE)
        self._guard.release()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call that closing waits for; raises StoreUnavailableError when the store is not open."""
        self.require_loop()
        if not self._is_open:
            raise StoreUnavailableError(STORE_NOT_OPEN)
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for oneself; belongs in a call."""
        async with self._room:
            raw = await self._take()
            try:
                yield Connection(raw)
            except (asyncio.CancelledError, LostError):
                raw.terminate()  # it may be in the middle of a statement that nobody waits for
                raise
            finally:
                if not raw.is_closed():
                    self._free.append(raw)

    async def _take(self) -> Any:
        while self._free:
            raw = self._free.pop()
            if not raw.is_closed():
                return raw
        try:
            raw = await connect(self._address)
        except (*DATABASE_ERRORS, ValueError) as error:
            raise translated(error) from error
        self._made()
        return raw


async def connect(address: str) -> Any:
    """A connection as all of them are set up."""
    raw = await asyncpg.connect(
        address,
        timeout=PATIENCE,
        command_timeout=LONGEST_STATEMENT,
        max_cached_statement_lifetime=PLANS_ARE_GOOD_FOR,
        server_settings={"application_name": "headway"},
    )
    try:
        await raw.execute(SET)
        await _exact_times(raw)
    except BaseException:
        raw.terminate()
        raise
    return raw


async def _exact_times(connection: Any) -> None:
    """Times as microseconds, because the driver takes the first and the last time there is for infinity."""
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=_to_time, decoder=_from_time, format="tuple"
    )


@lru_cache(TIMES_KEPT)
def _to_time(at: datetime) -> tuple[int]:
    return ((at - EPOCH) // MICROSECOND,)


@lru_cache(TIMES_KEPT)
def _from_time(stored: tuple[int]) -> datetime:
    return EPOCH + timedelta(microseconds=stored[0])


def translated(error: Exception, *, committing: bool = False) -> Exception:
    """The error of Headway for one of PostgreSQL or its driver."""
    if isinstance(error, asyncpg.DataError | UnicodeError):
        return InputError(f"the store cannot hold this: {error}")
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate:
        return _by_state(error.sqlstate, str(error), committing=committing)
    return LostError(f"PostgreSQL: {str(error) or type(error).__name__}", maybe_committed=committing)


def _by_state(state: str, said: str, *, committing: bool) -> Exception:
    if state in START_OVER:
        return ConflictError(f"PostgreSQL: {said}")
    if state == FULL:
        return StoreFullError(f"there is no room left for the database ({said}); nothing was changed")
    if state == READ_ONLY:
        return LostError(f"PostgreSQL: {said}")
    if state[:2] in UNAVAILABLE:
        return LostError(f"PostgreSQL: {said}", maybe_committed=committing)
    if state[:2] in UNFIT:
        return InputError(f"the store cannot hold this: {said}")
    return StoreError(f"PostgreSQL: {said}")


class Listener:
    """Hears what others announce, from the first `listen` until `close`."""

    def __init__(self, address: str) -> None:
        self.name = uuid4().hex
        """Marks what its own process has announced."""
        self._address = address
        self._callbacks: list[Callable[[str], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic; comes back when it hears, or has to try again.

        One that hears again after it did not calls back with ANYTHING.
        """
        self._callbacks.append(heard)
        if self._task is None:
            self._tried.clear()
            self._task = asyncio.create_task(self._keep_listening())
        await self._tried.wait()

    async def close(self) -> None:
        """Hear no more."""
        task, self._task = self._task, None
        self._callbacks.clear()
        self._tried.set()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _keep_listening(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._listen_until_lost()
                pause = FIRST_PAUSE
            except (*DATABASE_ERRORS, ValueError):
                pause = min(2 * pause, LONGEST_PAUSE)
            self._tried.set()
            await asyncio.sleep(pause)

    async def _listen_until_lost(self) -> None:
        raw = await connect(self._address)
        lost = asyncio.Event()
        try:
            raw.add_termination_listener(lambda _: lost.set())
            await raw.add_listener(CHANNEL, self._hear)
            if self._tried.is_set():
                self._tell(ANYTHING)
            self._tried.set()
            await _stay(raw, lost)
        finally:
            with suppress(*DATABASE_ERRORS):  # it is gone either way
                await raw.close(timeout=PATIENCE)

    def _hear(self, _connection: Any, _pid: int, _channel: str, said: str) -> None:
        name, _, topic = said.partition(" ")
        if name != self.name:
            self._tell(topic)

    def _tell(self, topic: str) -> None:
        for callback in self._callbacks:
            callback(topic)


async def _stay(raw: Any, lost: asyncio.Event) -> None:
    """Come back when a connection is lost; raises an error of the database when it does not answer."""
    while not lost.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECKED_EVERY):
                await lost.wait()
                return
        try:
            await raw.execute("SELECT 1", timeout=PATIENCE)
        except BaseException:
            raw.terminate()  # it does not answer, so it cannot be closed in order
            raise
