"""A connection to SQLite, which raises Headway's errors, and the thread that owns it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from headway.errors import (
    STORE_NOT_OPEN,
    InputError,
    SchemaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from headway.store.loop_guard import LoopGuard
from headway.store.unit import ConflictError

T = TypeVar("T")

MEMORY = ":memory:"
PAGES_IN_MEMORY = -4 * 1024  # in KiB, as SQLite wants it
UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process",
    sqlite3.SQLITE_LOCKED: "the database is locked",
    sqlite3.SQLITE_IOERR: "the database's file cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "the database's file cannot be opened",
    sqlite3.SQLITE_READONLY: "the database's file may not be written",
    sqlite3.SQLITE_CORRUPT: "the database's file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is not a database",
}
DUPLICATES = {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE}
UNFIT = (OverflowError, UnicodeError)
Outcome = tuple[Any, BaseException | None]


class Connection:
    """One connection, to be used on the thread that made it."""

    def __init__(self, path: str, *, patience: int, create: bool = False, read_only: bool = False) -> None:
        try:
            self._raw = _connect(path, patience, create=create)
            for pragma in _pragmas(read_only=read_only):
                self._raw.execute(pragma)
        except sqlite3.Error as error:
            raise translated(error) from error

    def fetch(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """The rows a statement answers with."""
        try:
            return self._raw.execute(sql, values).fetchall()
        except (sqlite3.Error, *UNFIT) as error:
            raise translated(error) from error

    def write(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each of some rows; answers how many rows of the database it has changed."""
        try:
            return self._raw.executemany(sql, rows).rowcount
        except (sqlite3.Error, *UNFIT) as error:
            raise translated(error) from error

    def script(self, sql: str) -> None:
        """Run statements in one transaction."""
        try:
            self._raw.executescript(f"BEGIN IMMEDIATE;\n{sql}\n;COMMIT;")
        except sqlite3.Error as error:
            self._roll_back()
            raise translated(error) from error

    def transaction(self, job: Callable[[Connection], T]) -> T:
        """Run a job in a transaction: all it has written stays, or nothing when it raises."""
        return self._within("BEGIN IMMEDIATE", job)

    def snapshot(self, job: Callable[[Connection], T]) -> T:
        """Run a job that only reads, and sees everything at one time."""
        return self._within("BEGIN", job)

    def _within(self, begin: str, job: Callable[[Connection], T]) -> T:
        self.fetch(begin)
        try:
            answer = job(self)
            self._commit()
        except BaseException:
            self._roll_back()
            raise
        return answer

    def write_ahead(self) -> None:
        """Let readers and a writer not wait for each other. It is a property of the file, and stays."""
        self.fetch("PRAGMA journal_mode = WAL")

    def ping(self) -> None:
        """Look whether the database answers."""
        self.fetch("SELECT 1 FROM sqlite_master LIMIT 1")

    def close(self) -> None:
        """Disconnect."""
        with suppress(sqlite3.Error):  # the last checkpoint may fail; what was committed stands in the log
            self._raw.close()

    def _commit(self) -> None:
        try:
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error, committing=True) from error

    def _roll_back(self) -> None:
        if self._raw.in_transaction:
            with suppress(sqlite3.Error):  # the error that led here says more
                self._raw.execute("ROLLBACK")


def _connect(path: str, patience: int, *, create: bool) -> sqlite3.Connection:
    if path != MEMORY and not create and not Path(path).exists():
        raise SchemaError(
            f"there is no database at {path}: make one with `headway db up --database sqlite:///{path}`"
        )
    return sqlite3.connect(path, timeout=patience / 1_000, isolation_level=None, cached_statements=256)


def _pragmas(*, read_only: bool) -> Iterable[str]:
    yield "PRAGMA synchronous = FULL"
    yield "PRAGMA foreign_keys = ON"
    yield f"PRAGMA cache_size = {PAGES_IN_MEMORY}"
    if read_only:
        yield "PRAGMA query_only = ON"


def translated(error: Exception, *, committing: bool = False) -> Exception:
    """The error of Headway for one of SQLite."""
    if isinstance(error, UNFIT):
        return InputError(f"the store cannot hold this: {error}")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return StoreError(f"SQLite: {error}")
    if code in DUPLICATES:
        return ConflictError(f"SQLite: {error}")
    return _by_kind(code & 0xFF, str(error), committing=committing)


def _by_kind(kind: int, said: str, *, committing: bool) -> StoreError:
    if kind == sqlite3.SQLITE_FULL:
        return StoreFullError(f"there is no room left for the database ({said}); nothing was changed")
    if kind in UNAVAILABLE:
        # When the log cannot be synced, its last record may be on the disk all the same.
        doubtful = committing and kind == sqlite3.SQLITE_IOERR
        return StoreUnavailableError(f"{UNAVAILABLE[kind]} ({said})", maybe_committed=doubtful)
    return StoreError(f"SQLite: {said}")


class SubmittedJob(NamedTuple):
    """A job, and what to call on which loop with its outcome."""

    job: Callable[[Connection], Any]
    loop: asyncio.AbstractEventLoop
    done: Callable[[Outcome], None]


class SqliteThread:
    """Runs jobs on a connection one after the other, each to its end, even if its caller was cancelled."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._calls: SimpleQueue[SubmittedJob | None] = SimpleQueue()
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
        self._calls.put(SubmittedJob(Connection.close, loop, partial(_settle, last)))
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
        call = SubmittedJob(job, self._guard.enter(), done)
        if self._thread:
            self._calls.put(call)
        else:
            _deliver(call, (None, StoreUnavailableError(STORE_NOT_OPEN)))

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


def _deliver(call: SubmittedJob, outcome: Outcome) -> None:
    with suppress(RuntimeError):  # the caller's loop has closed: nobody waits
        call.loop.call_soon_threadsafe(call.done, outcome)


def _settle(caller: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not caller.done():
        caller.set_result(outcome)
