"""Runs a unit in one transaction: in two round trips when nobody interferes, under locks when somebody does.

At first a unit reads without locks, and the one statement that writes also checks that all it has seen is
still so; that statement is a transaction by itself. When the check fails, the unit starts over in a
transaction that locks what it reads, and so cannot fail again for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime

from headway.store.port import Changes, Found, Reads, Unit
from headway.store.postgres_connection import ConflictError, Connection
from headway.store.postgres_reads import Seen, found, reading
from headway.store.postgres_writes import writing

NO_CHANGES = Changes()
Now = Callable[[], datetime | None]


async def run_unit(connection: Connection, unit: Unit, first: Reads, now: Now, *, lock: bool) -> None:
    """Run a unit that has begun and wants its first reads; raises ConflictError when it must start over."""
    attempt = Attempt(connection, now, lock=lock)
    async with attempt.transaction:
        await attempt.decide(unit, first)
        await attempt.write(unit.changes())


class Attempt:
    """One attempt at a unit: what it has seen, and since when."""

    def __init__(self, connection: Connection, now: Now, *, lock: bool) -> None:
        self._connection, self._now, self._lock = connection, now, lock
        self._seen = Seen()
        self._time: datetime | None = None
        self._rounds = 0

    @property
    def transaction(self) -> AbstractAsyncContextManager[None]:
        """The transaction of a unit that locks; without locks the last statement is one by itself."""
        return self._connection.transaction() if self._lock else nullcontext()

    async def decide(self, unit: Unit, first: Reads) -> None:
        """Read until the unit has decided."""
        wanted: Reads | None = first
        while wanted is not None:
            wanted = unit.take(await self._read(wanted))

    async def write(self, changes: Changes) -> None:
        """Write, and check what was seen; one look that leads to no change needs no check."""
        if changes == NO_CHANGES and self._rounds == 1:
            return
        unread = {(row.tenant, row.id) for row in changes.updated} - self._seen.instances.keys()
        if unread and len((await self._read(Reads(instances=unread))).instances) < len(unread):
            raise ConflictError("a row that was to be changed is not there")
        assert self._time, "a unit reads before it writes"  # noqa: S101 - tells the type checker
        sql, values = writing(changes, self._seen, self._time)
        await self._connection.fetch(sql, *values, writes=True)

    async def _read(self, wanted: Reads) -> Found:
        sql, values = reading(wanted, lock=self._lock)
        records = await self._connection.fetch(sql, *values)
        answer = found(records, wanted, self._seen, self._time or self._now())
        self._time = answer.now
        self._rounds += 1
        return answer
