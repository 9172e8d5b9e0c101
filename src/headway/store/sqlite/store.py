"""The store on SQLite: a file beside the program, or memory; one thread writes, another reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from headway.clock import Clock, SystemClock, milliseconds
from headway.codec import encode
from headway.store import commands, migrate
from headway.store.port import (
    AskQuery,
    Attempt,
    Claim,
    Command,
    Done,
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
from headway.store.sqlite import asks, events, instances, leases, letters, messages, timers, upkeep, work
from headway.store.sqlite.claims import Desk
from headway.store.sqlite.connection import MEMORY, Connection
from headway.store.sqlite.keys import SqliteKeys, add_key, change_key
from headway.store.sqlite.nodes import Names, SqliteNodes
from headway.store.sqlite.tables import (
    ASK,
    CHART,
    HISTORY,
    INSTANCE,
    LEASE,
    WORK,
    Row,
    Table,
    from_time,
    to_time,
)
from headway.store.sqlite.thread import SqliteThread
from headway.store.sqlite.unit import look_up, run_unit

T = TypeVar("T")

PATIENCE = "5s"
ALL_CHARTS = f"{CHART.select} ORDER BY chart, version"
KEEP_CHART = f"{CHART.insert} ON CONFLICT (chart, version) DO NOTHING"


class SqliteStore:
    """Keeps rows in a file, or in memory (":memory:") until it is closed.

    `patience` is how long it waits for another process that writes to the same file.
    """

    lanes = 1

    def __init__(self, path: str, clock: Clock | None = None, *, patience: str = PATIENCE) -> None:
        self._in_memory = path == MEMORY
        self._address = f"sqlite:///{path}"
        self._clock = clock or SystemClock()
        self._desk = Desk()
        self._names = Names(path, self._write, self._time)
        connect = partial(Connection, path, patience=milliseconds(patience))
        self._writer = SqliteThread(connect)
        # What stands in memory belongs to one connection.
        self._reader = self._writer if self._in_memory else SqliteThread(partial(connect, read_only=True))
        self.keys = SqliteKeys(self._reader.call, self._write, self._clock.now)
        self.nodes = SqliteNodes(self._reader.call, self._write, self._clock.now)
        self._commands: dict[type[Command], Callable[[Connection, Any], Any]] = {
            commands.ClaimWork: lambda held, given: self._desk.claim(held, given.claim, self._time()),
            commands.HastenWork: lambda held, given: work.hasten(held, given.items, self._time()),
            commands.RedriveLetters: lambda held, given: letters.redrive(held, given.query, self._time()),
            commands.DiscardLetters: lambda held, given: letters.discard(held, given.query),
            commands.LookUpInstances: lambda held, given: look_up(held, INSTANCE, given.keys),
            commands.AddKey: lambda held, given: add_key(held, given.key, given.note),
            commands.ChangeKey: lambda held, given: change_key(held, given.key, given.note, given.was),
        }

    async def open(self) -> None:
        """Connect; raises SchemaError when the schema is not the one this version needs."""
        await self._writer.start()
        try:
            database = SqliteDatabase(self._writer)
            await (migrate.up(database) if self._in_memory else migrate.check(database, self._address))
            await self._writer.call(Connection.write_ahead)
            await self._reader.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._reader.stop()
        await self._writer.stop()
        self._names.close()

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""
        await self._writer.call(lambda held: run_unit(held, unit, self._clock.now, self._run_command))

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; `done` is called on the event loop when it has ended."""
        self._writer.submit(
            lambda held: run_unit(held, unit, self._clock.now, self._run_command),
            lambda outcome: done(outcome[1]),
        )

    async def now(self) -> datetime:
        """The time of the store's clock."""
        return self._clock.now()

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return await self._one(INSTANCE, key)

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that there are, in any order."""
        return await self._reader.call(lambda held: look_up(held, INSTANCE, keys))

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        return await self._reader.call(lambda held: instances.list_instances(held, query))

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._read(HISTORY, instances.PAGE_OF_HISTORY, (*key, after, limit))

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants, by tenant and id, from after one on."""
        sql = instances.NAMES
        found = await self._reader.call(lambda held: held.fetch(sql, (*after, limit)))
        return [(tenant, name) for tenant, name in found]

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, as `names` does."""
        return await self._read(INSTANCE, instances.LIVING, (*after, chart, limit))

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants that have lines of history, as `names` does."""
        sql = instances.JOURNALS
        found = await self._reader.call(lambda held: held.fetch(sql, (*after, limit)))
        return [(tenant, name) for tenant, name in found]

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The timers, work or asks of all tenants with their instances, by tenant and id, as `names` does."""
        sql = instances.OWNED[table]
        found = await self._reader.call(lambda held: held.fetch(sql, (*after, limit)))
        return [((tenant, name), (tenant, instance)) for tenant, name, instance in found]

    async def misfiled_asks(self, limit: int) -> Sequence[Key]:
        """Asks that the index of the inbox does not list for exactly those whom they are for."""
        found = await self._reader.call(lambda held: held.fetch(asks.MISFILED, (limit,)))
        return [(tenant, ask) for tenant, ask in found]

    async def pruned(self, key: Key) -> str:
        """The hash of the last line of an instance that was pruned, while other lines or its row are left."""
        return await self._reader.call(lambda held: upkeep.pruned(held, key))

    async def events(self, query: EventQuery) -> EventPage:
        """The lines of all histories and the live messages from a cursor on, in the order of commits."""
        return await self._reader.call(
            lambda held: held.snapshot(lambda seen: events.read_events(seen, query))
        )

    async def last_event(self) -> Cursor:
        """From where to read the events that are committed from now on."""
        return await self._reader.call(events.last_event)

    async def forgotten(self) -> Cursor:
        """Up to here the log of events has gaps: something was pruned."""
        return await self._reader.call(events.forgotten)

    async def due_timers(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""
        now = self._time()
        return await self._reader.call(lambda held: timers.due(held, now, limit, versions))

    async def next_timer(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""
        return _time_or_none(await self._reader.call(lambda held: timers.next_due(held, versions)))

    async def timers(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers, by due time."""
        return await self._reader.call(lambda held: timers.list_timers(held, query))

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, the tenants in turn, each item to one worker only."""
        return await self._write(lambda held: self._desk.claim(held, claim, self._time()))

    async def extend_leases(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend the leases of work; answers what the worker still holds."""
        return await self._write(lambda held: work.extend(held, worker, items, self._time()))

    async def release_work(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand work back that the worker holds, for anyone to claim from `due` on; answers what it held."""
        at = None if due is None else to_time(due)
        return await self._write(lambda held: work.release(held, worker, items, now=self._time(), due=at))

    async def hasten_work(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Let work be due now that nobody holds and that was to be done later; answers which."""
        return await self._write(lambda held: work.hasten(held, items, self._time()))

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep how far an attempt has come, for it and those that follow; False when the lease is lost."""
        return await self._write(
            lambda held: work.keep_checkpoint(held, worker, item, now=self._time(), data=data)
        )

    async def expired_work(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Work of instances of these versions whose lease has run out, the longest first."""
        values = (self._time(), encode([*versions]).decode(), limit)
        return await self._read(WORK, work.EXPIRED_WORK, values)

    async def next_work(self) -> datetime | None:
        """When work that is not due yet will be, or the next lease of work runs out."""
        now = {"now": self._time()}
        [(at,)] = await self._reader.call(lambda held: held.fetch(work.NEXT_WORK, now))
        return _time_or_none(at)

    async def work(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work, by id."""
        return await self._reader.call(lambda held: work.list_work(held, query))

    async def ask(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""
        return await self._one(ASK, key)

    async def asks(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks, the oldest first."""
        return await self._reader.call(lambda held: asks.list_asks(held, query))

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases on names; answers those the holder has now."""
        return await self._write(
            lambda held: leases.hold(held, names, holder, now=self._time(), milliseconds=milliseconds)
        )

    async def let_go(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""
        await self._write(lambda held: leases.let_go(held, names, holder))

    async def lease(self, name: Key) -> LeaseRow | None:
        """Who holds a name, or held it last and has not let go."""
        return await self._one(LEASE, name)

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this process lives, and end the leases of who had it before."""
        return await self._names.take(name, holder)

    async def messages(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on, in the order they were committed."""
        return await self._reader.call(lambda held: messages.read_messages(held, query))

    async def last_message(self) -> Cursor:
        """From where to read what is committed from now on."""
        return await self._reader.call(messages.last_message)

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has come; None for one that has not settled anything."""
        return await self._reader.call(lambda held: messages.find_consumer(held, name))

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, when it has lost its lease."""
        return await self._write(lambda held: messages.settle(held, settlement, self._time()))

    async def letters(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters; without a destination, all letters of a message stand on one page."""
        return await self._reader.call(
            lambda held: held.snapshot(lambda seen: letters.list_letters(seen, query, self._time()))
        )

    async def letters_waiting(
        self, destination: str, after: LetterPlace, limit: int
    ) -> Sequence[LetterPlace]:
        """The places of letters that wait for a destination, in the order of places."""
        wanted = (destination, *after[:3], limit)
        found = await self._reader.call(lambda held: held.fetch(letters.WAITING, wanted))
        return [LetterPlace(*each) for each in found]

    async def letters_behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """Letters that wait behind others of their instance and destination: so many of each, in order."""
        return await self._reader.call(
            lambda held: held.snapshot(lambda seen: letters.behind(seen, heads, each))
        )

    async def redrive(self, query: LetterQuery) -> int:
        """Let dead letters be tried again at once, with all their attempts; answers how many."""
        return await self._write(lambda held: letters.redrive(held, query, self._time()))

    async def retire(self, consumer: str) -> bool:
        """Forget a consumer and its letters, unless one still holds its lease; whether it is forgotten."""
        return await self._write(lambda held: messages.retire(held, consumer, self._time()))

    async def discard(self, query: LetterQuery) -> int:
        """Delete letters that are dead, or with `dead=False` those that wait; answers how many."""
        return await self._write(lambda held: letters.discard(held, query))

    async def charts(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""
        return await self._read(CHART, ALL_CHARTS, ())

    async def keep_charts(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is there stays as it is."""
        await self._write(lambda held: held.write(KEEP_CHART, [*map(CHART.values, charts)]))

    async def replace_chart(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the one that is there."""
        await self._write(lambda held: held.write(CHART.upsert, [CHART.values(chart)]))

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended."""
        found = await self._reader.call(lambda held: held.fetch(instances.LIVING_VERSIONS))
        return {(chart, version) for chart, version in found}

    async def prune_requests(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""
        return await self._write(lambda held: upkeep.prune_requests(held, self._time(), limit))

    async def prune_messages(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers are past; answers how many."""
        return await self._write(lambda held: upkeep.prune_messages(held, to_time(before), limit))

    async def prune_instances(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that have ended before a time, with their history and asks; answers how many.

        A long history goes in several transactions, so that nobody waits long.
        """
        count, complete = 0, False
        while not complete:
            gone, complete = await self._write(partial(self._prune_some, before, limit - count, chart))
            count += gone
        return count

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Nothing is heard: processes on one file do not call each other, and find what is new by looking."""

    async def announce(self, topics: Collection[str]) -> None:
        """Nobody is told: processes on one file find what is new by looking."""

    def _run_command(self, connection: Connection, command: Command) -> Any:
        return self._commands[type(command)](connection, command)

    def _time(self) -> int:
        return to_time(self._clock.now())

    def _prune_some(
        self, before: datetime, limit: int, chart: str | None, connection: Connection
    ) -> tuple[int, bool]:
        return upkeep.prune_instances(connection, to_time(before), limit, chart)

    async def _one(self, table: Table[Row], key: Key) -> Row | None:
        return next(iter(await self._read(table, table.select_one, key)), None)

    async def _read(self, table: Table[Row], sql: str, values: Sequence[Any]) -> list[Row]:
        return table.rows(await self._reader.call(lambda held: held.fetch(sql, values)))

    async def _write(self, job: Callable[[Connection], T]) -> T:
        return await self._writer.call(lambda held: held.transaction(job))


class SqliteDatabase:
    """What the migrations need of SQLite."""

    dialect = "sqlite"

    def __init__(self, thread: SqliteThread) -> None:
        self._thread = thread

    async def execute(self, sql: str) -> None:
        """Run statements in one transaction."""
        await self._thread.call(lambda connection: connection.script(sql))

    async def fetch(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows a statement answers with."""
        return await self._thread.call(lambda connection: connection.fetch(sql))


@asynccontextmanager
async def sqlite_database(path: str, *, create: bool = True) -> AsyncIterator[SqliteDatabase]:
    """A database to migrate; its file is made when it is not there, or else SchemaError is raised."""
    thread = SqliteThread(partial(Connection, path, patience=milliseconds(PATIENCE), create=create))
    await thread.start()
    try:
        yield SqliteDatabase(thread)
    finally:
        await thread.stop()


def _time_or_none(stored: int | None) -> datetime | None:
    return None if stored is None else from_time(stored)
