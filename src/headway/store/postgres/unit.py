"""Runs a unit in one transaction: in a round trip or two when nobody interferes, else under locks.

At first a unit goes by what is remembered, if that is all it wants, or else reads without locks. The one
statement that writes also checks that all it has seen is still so; that statement is a transaction by itself.
When the check fails, a unit that went by memory reads, and one that has read starts over in a transaction
that locks what it reads, and so cannot fail again for the same reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, NamedTuple

from headway.codec import Scratch
from headway.store.port import Changes, Command, Found, Reads, Unit
from headway.store.postgres.connection import ConflictError, Connection, LostError
from headway.store.postgres.memory import Memory, Remembered, Tide, Version
from headway.store.postgres.reads import Seen, found, reading
from headway.store.postgres.writes import is_nothing, writing, written
from headway.store.rows import InstanceRow, Key

Now = Callable[[], datetime | None]


class Known(NamedTuple):
    """Versions of instances, and the time."""

    now: datetime
    versions: dict[Key, Remembered]


class Past:
    """What a store remembers, and the clock that takes the place of the database's, if there is one."""

    def __init__(self, clock: Now) -> None:
        self.clock = clock
        self.memory = Memory()
        self.tide = Tide()

    def recall(self, wanted: Reads) -> Known | None:
        """What is wanted, when nothing but instances and request ids is, and all instances are known."""
        if not wanted.instances or wanted.counters or wanted.records:
            return None
        now, versions = self.clock() or self.tide.now(), self.memory.recall(wanted.instances)
        return None if now is None or versions is None else Known(now, versions)


class Doubt(Scratch):
    """A loss of the connection after which nobody knows whether a unit is committed.

    When the rows that it was to change are found as they were, it is not; and it cannot be any more when
    another attempt has changed them.
    """

    error: LostError | None = None
    rows: dict[Key, InstanceRow] = {}

    def look_at(self, wanted: Reads, rows: dict[Key, InstanceRow]) -> None:
        """Raises the error when a row is not as it was."""
        if self.error and any(rows.get(key) != self.rows[key] for key in wanted.instances & self.rows.keys()):
            raise self.error

    def look_over(self, changes: Changes) -> None:
        """Raises the error when a row is not changed that was to be."""
        if self.error and not self.rows.keys() <= {(row.tenant, row.id) for row in changes.updated}:
            raise self.error


Run = Callable[[Connection, Command], Awaitable[Any]]
"""Runs a command in the transaction of a unit."""


async def run_unit(
    connection: Connection, unit: Unit, first: Reads, *, past: Past, doubt: Doubt, lock: bool, run: Run
) -> None:
    """Run a unit that has begun and wants its first reads; raises ConflictError when it must start over."""
    lock = lock or first.has_commands
    known = None if lock or doubt.error else past.recall(first)
    if known is not None and connection.is_quiet():
        if await ByMemory(connection, past, doubt).runs(unit, first, known):
            return
        first = unit.begin()
    attempt = Attempt(connection, past, doubt, lock=lock)
    attempt.run = run
    async with attempt.transaction:
        await attempt.decide(unit, first)
        await attempt.write(unit.changes())
    attempt.remember()


class Attempt:
    """One attempt at a unit: what it has seen, and since when."""

    def __init__(self, connection: Connection, past: Past, doubt: Doubt | None = None, *, lock: bool) -> None:
        self._connection, self._past, self._lock = connection, past, lock
        self._doubt = doubt or Doubt()
        self._seen = Seen()
        self._found: dict[Key, InstanceRow] = {}
        self._written: Sequence[tuple[InstanceRow, Version, int]] = ()
        self._time: datetime | None = None
        self._rounds = 0
        self.run: Run | None = None

    @property
    def transaction(self) -> AbstractAsyncContextManager[None]:
        """The transaction of a unit that locks; without locks the last statement is one by itself."""
        return self._connection.transaction() if self._lock else nullcontext()

    async def decide(self, unit: Unit, first: Reads) -> None:
        """Read until the unit has decided."""
        wanted: Reads | None = first
        while wanted is not None:
            found = await self._read(wanted)
            if wanted.commands:
                assert self._lock and self.run, "a unit says at first that it has commands"  # noqa: S101, PT018
                found.results = [await self.run(self._connection, command) for command in wanted.commands]
            wanted = unit.take(found)

    async def write(self, changes: Changes) -> None:
        """Write, and check what was seen; one look that leads to no change needs no check."""
        self._doubt.look_over(changes)
        if is_nothing(changes) and self._rounds == 1:
            return
        unread = {(row.tenant, row.id) for row in changes.updated} - self._seen.instances.keys()
        if unread and len((await self._read(Reads(instances=unread))).instances) < len(unread):
            raise ConflictError("a row that was to be changed is not there")
        assert self._time, "a unit reads before it writes"  # noqa: S101 - tells the type checker
        sql, values = writing(changes, self._seen, self._time)
        [answer] = await self._connection.fetch(sql, *values, writes=True)
        self._past.tide.told(answer["at"])
        self._written = written(changes, self._seen, answer)

    def remember(self) -> None:
        """Keep what was read and what was written in mind, now that it is committed."""
        memory, seen, read = self._past.memory, self._seen, self._found
        for row, _, _ in self._written:
            read.pop((row.tenant, row.id), None)
        memory.keep((row, seen.instances[key], seen.stamps[key]) for key, row in read.items())
        memory.keep(self._written)

    async def _read(self, wanted: Reads) -> Found:
        sql, values = reading(wanted, lock=self._lock)
        records = await self._connection.fetch(sql, *values)
        answer = found(records, wanted, self._seen, self._time or self._past.clock())
        if self._time is None:
            self._past.tide.told(answer.now)
        self._doubt.look_at(wanted, answer.instances)
        self._time = answer.now
        self._found |= answer.instances
        self._rounds += 1
        return answer


class ByMemory(Attempt):
    """An attempt that decides on what is known, as if no request id were.

    What it writes proves it, and so must prove all: when a unit changes nothing, or does not write a request
    id that it was told is new, it has to read.
    """

    def __init__(self, connection: Connection, past: Past, doubt: Doubt) -> None:
        super().__init__(connection, past, doubt, lock=False)
        self._recalled: dict[Key, InstanceRow] = {}
        self._assumed: set[Key] = set()

    async def runs(self, unit: Unit, first: Reads, known: Known) -> bool:
        """Whether the unit is done; if not, nothing has happened."""
        changes = Changes()
        try:
            wanted = unit.take(self._recall(first, known))
            if wanted is not None:
                await self.decide(unit, wanted)
            changes = unit.changes()
            if is_nothing(changes) or not self._proves_requests(changes):
                return False
            await self.write(changes)
        except LostError as error:
            raise self._doubtful(error, changes) from error
        except Exception:  # noqa: BLE001 - if it is wrong with the truth, too, it goes wrong again
            self._past.memory.forget(self._recalled)
            return False
        self.remember()
        return True

    async def _read(self, wanted: Reads) -> Found:
        known = self._past.recall(wanted)
        return await super()._read(wanted) if known is None else self._recall(wanted, known)

    def _recall(self, wanted: Reads, known: Known) -> Found:
        self._time = self._time or known.now
        rows = {}
        for key, (row, version, stamp, _) in known.versions.items():
            self._seen.see(key, version, stamp)
            rows[key] = row
        self._recalled |= rows
        self._assumed |= wanted.requests
        return Found(self._time, rows)

    def _proves_requests(self, changes: Changes) -> bool:
        return self._assumed <= {(row.tenant, row.key) for row in changes.requests}

    def _doubtful(self, error: LostError, changes: Changes) -> LostError:
        """What to raise: a unit may run again if it cannot change the same version of a row twice."""
        rows = self._found | self._recalled
        changed = {(row.tenant, row.id) for row in changes.updated}
        if not error.maybe_committed or not changed:
            return error
        self._doubt.error = error
        self._doubt.rows = {key: rows[key] for key in changed}
        return LostError(str(error))
