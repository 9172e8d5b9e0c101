"""The store on PostgreSQL, for many nodes: its time is the database's, on which all of them agree."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from headway.clock import Clock
from headway.errors import StoreError
from headway.store import commands, migrate
from headway.store.port import (
    AskQuery,
    Attempt,
    Claim,
    Command,
    EventPage,
    EventQuery,
    InstanceQuery,
    LetterPlace,
    LetterQuery,
    MessagePage,
    MessageQuery,
    Owned,
    Reads,
    Settlement,
    TimerQuery,
    Unit,
    Version,
    WorkQuery,
)
from headway.store.postgres import asks, events, instances, leases, messages, timers
from headway.store.postgres.connection import ConflictError, Connection, Connections, LostError
from headway.store.postgres.keys import PostgresKeys, add_key, change_key
from headway.store.postgres.listen import ANNOUNCE, CHANNEL, Listener
from headway.store.postgres.nodes import Names, PostgresNodes
from headway.store.postgres.query import NOW
from headway.store.postgres.tables import (
    ASK,
    CHART,
    HISTORY,
    INSTANCE,
    LEASE,
    LETTER,
    TIMER,
    WORK,
    Row,
    Table,
)
from headway.store.postgres.turns import Turns
from headway.store.postgres.unit import Doubt, Past, run_unit
from headway.store.postgres.work import Desk
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

T = TypeVar("T")
Job = Callable[[int], Awaitable[T]]

CONNECTIONS = 4
ATTEMPTS = 8
PLACE = "postgresql://…"  # the address may hold a password
FIRST_PAUSE = 0.01

TIME = f"SELECT {NOW}"
CHARTS = f"{CHART.select} ORDER BY chart, version"
KEEP_CHARTS = f"{CHART.insert.format(rows='$1::chart_given[]')} ON CONFLICT DO NOTHING"
REPLACE_CHART = CHART.upsert.format(rows="$1::chart_given[]")
PRUNE_REQUESTS = f"""
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency WHERE expires_at <= {NOW} ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)) RETURNING 1
"""


class PostgresStore(Submissions):
    """Keeps rows in the PostgreSQL database at an address; a `clock` takes the place of its time in tests."""

    lanes = 2

    def __init__(self, address: str, *, clock: Clock | None = None, pool_size: int = CONNECTIONS) -> None:
        super().__init__()
        self._clock = clock
        self._past = Past(self._time)
        # What is at the end of a new connection may be a database that was put back to an earlier time.
        self._connections = Connections(address, pool_size, self._past.memory.clear)
        self._turns = Turns()
        self._desk = Desk()
        self._listener = Listener(address)
        self._names = Names(address, self._time)
        self.keys = PostgresKeys(self._fetch, self._time)
        self.nodes = PostgresNodes(self._fetch, self._time)
        self._commands: dict[type[Command], Callable[[Connection, Any], Awaitable[Any]]] = {
            commands.ClaimWork: lambda held, given: self._desk.claim(held, given.claim, self._time()),
            commands.HastenWork: self._hasten,
            commands.RedriveLetters: lambda held, given: _count(
                held, messages.redriving(given.query, self._time())
            ),
            commands.DiscardLetters: lambda held, given: _count(held, messages.discarding(given.query)),
            commands.LookUpInstances: self._look_up,
            commands.AddKey: lambda held, given: add_key(held.fetch, given.key, given.note),
            commands.ChangeKey: lambda held, given: change_key(held.fetch, given.key, given.note, given.was),
        }

    async def open(self) -> None:
        """Connect; raises SchemaError when the schema is not the one this version needs."""
        self._connections.open()
        try:
            await self._on_connection(lambda connection: migrate.check(PostgresDatabase(connection), PLACE))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        self._connections.require_loop()
        await self._listener.close()
        await self._names.close()
        await self._connections.close()

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""
        doubt, wanted = Doubt(), unit.begin()

        async def attempt(number: int) -> None:
            first = unit.begin() if number else wanted
            async with self._connections.connection() as connection:
                await run_unit(
                    connection,
                    unit,
                    first,
                    past=self._past,
                    doubt=doubt,
                    lock=number > 0,
                    run=self._run_command,
                )

        try:
            async with self._turns.take(_keys(wanted)):
                await self._persist(attempt)
        except StoreError as error:
            if doubt.error:
                raise doubt.error from error
            raise

    async def now(self) -> datetime:
        """The database's time."""
        [(time,)] = await self._fetch(TIME, self._time())
        self._past.tide.reached(time)
        return time  # type: ignore[no-any-return]  # what the statement answers

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""
        return await self._row(INSTANCE, instances.ONE_INSTANCE, *key)

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that there are, in any order."""
        return await self._rows(INSTANCE, instances.SOME_INSTANCES, [*keys])

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""
        sql, values = instances.page_of_instances(query)
        return await self._rows(INSTANCE, sql, *values)

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""
        return await self._rows(HISTORY, instances.PAGE_OF_HISTORY, *key, after, limit)

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants, by tenant and id, from after one on."""
        return [(tenant, name) for tenant, name in await self._fetch(instances.NAMES, *after, limit)]

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, as `names` does."""
        return await self._rows(INSTANCE, instances.LIVING, *after, chart, limit)

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants that have lines of history, as `names` does."""
        return [(tenant, name) for tenant, name in await self._fetch(instances.JOURNALS, *after, limit)]

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The timers, work or asks of all tenants with their instances, by tenant and id, as `names` does."""
        found = await self._fetch(instances.OWNED[table], *after, limit)
        return [((tenant, name), (tenant, instance)) for tenant, name, instance in found]

    async def misfiled_asks(self, limit: int) -> Sequence[Key]:
        """Asks that the index of the inbox does not list for exactly those whom they are for."""
        return [(tenant, ask) for tenant, ask in await self._fetch(asks.MISFILED, limit)]

    async def pruned(self, key: Key) -> str:  # noqa: ARG002 - here an instance goes with all its lines
        """Nothing: an instance is pruned as a whole."""
        return ""

    async def events(self, query: EventQuery) -> EventPage:
        """The lines of all histories and the live messages from a cursor on; none is missed."""
        sql, values = events.page_of_events(query)
        return events.event_page(query, await self._fetch(sql, *values))

    async def last_event(self) -> Cursor:
        """From where to read the events that are committed from now on."""
        [(horizon,)] = await self._fetch(events.LAST_EVENT)
        return Cursor(horizon)

    async def forgotten(self) -> Cursor:
        """Up to here the log of events has gaps: something was pruned."""
        return next((Cursor(*row) for row in await self._fetch(events.FORGOTTEN)), Cursor())

    async def due_timers(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""
        due = await self._rows(TIMER, timers.DUE_TIMERS, self._time(), limit, [*versions])
        if due:
            self._past.tide.reached(due[-1].due)
        return due

    async def next_timer(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""
        return next((due for (due,) in await self._fetch(timers.NEXT_TIMER, [*versions])), None)

    async def timers(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers."""
        sql, values = timers.page_of_timers(query)
        return await self._rows(TIMER, sql, *values)

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease work that is due to a worker: by priority, the tenants in turn, each item once."""
        rows = await self._on_connection(lambda connection: self._desk.claim(connection, claim, self._time()))
        if rows and rows[-1].started_at:
            self._past.tide.reached(rows[-1].started_at)
        return rows

    async def extend_leases(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend the leases of work; answers what the worker still holds."""
        return await self._held(items, leases.EXTEND_WORK, self._time(), worker, _sorted(items))

    async def release_work(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand work back that the worker holds, for anyone to claim from `due` on; answers what it held."""
        return await self._held(items, leases.RELEASE_WORK, self._time(), worker, _sorted(items), due)

    async def hasten_work(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Let work be due now that nobody holds and that was to be done later; answers which."""
        return await self._held(items, leases.HASTEN_WORK, self._time(), _sorted(items))

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep how far an attempt has come, for those that follow, too; False when the lease is lost."""
        return bool(await self._held([item], leases.CHECKPOINT, self._time(), worker, [item], data))

    async def expired_work(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Work of instances of these versions whose lease has run out, the longest first."""
        return await self._rows(WORK, leases.EXPIRED_WORK, self._time(), limit, [*versions])

    async def next_work(self) -> datetime | None:
        """When work that is not due yet will be, or the next lease of work runs out."""
        [(due,)] = await self._fetch(leases.NEXT_WORK, self._time())
        return due  # type: ignore[no-any-return]  # what the statement answers

    async def work(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work."""
        sql, values = leases.page_of_work(query)
        return await self._rows(WORK, sql, *values)

    async def ask(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""
        return await self._row(ASK, asks.ONE_ASK, *key)

    async def asks(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks."""
        sql, values = asks.page_of_asks(query)
        return await self._rows(ASK, sql, *values)

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases on names; answers those the holder has now."""
        return await self._held(names, leases.HOLD, self._time(), _sorted(names), holder, milliseconds)

    async def let_go(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""
        await self._write(leases.LET_GO, _sorted(names), holder)

    async def lease(self, name: Key) -> LeaseRow | None:
        """Who holds a name, or held it last and has not let go."""
        return await self._row(LEASE, leases.ONE_LEASE, *name)

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this process lives, and end the leases of who had it before."""
        with self._connections.call():
            return await self._names.take(name, holder)

    async def messages(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on; none is missed, even when it is committed after a later one."""
        return await messages.read_messages(self._fetch, query)

    async def last_message(self) -> Cursor:
        """From where to read what is committed from now on."""
        [(stamp,)] = await self._fetch(messages.LAST_MESSAGE)
        return Cursor(stamp)

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has come; None for one that has not settled anything."""
        return next((Cursor(*row) for row in await self._fetch(messages.CONSUMER, name)), None)

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, when it has lost its lease."""
        [(held,)] = await self._write(messages.SETTLE, *messages.settling(settlement, self._time()))
        return bool(held)

    async def letters(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters."""
        sql, values = messages.page_of_letters(query, self._time())
        return await self._rows(LETTER, sql, *values)

    async def letters_waiting(
        self, destination: str, after: LetterPlace, limit: int
    ) -> Sequence[LetterPlace]:
        """The places of letters that wait for a destination, in the order of places."""
        found = await self._fetch(messages.WAITING, destination, *after[:3], limit)
        return [LetterPlace(*each) for each in found]

    async def letters_behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """Letters that wait behind others of their instance and destination: so many of each, in order."""
        return await self._rows(LETTER, *messages.behind(heads, each))

    async def redrive(self, query: LetterQuery) -> int:
        """Let dead letters be tried again at once, with all their attempts; answers how many."""
        sql, values = messages.redriving(query, self._time())
        return len(await self._write(sql, *values))

    async def retire(self, consumer: str) -> bool:
        """Forget a consumer and its letters, unless one still holds its lease; whether it is forgotten."""
        [(retired,)] = await self._write(messages.RETIRE, self._time(), consumer)
        return bool(retired)

    async def discard(self, query: LetterQuery) -> int:
        """Delete letters that are dead, or with `dead=False` those that wait; answers how many."""
        sql, values = messages.discarding(query)
        return len(await self._write(sql, *values))

    async def charts(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""
        return await self._rows(CHART, CHARTS)

    async def keep_charts(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is there stays as it is."""
        await self._write(KEEP_CHARTS, sorted(CHART.values(charts)))

    async def replace_chart(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the one that is there."""
        await self._write(REPLACE_CHART, CHART.values([chart]))

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended."""
        return {(chart, version) for chart, version in await self._fetch(instances.LIVING_VERSIONS)}

    async def prune_requests(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""
        return len(await self._write(PRUNE_REQUESTS, self._time(), limit))

    async def prune_messages(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers are past; answers how many."""
        return len(await self._write(messages.PRUNE_MESSAGES, before, limit))

    async def prune_instances(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that have ended before a time, with their history and asks; answers how many."""
        return len(await self._write(instances.PRUNE_INSTANCES, before, limit, chart))

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic that another process announces, until the store is closed."""
        with self._connections.call():
            await self._listener.listen(heard)

    async def announce(self, topics: Collection[str]) -> None:
        """Tell other processes on the same database that there is something new: a hint, no promise."""
        if topics:
            await self._fetch(ANNOUNCE, CHANNEL, self._listener.name, _sorted(topics))

    async def _run_command(self, connection: Connection, command: Command) -> Any:
        return await self._commands[type(command)](connection, command)

    async def _hasten(self, connection: Connection, command: commands.HastenWork) -> list[Key]:
        values = (self._time(), _sorted(command.items))
        hastened = {(tenant, name) for tenant, name in await connection.fetch(leases.HASTEN_WORK, *values)}
        return [key for key in dict.fromkeys(item[:2] for item in command.items) if key in hastened]

    async def _look_up(
        self, connection: Connection, command: commands.LookUpInstances
    ) -> Sequence[InstanceRow]:
        return INSTANCE.rows(await connection.fetch(instances.SOME_INSTANCES, [*command.keys]))

    def _time(self) -> datetime | None:
        """The time to use in place of the database's."""
        return self._clock.now() if self._clock else None

    async def _rows(self, table: Table[Row], sql: str, *values: Any) -> list[Row]:
        return table.rows(await self._fetch(sql, *values))

    async def _row(self, table: Table[Row], sql: str, *values: Any) -> Row | None:
        return next(iter(await self._rows(table, sql, *values)), None)

    async def _held(self, asked: Sequence[Key | Attempt], sql: str, *values: Any) -> list[Key]:
        """The keys that a statement answers with, in the order in which they were asked for."""
        held = {(tenant, name) for tenant, name in await self._write(sql, *values)}
        return [key for key in dict.fromkeys((tenant, name) for tenant, name, *_ in asked) if key in held]

    async def _write(self, sql: str, *values: Any) -> list[Any]:
        return await self._fetch(sql, *values, writes=True)

    async def _fetch(self, sql: str, *values: Any, writes: bool = False) -> list[Any]:
        return await self._on_connection(lambda connection: connection.fetch(sql, *values, writes=writes))

    async def _on_connection(self, job: Callable[[Connection], Awaitable[T]]) -> T:
        async def attempt(_: int) -> T:
            async with self._connections.connection() as connection:
                return await job(connection)

        return await self._persist(attempt)

    async def _persist(self, job: Job[T]) -> T:
        """Do a job; again when it collides or loses its connection with nothing changed, but not for ever."""
        with self._connections.call():
            for number in range(ATTEMPTS - 1):
                try:
                    return await job(number)
                except (ConflictError, LostError) as error:
                    if isinstance(error, LostError) and error.maybe_committed:
                        raise
                await asyncio.sleep(_pause(number))
            try:
                return await job(ATTEMPTS)
            except ConflictError as error:
                raise StoreError(
                    f"collided {ATTEMPTS} times with what is there; nothing was changed"
                ) from error


class PostgresDatabase:
    """What the migrations need of PostgreSQL."""

    dialect = "postgres"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, sql: str) -> None:
        """Run statements in one transaction."""
        await self._connection.script(sql)

    async def fetch(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows a query answers with."""
        return await self._connection.fetch(sql)


@asynccontextmanager
async def postgres_database(address: str) -> AsyncIterator[PostgresDatabase]:
    """A database to migrate."""
    connections = Connections(address, 1)
    connections.open()
    try:
        with connections.call():
            async with connections.connection() as connection:
                yield PostgresDatabase(connection)
    finally:
        await connections.close()


async def _count(connection: Connection, statement: tuple[str, list[Any]]) -> int:
    sql, values = statement
    return len(await connection.fetch(sql, *values))


def _keys(wanted: Reads) -> set[Key]:
    return wanted.instances | wanted.requests | wanted.counters | wanted.soon


def _pause(number: int) -> float:
    return FIRST_PAUSE * (1 << number) * random.random()  # noqa: S311 - it spreads attempts and keeps no secret


def _sorted(values: Iterable[T]) -> list[T]:
    """Each once, in one order, so that no two statements wait for each other."""
    return sorted({*values})  # type: ignore[type-var]  # keys and texts, which have an order
