"""Runs a unit in one transaction: in one or two round trips without conflicts, else under locks.

A unit first decides on what the node remembers, if that is all it reads; otherwise it reads without locks.
The one statement that writes also checks that all it has read is still so, and is a transaction by itself.
If the check fails, a unit that used the memory reads, and one that has read starts over in a transaction that
locks what it reads, and so cannot fail again for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime

from headway.codec import Scratch
from headway.store.postgres.connection import Connection, LostError
from headway.store.postgres.database import Commands
from headway.store.postgres.memory import MemoryAnswer, NodeMemory, RowVersion
from headway.store.postgres.reads import ReadVersions, found, reading
from headway.store.postgres.writes import is_nothing, writing, written
from headway.store.rows import InstanceRow, Key
from headway.store.unit import Changes, ConflictError, Found, Reads, Unit


class UncertainCommit(Scratch):
    """A lost connection that leaves open whether a unit was committed.

    If the rows that it was to change are unchanged, it was not; and it cannot be any more when another
    attempt has changed them.
    """

    error: LostError | None = None
    rows: dict[Key, InstanceRow] = {}

    def check_rows(self, wanted: Reads, rows: dict[Key, InstanceRow]) -> None:
        """Raises the error if a row is not as it was."""
        if self.error and any(rows.get(key) != self.rows[key] for key in wanted.instances & self.rows.keys()):
            raise self.error

    def check_changes(self, changes: Changes) -> None:
        """Raises the error if one of the rows is not among the changes."""
        if self.error and not self.rows.keys() <= {(row.tenant, row.id) for row in changes.updated}:
            raise self.error


async def run_unit(
    connection: Connection,
    unit: Unit,
    first: Reads,
    *,
    memory: NodeMemory,
    uncertain: UncertainCommit,
    lock: bool,
    commands: Commands,
) -> None:
    """Run a unit that has begun and wants its first reads; raises ConflictError when it must start over."""
    lock = lock or first.has_commands
    known = None if lock or uncertain.error else memory.recall(first)
    if known is not None and connection.is_quiet():
        if await MemoryAttempt(connection, memory, uncertain).runs(unit, first, known):
            return
        first = unit.begin()
    attempt = UnitAttempt(connection, memory, uncertain, lock=lock)
    attempt.commands = commands
    async with attempt.transaction:
        await attempt.decide(unit, first)
        await attempt.write(unit.changes())
    attempt.remember()


class UnitAttempt:
    """One attempt at a unit: what it has read, and the time of its first read."""

    def __init__(
        self,
        connection: Connection,
        memory: NodeMemory,
        uncertain: UncertainCommit | None = None,
        *,
        lock: bool,
    ) -> None:
        self._connection, self._memory, self._lock = connection, memory, lock
        self._uncertain = uncertain or UncertainCommit()
        self._seen = ReadVersions()
        self._found: dict[Key, InstanceRow] = {}
        self._written: Sequence[tuple[InstanceRow, RowVersion, int]] = ()
        self._time: datetime | None = None
        self._rounds = 0
        self.commands: Commands = {}

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
                assert self._lock, "a unit says at first that it has commands"  # noqa: S101
                found.results = [
                    await self.commands[type(command)](self._connection, command)
                    for command in wanted.commands
                ]
            wanted = unit.take(found)

    async def write(self, changes: Changes) -> None:
        """Write, and check what was read; a single read that leads to no change needs no check."""
        self._uncertain.check_changes(changes)
        if is_nothing(changes) and self._rounds == 1:
            return
        unread = {(row.tenant, row.id) for row in changes.updated} - self._seen.instances.keys()
        if unread and len((await self._read(Reads(instances=unread))).instances) < len(unread):
            raise ConflictError("a row that was to be changed is not there")
        assert self._time, "a unit reads before it writes"  # noqa: S101 - tells the type checker
        sql, values = writing(changes, self._seen, self._time)
        [answer] = await self._connection.fetch(sql, *values, writes=True)
        self._memory.clock.observe(answer["at"])
        self._written = written(changes, self._seen, answer)

    def remember(self) -> None:
        """Remember what was read and written, now that it is committed."""
        memory, seen, read = self._memory.instances, self._seen, self._found
        for row, _, _ in self._written:
            read.pop((row.tenant, row.id), None)
        memory.keep((row, seen.instances[key], seen.stamps[key]) for key, row in read.items())
        memory.keep(self._written)

    async def _read(self, wanted: Reads) -> Found:
        sql, values = reading(wanted, lock=self._lock)
        records = await self._connection.fetch(sql, *values)
        answer = found(records, wanted, self._seen, self._time or self._memory.time())
        if self._time is None:
            self._memory.clock.observe(answer.now)
        self._uncertain.check_rows(wanted, answer.instances)
        self._time = answer.now
        self._found |= answer.instances
        self._rounds += 1
        return answer


class MemoryAttempt(UnitAttempt):
    """An attempt that decides on what is remembered, and takes every request id for new.

    Only the statement that writes checks that: a unit that changes nothing, or that does not write a request
    id which it took for new, has to read.
    """

    def __init__(self, connection: Connection, memory: NodeMemory, uncertain: UncertainCommit) -> None:
        super().__init__(connection, memory, uncertain, lock=False)
        self._recalled: dict[Key, InstanceRow] = {}
        self._assumed: set[Key] = set()

    async def runs(self, unit: Unit, first: Reads, known: MemoryAnswer) -> bool:
        """Whether the unit is done; if not, nothing was changed."""
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
            raise self._uncertain_error(error, changes) from error
        except Exception:  # noqa: BLE001 - the transaction runs again with fresh reads, and raises it if it persists
            self._memory.instances.forget(self._recalled)
            return False
        self.remember()
        return True

    async def _read(self, wanted: Reads) -> Found:
        known = self._memory.recall(wanted)
        return await super()._read(wanted) if known is None else self._recall(wanted, known)

    def _recall(self, wanted: Reads, known: MemoryAnswer) -> Found:
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

    def _uncertain_error(self, error: LostError, changes: Changes) -> LostError:
        """The error to raise: a unit may run again if it cannot change the same version of a row twice."""
        rows = self._found | self._recalled
        changed = {(row.tenant, row.id) for row in changes.updated}
        if not error.maybe_committed or not changed:
            return error
        self._uncertain.error = error
        self._uncertain.rows = {key: rows[key] for key in changed}
        return LostError(str(error))
