"""The audit: finds rows in a database that the engine did not write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from headway.codec import Value, decode
from headway.engine.audit.checkpoint import Checkpoint, Head
from headway.engine.audit.dependents import Lived, UnreadableError, read, strays, timer_flaws, work_flaws
from headway.engine.commit import Commit, Noted, write_effects
from headway.engine.journal import BEGINNING, follows, is_sealed
from headway.errors import InputError
from headway.statechart.export import chart_hash
from headway.statechart.model import Model
from headway.statechart.snapshot import Snapshot
from headway.store.port import Store
from headway.store.queries import AskQuery, TimerQuery, WorkQuery
from headway.store.rows import (
    AskChange,
    AskClosing,
    AskRow,
    ChartRow,
    HistoryRow,
    InstanceRow,
    Key,
    changed_ask,
)
from headway.store.unit import Changes

PAGE = 500
MOST_MISFILED = 1_000
GONE = "it is gone since the checkpoint, and was not pruned"
TRIES = 5
"""How often an instance is read again when it was pruned or changed meanwhile."""


class Flaw(Value):
    """Something that was not written by the engine; without a tenant when it belongs to a chart."""

    tenant: str
    instance: str
    seq: int
    what: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.tenant}/{self.instance} at {self.seq}: {self.what}" if self.tenant else self.what


class Audit:
    """Goes through instances, their journals, asks, timers and work, and the charts they follow."""

    def __init__(
        self,
        store: Store,
        *,
        against: Checkpoint | None = None,
        seen: Callable[[Head], None] = lambda _: None,
    ) -> None:
        """`against` is what the database is compared with; `seen` is called with where each instance is."""
        self._store = store
        self._against, self._seen = against, seen
        self._models: dict[tuple[str, int], Model | None] | None = None
        """The versions of charts that are stored; those without a model cannot be read."""
        self.instances = 0
        self.lines = 0

    async def everything(self) -> AsyncIterator[Flaw]:
        """The flaws of all charts, and of all instances of all tenants."""
        for what in await self.charts():
            yield Flaw("", "", 0, what)
        async for key in self._keys():
            async for flaw in self.instance(key):
                yield flaw
        async for flaw in self.rest():
            yield flaw

    async def _keys(self) -> AsyncIterator[Key]:
        """All that have lines or a row."""
        async for key in _all(self._store.history.journals):
            yield key
        async for key in _all(self._store.instances.names):
            if not await self._has_lines(key):
                yield key

    async def rest(self) -> AsyncIterator[Flaw]:
        """The flaws that belong to no instance that is there."""
        async for key, what in strays(self._store):
            yield Flaw(*key, 0, what)
        for flaw in await self.inbox():
            yield flaw
        if self._against is not None:
            async for head in self._against.gone(self._store):
                yield Flaw(head.tenant, head.instance, head.seq, GONE)

    async def inbox(self) -> list[Flaw]:
        """The asks that are missing in the inbox of their audience, or are in the inbox of others."""
        try:
            misfiled = await read(self._store.asks.misfiled(MOST_MISFILED))
        except UnreadableError as error:
            return [Flaw("", "", 0, f"the index of the inbox cannot be compared with the asks: {error}")]
        what = "the index of the inbox does not list the ask {} for those whom it is for, or for others, too"
        return [Flaw(tenant, ask.rsplit(":", 2)[0], 0, what.format(ask)) for tenant, ask in misfiled]

    async def charts(self) -> list[str]:
        """What is wrong with the versions of charts that are stored."""
        try:
            rows = await read(self._store.charts.all())
        except UnreadableError as error:
            self._models = None
            return [f"the versions of charts cannot be read: {error}"]
        judged = [(row, *_judged(row)) for row in rows]
        self._models = {(row.chart, row.version): model for row, model, _ in judged}
        return [f"chart {row.chart} v{row.version}: {what}" for row, _, what in judged if what]

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
        """A value that changes when an instance is pruned, in part or as a whole, or created again."""
        try:
            row = await read(self._store.instances.get(key))
        except UnreadableError as error:
            return BEGINNING, str(error)
        # Nobody prunes what lives.
        ended = row is not None and row.ended
        return await self._store.history.pruned(key) if ended else BEGINNING, row and row.created_at

    async def _followed(self, key: Key, before: str) -> Trail:
        trail = Trail(key, before)
        try:
            # The instance is read first: whatever it does meanwhile, there are lines up to where it stood.
            row = await read(self._store.instances.get(key))
            if self._against is not None:
                trail = Trail(key, before, self._against.head(key, row))
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
                page = await read(self._store.history.page(trail.key, trail.position, limit))
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
        """Check that an instance matches its history, and that its rows exist.

        For an instance that keeps changing, only its row and its history are checked.
        """
        for _ in range(TRIES):
            snapshot = _decoded(row.snapshot)
            for what in (contradiction(trail, row, snapshot), trail.setback(row)):
                if what is not None:
                    trail.flaw(what)
            await self._know(trail, row)
            found = await self._beside(trail, row, snapshot)
            if more and await self._has_lines(trail.key, trail.position):
                found.append("its history goes on, and it does not")
            again = await read(self._store.instances.get(trail.key)) if found else row
            if again is None or again == row:
                for what in found:
                    trail.flaw(what)
                self._keep(trail, row)
                return
            row, more = again, await self._catch_up(trail, again)
        self._keep(trail, row)

    def _keep(self, trail: Trail, row: InstanceRow) -> None:
        """Record the position of an instance."""
        if trail.last is not None:
            stamp, position, _ = trail.last.cursor
            self._seen(
                Head(
                    tenant=trail.key[0],
                    instance=trail.key[1],
                    created_at=row.created_at,
                    seq=row.seq,
                    ended=row.ended,
                    journal=trail.hash,
                    log=(stamp, position),
                )
            )

    async def _know(self, trail: Trail, row: InstanceRow) -> None:
        """Whether the versions of its chart by which it has lived are stored."""
        used = {(row.chart, version) for version in trail.versions | {row.version}}
        if self._models is None or not used <= self._models.keys():
            await self.charts()
        for chart, version in sorted(used - self._models.keys()) if self._models is not None else ():
            trail.flaw(f"{chart} v{version}, by which it has lived, is not stored")

    async def _beside(self, trail: Trail, row: InstanceRow, snapshot: Snapshot) -> list[str]:
        """What is wrong with the asks, timers and work of an instance."""
        found = differences(trail.asks, await self._asks(trail.key)) if trail.complete else []
        if not snapshot.timers and not snapshot.work:
            return found
        tenant, timers = row.tenant, tuple(snapshot.timers)
        work = tuple(each.id for each in snapshot.work.values())
        set_ = await read(self._store.timers.page(TimerQuery(tenant, ids=timers, limit=len(timers) or 1)))
        open_ = await read(self._store.work.page(WorkQuery(tenant, ids=work, limit=len(work) or 1)))
        # The time is read last, so that it is no earlier than what it is compared with.
        lived = Lived(row, snapshot, self._lived_by(trail, row), await self._store.now())
        found += timer_flaws({each.id: each for each in set_}, lived)
        found += work_flaws({each.id: each for each in open_}, lived)
        return found

    def _lived_by(self, trail: Trail, row: InstanceRow) -> tuple[Model, ...]:
        """The versions of its chart by which an instance has lived, the present one first."""
        models = self._models or {}
        versions = [row.version, *sorted(trail.versions - {row.version}, reverse=True)]
        if models.get((row.chart, row.version)) is None:
            return ()
        return tuple(model for each in versions if (model := models.get((row.chart, each))) is not None)

    async def _asks(self, key: Key) -> dict[str, AskRow]:
        """The asks of an instance, open and closed."""
        rows: dict[str, AskRow] = {}
        for is_open in (True, False):
            query = AskQuery(key[0], instance=key[1], open=is_open, limit=PAGE)
            while page := await read(self._store.asks.page(query)):
                rows |= {row.id: row for row in page}
                query = AskQuery(key[0], instance=key[1], open=is_open, after=page[-1].id, limit=PAGE)
        return rows

    async def _has_lines(self, key: Key, after: int = 0) -> bool:
        try:
            return bool(await read(self._store.history.page(key, after, 1)))
        except UnreadableError:
            return True


def _judged(row: ChartRow) -> tuple[Model | None, str | None]:
    """A version of a chart, if it can be read, and what is wrong with it."""
    try:
        whole = decode(Model, row.document)
    except InputError as error:
        return None, f"its document cannot be read: {error}"
    fits = (whole.name, whole.version, chart_hash(whole)) == (row.chart, row.version, row.hash)
    return whole, None if fits else "its document was changed, or is not its own"


def _decoded(text: str) -> Snapshot:
    try:
        return decode(Snapshot, text)
    except InputError as error:
        raise UnreadableError(f"the snapshot, {error}") from error


async def _all(pages: Callable[[Key, int], Awaitable[Sequence[Key]]]) -> AsyncIterator[Key]:
    after: Key = ("", "")
    while page := await pages(after, PAGE):
        for key in page:
            yield key
        after = page[-1]


class Trail:
    """The lines of an instance after the one with a hash, up to a place, and the flaws they have.

    `asks` is what those lines say of the instance's asks, by id; `complete` whether they are all there are.
    """

    def __init__(self, key: Key, before: str, head: Head | None = None) -> None:
        """`head` is where a checkpoint has seen the instance."""
        self.key = key
        self._head = head
        self._is_met = head is None
        self.hash = before
        self._begun = before != BEGINNING
        self.complete = not self._begun
        self.last: HistoryRow | None = None
        self.position = 0
        self.lines = 0
        self.asks: dict[str, AskRow] = {}
        self.versions: set[int] = set()
        self.flaws: list[tuple[int, str]] = []

    @property
    def seq(self) -> int:
        """The transition of the last line."""
        return 0 if self.last is None else self.last.seq

    def flaw(self, what: str) -> None:
        """Note a flaw of what comes after the last line."""
        self.flaws.append((self.seq, what))

    def take(self, line: HistoryRow) -> None:
        """Follow a line."""
        if not follows(line, self.hash):
            self.flaws.append((line.seq, self._verdict(line)))
            self.complete = False
        elif line.note is not None:
            self._follow(line, line.note)
        self.hash, self.last, self.position = line.hash, line, line.position
        self._is_met = self._is_met or (self._head is not None and self._head.journal == line.hash)
        self.versions.add(line.version)
        self.lines += 1

    def setback(self, row: InstanceRow) -> str | None:
        """Why an instance that has followed these lines cannot have been where a checkpoint has seen it."""
        if self._head is None:
            return None
        if row.seq < self._head.seq:
            return f"it was set back: it is at {row.seq}, and was at {self._head.seq} at the checkpoint"
        # The first lines of one that has ended may be pruned before the others.
        is_pruned = self._begun and row.ended
        return (
            None if self._is_met or is_pruned else "it was set back: the last line of the checkpoint is gone"
        )

    def _verdict(self, line: HistoryRow) -> str:
        if line.seq > self.seq + 1:
            return f"lines after {self.seq} are missing"
        if line.seq < self.seq:
            return f"it stands after {self.seq}: lines were moved, or put in"
        return "the line or the one before it was changed, or one between them is missing"

    def _follow(self, line: HistoryRow, note: str) -> None:
        """Do to the asks what the step has done to those that are stored."""
        try:
            effects = decode(tuple[Noted, ...], note)
        except InputError as error:
            self.flaws.append((line.seq, f"its note cannot be read: {error}"))
            return
        changes = Changes()
        snapshot = Snapshot("", line.version, self.key[1])  # notes speak of asks, which carry no chart
        write_effects(Commit(changes, self.key, snapshot, now=line.at, trace=None), effects)
        for row in (*changes.asks, *changes.asks_renewed):
            self.asks[row.id] = row
        later: list[AskChange | AskClosing] = [*changes.asks_changed, *changes.asks_closed]
        for change in later:
            held = self.asks.get(change.id)
            if held is not None and held.closed_at is None:
                self.asks[change.id] = changed_ask(held, change)


def contradiction(trail: Trail, row: InstanceRow, snapshot: Snapshot) -> str | None:
    """Why an instance cannot be what its history has led to; None when it can."""
    last = trail.last
    if row.journal != trail.hash or (last is None and trail.complete):
        return (
            "all lines of its history are gone"
            if last is None
            else "the last lines of its history are gone, or are not its own"
        )
    if not is_sealed(row):
        return "its row or its snapshot was changed"
    is_since = row.since == (snapshot.reached or row.created_at)
    if not is_since or _identity(snapshot, snapshot.instance) != _identity(row, row.id):
        return "its snapshot is not that of its row"
    if last is not None and (last.after, last.version) != (snapshot.state, row.version):
        return f"it is in {snapshot.state}, and its history ends in {last.after}"
    # What changes no state may have no line, so that the instance can be further than its history.
    return f"it is at {row.seq}, and its history at {trail.seq}" if row.seq < trail.seq else None


def _identity(of: InstanceRow | Snapshot, name: str) -> tuple[object, ...]:
    states = of.states if isinstance(of, InstanceRow) else of.state
    return name, of.chart, of.version, of.seq, of.parent, of.ended, states


def differences(told: Mapping[str, AskRow], stored: Mapping[str, AskRow]) -> list[str]:
    """Where asks are not what their history says."""
    found = [f"nobody has put the ask {id_}" for id_ in stored.keys() - told.keys()]
    for id_, row in told.items():
        if id_ not in stored:
            found.append(f"the ask {id_} is gone")
        elif names := [name for name, value in _fields(row).items() if value != _fields(stored[id_])[name]]:
            found.append(f"the ask {id_} was changed: {', '.join(names)}")
    return found


def _fields(row: AskRow) -> dict[str, Any]:
    """The fields of an ask; what it shows as data, because one value may be written in several ways."""
    try:
        return _as_dict(row) | {"shows": decode(object, row.shows)}
    except InputError:
        return _as_dict(row)


def _as_dict(row: Value) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
