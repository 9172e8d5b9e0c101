"""The store in memory: every call happens at one moment, at the store's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from headway.clock import Clock
from headway.errors import StoreUnavailableError
from headway.store.port import (
    AskQuery,
    Attempt,
    Claim,
    EventPage,
    EventQuery,
    InstanceQuery,
    LetterPlace,
    LetterQuery,
    MessagePage,
    MessageQuery,
    Owned,
    Settlement,
    TimerQuery,
    Unit,
    Version,
    WorkQuery,
)
from headway.store.rows import (
    AskRow,
    ChartRow,
    Cursor,
    HistoryRow,
    InstanceRow,
    Key,
    LeaseRow,
    LetterRow,
    TimerRow,
    WorkRow,
)
from headway.store.submission import Submissions
from headway.testing.memory import lists, outbox, work
from headway.testing.memory.nodes import MemoryNodes
from headway.testing.memory.tables import Tables
from headway.testing.memory.units import run_unit

T = TypeVar("T")
Job = Callable[[Tables, datetime], T]


class MemoryStore(Submissions):
    """Keeps rows in tables that it shares with other stores.

    Whoever derives from it says in `call` when a call reaches the tables, and whether its answer arrives.
    """

    lanes = 1

    def __init__(self, tables: Tables, clock: Clock) -> None:
        super().__init__()
        self.tables = tables
        self.nodes = MemoryNodes(self.call)
        self._clock = clock
        self._opened = False
        self._listener: Callable[[str], None] | None = None

    async def call(self, job: Job[T], *, writes: bool = False) -> T:  # noqa: ARG002 - for those that derive
        """Do something with the tables at one moment; raises StoreUnavailableError when not open."""
        if not self._opened:
            raise StoreUnavailableError("the store is not open")
        answer = job(self.tables, self._clock.now())
        await asyncio.sleep(0)  # as with any other store, others have their turn meanwhile
        return answer

    @property
    def is_open(self) -> bool:
        """Whether it takes calls."""
        return self._opened

    async def open(self) -> None:
        """Begin to take calls."""
        self._opened = True

    async def close(self) -> None:
        """Take no more calls."""
        self._opened = False
        if self._listener is not None:
            self.tables.listeners.remove(self._listener)
            self._listener = None

    async def run(self, unit: Unit) -> None:
        """Run a unit at one moment; on return its changes are there."""
        await self.call(lambda tables, now: run_unit(tables, unit, now), writes=True)

    async def now(self) -> datetime:
        """The time of the store's clock."""
        return await self.call(lambda _, now: now)

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return await self.call(lambda tables, _: tables.instances.get(key))

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that there are, in any order."""
        return await self.call(
            lambda tables, _: [tables.instances[key] for key in keys if key in tables.instances]
        )

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        return await self.call(lambda tables, _: lists.list_instances(tables, query))

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self.call(
            lambda tables, _: [row for row in tables.history.get(key, ()) if row.position > after][:limit]
        )

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants, by tenant and id, from after one on."""
        return await self.call(
            lambda tables, _: sorted(key for key in tables.instances if key > after)[:limit]
        )

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, as `names` does."""

        def living(tables: Tables, _: datetime) -> list[InstanceRow]:
            rows = sorted(tables.instances.items())
            return [row for key, row in rows if key > after and row.chart == chart and not row.ended][:limit]

        return await self.call(living)

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants that have lines of history, as `names` does."""
        return await self.call(lambda tables, _: sorted(key for key in tables.history if key > after)[:limit])

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The timers, work or asks of all tenants with their instances, by tenant and id, as `names` does."""
        return await self.call(lambda tables, _: lists.list_owned(tables, table, after, limit))

    async def misfiled_asks(self, limit: int) -> Sequence[Key]:  # noqa: ARG002 - there is no index here
        """None: an inbox is read from the asks themselves."""
        return []

    async def pruned(self, key: Key) -> str:  # noqa: ARG002 - here an instance goes with all its lines
        """Nothing: an instance is pruned as a whole."""
        return ""

    async def events(self, query: EventQuery) -> EventPage:
        """The lines of all histories and the live messages from a cursor on, in the order of commits."""
        return await self.call(lambda tables, _: lists.read_events(tables, query))

    async def last_event(self) -> Cursor:
        """From where to read the events that are committed from now on."""
        return await self.call(lambda tables, _: Cursor(0, tables.position))

    async def forgotten(self) -> Cursor:
        """Up to here the log of events has gaps: something was pruned."""
        return await self.call(lambda tables, _: tables.forgotten)

    async def due_timers(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""
        return await self.call(
            lambda tables, now: sorted(
                (row for row in tables.timers_of(versions) if row.due <= now),
                key=lambda row: (row.due, row.tenant, row.id),
            )[:limit]
        )

    async def next_timer(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""
        return await self.call(
            lambda tables, _: min((row.due for row in tables.timers_of(versions)), default=None)
        )

    async def timers(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers, by due time."""
        return await self.call(lambda tables, _: lists.list_timers(tables, query))

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, the tenants in turn, each item to one worker only."""
        return await self.call(lambda tables, now: work.claim_work(tables, claim, now), writes=True)

    async def extend_leases(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend the leases of work; answers what the worker still holds."""
        return await self.call(lambda tables, now: work.extend(tables, worker, items, now), writes=True)

    async def release_work(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand work back that the worker holds, for anyone to claim from `due` on; answers what it held."""
        return await self.call(
            lambda tables, now: work.release(tables, worker, items, now=now, due=due), writes=True
        )

    async def hasten_work(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Let work be due now that nobody holds and that was to be done later; answers which."""
        return await self.call(lambda tables, now: work.hasten(tables, items, now), writes=True)

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep how far an attempt has come, for it and those that follow; False when the lease is lost."""
        return await self.call(
            lambda tables, now: work.keep_checkpoint(tables, worker, item, now=now, data=data), writes=True
        )

    async def expired_work(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Work of instances of these versions whose lease has run out, the longest first."""
        return await self.call(lambda tables, now: work.expired(tables, now, limit, versions))

    async def next_work(self) -> datetime | None:
        """When work that is not due yet will be, or the next lease of work runs out."""
        return await self.call(work.next_at)

    async def work(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work, by id."""
        return await self.call(lambda tables, _: work.list_work(tables, query))

    async def ask(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""
        return await self.call(lambda tables, _: tables.asks.get(key))

    async def asks(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks, the oldest first."""
        return await self.call(lambda tables, _: lists.list_asks(tables, query))

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases on names; answers those the holder has now."""

        def hold(tables: Tables, now: datetime) -> list[Key]:
            free = [name for name in names if not tables.held_by_another(name, holder, now)]
            until = now + timedelta(milliseconds=milliseconds)
            tables.leases.update((name, LeaseRow(*name, holder, until)) for name in free)
            return free

        return await self.call(hold, writes=True)

    async def let_go(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""

        def let_go(tables: Tables, _: datetime) -> None:
            for name in names:
                if (lease := tables.leases.get(name)) is not None and lease.holder == holder:
                    del tables.leases[name]

        await self.call(let_go, writes=True)

    async def lease(self, name: Key) -> LeaseRow | None:
        """Who holds a name, or held it last and has not let go."""
        return await self.call(lambda tables, _: tables.leases.get(name))

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this store is open, and end the leases of who had it before."""

        def take(tables: Tables, now: datetime) -> bool:
            store, before = tables.node_names.get(name, (self, holder))
            if store is not self and isinstance(store, MemoryStore) and store.is_open:
                return False
            tables.node_names[name] = (self, holder)
            if before != holder:
                tables.end_leases(before, now)
            return True

        return await self.call(take, writes=True)

    async def messages(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on, in the order they were committed."""
        return await self.call(lambda tables, _: outbox.read_messages(tables, query))

    async def last_message(self) -> Cursor:
        """From where to read what is committed from now on."""
        return await self.call(lambda tables, _: outbox.last_message(tables))

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has come; None for one that has not settled anything."""
        return await self.call(lambda tables, _: tables.consumers.get(name))

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, when it has lost its lease."""
        return await self.call(lambda tables, now: outbox.settle(tables, settlement, now), writes=True)

    async def retire(self, consumer: str) -> bool:
        """Forget a consumer and its letters, unless one still holds its lease; whether it is forgotten."""
        return await self.call(lambda tables, now: outbox.retire(tables, consumer, now), writes=True)

    async def letters(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters; without a destination, all letters of a message stand on one page."""
        return await self.call(lambda tables, now: outbox.list_letters(tables, query, now))

    async def letters_waiting(
        self, destination: str, after: LetterPlace, limit: int
    ) -> Sequence[LetterPlace]:
        """The places of letters that wait for a destination, in the order of places."""
        return await self.call(lambda tables, _: outbox.waiting(tables, destination, after, limit))

    async def letters_behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """Letters that wait behind others of their instance and destination: so many of each, in order."""
        return await self.call(lambda tables, _: outbox.behind(tables, heads, each))

    async def redrive(self, query: LetterQuery) -> int:
        """Let dead letters be tried again at once, with all their attempts; answers how many."""
        return await self.call(lambda tables, now: outbox.redrive(tables, query, now), writes=True)

    async def discard(self, query: LetterQuery) -> int:
        """Delete letters that are dead, or with `dead=False` those that wait; answers how many."""
        return await self.call(lambda tables, _: outbox.discard(tables, query), writes=True)

    async def charts(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""
        return await self.call(lambda tables, _: [tables.charts[key] for key in sorted(tables.charts)])

    async def keep_charts(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is there stays as it is."""

        def keep(tables: Tables, _: datetime) -> None:
            for row in charts:
                tables.charts.setdefault((row.chart, row.version), row)

        await self.call(keep, writes=True)

    async def replace_chart(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the one that is there."""

        def put(tables: Tables, _: datetime) -> None:
            tables.charts[chart.chart, chart.version] = chart

        await self.call(put, writes=True)

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended."""
        return await self.call(
            lambda tables, _: {(row.chart, row.version) for row in tables.instances.values() if not row.ended}
        )

    async def prune_requests(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""
        return await self.call(lambda tables, now: lists.prune_requests(tables, now, limit), writes=True)

    async def prune_messages(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers are past; answers how many."""
        return await self.call(lambda tables, _: outbox.prune(tables, before, limit), writes=True)

    async def prune_instances(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that have ended before a time, with their history and asks; answers how many."""
        return await self.call(
            lambda tables, _: lists.prune_instances(tables, before, limit, chart), writes=True
        )

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic that another store on the same tables announces."""
        self._listener = heard
        self.tables.listeners.append(heard)

    async def announce(self, topics: Collection[str]) -> None:
        """Tell the other stores on the same tables that there is something new."""
        for listener in self.tables.listeners:
            if listener is not self._listener:
                for topic in sorted(topics):
                    listener(topic)
