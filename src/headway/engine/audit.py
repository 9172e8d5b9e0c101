"""The audit: finds what stands in a database and was not written by the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from headway.codec import Value, decode
from headway.engine.journal import BEGINNING
from headway.engine.trail import Trail, contradiction, differences
from headway.errors import InputError, StoreError, StoreFullError, StoreUnavailableError
from headway.statechart.export import chart_hash
from headway.statechart.model import Model
from headway.statechart.snapshot import Snapshot, Timer
from headway.store.port import AskQuery, Store, TimerQuery, WorkQuery
from headway.store.rows import AskRow, ChartRow, InstanceRow, Key, TimerRow

T = TypeVar("T")

PAGE = 500
TRIES = 5
"""So often an instance is looked at anew when it was pruned or has moved meanwhile."""


class Flaw(Value):
    """Something that was not written by the engine; without a tenant when it belongs to a chart."""

    tenant: str
    instance: str
    seq: int
    what: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.tenant}/{self.instance} at {self.seq}: {self.what}" if self.tenant else self.what


class UnreadableError(StoreError):
    """What stands in the database cannot be what the engine has written there."""


class Audit:
    """Goes through instances, their journals, asks, timers and work, and the charts they follow."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: set[tuple[str, int]] | None = None
        self.instances = 0
        self.lines = 0

    async def everything(self) -> AsyncIterator[Flaw]:
        """The flaws of all charts, and of all instances of all tenants."""
        for what in await self.charts():
            yield Flaw("", "", 0, what)
        async for key in _all(self._store.journals):
            async for flaw in self.instance(key):
                yield flaw
        async for key in _all(self._store.names):
            if not await self._has_lines(key):
                async for flaw in self.instance(key):
                    yield flaw

    async def charts(self) -> list[str]:
        """What is wrong with the versions of charts that are stored."""
        try:
            rows = await _read(self._store.charts())
        except UnreadableError as error:
            self._versions = None
            return [f"the versions of charts cannot be read: {error}"]
        self._versions = {(row.chart, row.version) for row in rows}
        return [f"chart {row.chart} v{row.version}: {what}" for row in rows if (what := _verdict(row))]

    async def instance(self, key: Key) -> AsyncIterator[Flaw]:
        """The flaws of one instance: the first in each stretch of its journal, and how it ends.

        It may move or be pruned meanwhile, which is no flaw.
        """
        self.instances += 1
        trail = await self._followed(key, BEGINNING)
        for _ in range(TRIES):
            if not trail.flaws:
                break
            start = await self._start(key)
            trail = await self._followed(key, start[0])
            if await self._start(key) == start:
                break
        else:
            return  # it is being pruned all the while
        self.lines += trail.lines
        for seq, what in trail.flaws:
            yield Flaw(*key, seq, what)

    async def _start(self, key: Key) -> tuple[str, object]:
        """What changes when an instance is pruned, in part or as a whole, or created anew."""
        try:
            row = await _read(self._store.instance(key))
        except UnreadableError as error:
            return BEGINNING, str(error)
        # Nobody prunes what lives.
        ended = row is not None and row.ended
        return await self._store.pruned(key) if ended else BEGINNING, row and row.created_at

    async def _followed(self, key: Key, before: str) -> Trail:
        trail = Trail(key, before)
        try:
            # The instance is read first: whatever it does meanwhile, there are lines up to where it stood.
            row = await _read(self._store.instance(key))
            more = await self._catch_up(trail, row)
            if row is not None:
                await self._compare(trail, row, more=more)
            elif trail.lines and await self._has_lines(key):
                trail.flaw("it has a history, but the instance is gone")
        except UnreadableError as error:
            trail.flaw(f"what stands there cannot be read: {error}")
        return trail

    async def _catch_up(self, trail: Trail, row: InstanceRow | None) -> bool:
        """Follow the lines up to where an instance stands, or all of them; whether there may be more."""
        limit = PAGE
        while row is None or trail.hash != row.journal:
            try:
                page = await _read(self._store.history(trail.key, trail.position, limit))
            except UnreadableError as error:
                if limit == 1:
                    raise UnreadableError(f"the next line, {error}") from error
                limit = 1  # so that all that stand before it are looked at
                continue
            for place, line in enumerate(page, 1):
                trail.take(line)
                if row is not None and line.hash == row.journal:
                    return place < len(page) or len(page) == limit
            if not page:
                return False
        return True

    async def _compare(self, trail: Trail, row: InstanceRow, *, more: bool) -> None:
        """Whether an instance is what its history tells, and what belongs to it is there.

        Of one that never rests only its row and its history are judged.
        """
        for _ in range(TRIES):
            snapshot = _decoded(row.snapshot)
            if (what := contradiction(trail, row, snapshot)) is not None:
                trail.flaw(what)
            await self._know(trail, row)
            found = await self._beside(trail, snapshot)
            if more and await self._has_lines(trail.key, trail.position):
                found.append("its history goes on, and it does not")
            again = await _read(self._store.instance(trail.key)) if found else row
            if again is None or again == row:
                for what in found:
                    trail.flaw(what)
                return
            row, more = again, await self._catch_up(trail, again)

    async def _know(self, trail: Trail, row: InstanceRow) -> None:
        """Whether the versions of its chart by which it has lived are stored."""
        used = {(row.chart, version) for version in trail.versions | {row.version}}
        if self._versions is None or not used <= self._versions:
            await self.charts()
        for chart, version in sorted(used - self._versions) if self._versions is not None else ():
            trail.flaw(f"{chart} v{version}, by which it has lived, is not stored")

    async def _beside(self, trail: Trail, snapshot: Snapshot) -> list[str]:
        """What is wrong with the asks, timers and work of an instance."""
        found: list[str] = []
        if trail.asks and trail.complete:
            found += differences(trail.asks, await self._asks(trail.key))
        tenant, name = trail.key
        if snapshot.timers:
            timers = await self._timers(tenant, tuple(snapshot.timers))
            found += [
                f"the timer {id_} is gone, or was changed"
                for id_, timer in snapshot.timers.items()
                if not _is(timers.get(id_), name, timer)
            ]
        if snapshot.work:
            ids = tuple(work.id for work in snapshot.work.values())
            rows = await _read(self._store.work(WorkQuery(tenant, ids=ids, limit=len(ids))))
            there = {row.id: (row.instance, row.attempt) for row in rows}
            found += [
                f"the work {work.id} is gone, or was changed"
                for work in snapshot.work.values()
                if there.get(work.id) != (name, work.attempt)
            ]
        return found

    async def _timers(self, tenant: str, ids: tuple[str, ...]) -> dict[str, TimerRow]:
        rows = await _read(self._store.timers(TimerQuery(tenant, ids=ids, limit=len(ids))))
        return {row.id: row for row in rows}

    async def _asks(self, key: Key) -> dict[str, AskRow]:
        """The asks of an instance, open and closed."""
        rows: dict[str, AskRow] = {}
        for is_open in (True, False):
            query = AskQuery(key[0], instance=key[1], open=is_open, limit=PAGE)
            while page := await _read(self._store.asks(query)):
                rows |= {row.id: row for row in page}
                query = AskQuery(key[0], instance=key[1], open=is_open, after=page[-1].id, limit=PAGE)
        return rows

    async def _has_lines(self, key: Key, after: int = 0) -> bool:
        try:
            return bool(await _read(self._store.history(key, after, 1)))
        except UnreadableError:
            return True


def _verdict(row: ChartRow) -> str | None:
    """What is wrong with a version of a chart."""
    try:
        whole = decode(Model, row.document)
    except InputError as error:
        return f"its document cannot be read: {error}"
    fits = (whole.name, whole.version, chart_hash(whole)) == (row.chart, row.version, row.hash)
    return None if fits else "its document was changed, or is not its own"


def _decoded(text: str) -> Snapshot:
    try:
        return decode(Snapshot, text)
    except InputError as error:
        raise UnreadableError(f"the snapshot, {error}") from error


async def _read(reading: Awaitable[T]) -> T:
    """What a store answers; raises UnreadableError for what no store of ours has written."""
    try:
        return await reading
    except (StoreUnavailableError, StoreFullError):
        raise
    except (StoreError, InputError, ValueError, ArithmeticError) as error:
        raise UnreadableError(str(error)) from error


async def _all(pages: Callable[[Key, int], Awaitable[Sequence[Key]]]) -> AsyncIterator[Key]:
    after: Key = ("", "")
    while page := await pages(after, PAGE):
        for key in page:
            yield key
        after = page[-1]


def _is(row: TimerRow | None, instance: str, timer: Timer) -> bool:
    """Whether a row is that of an instance's timer; the engine itself puts off one that could not fire."""
    if row is None or row.due < timer.due:
        return False
    return (row.instance, row.event) == (instance, timer.event)
