"""The port: what the engine needs of a store, and nothing else.

A transition is a *unit*: it reads, decides, perhaps reads more, and then says what has changed. The store
runs the whole of it in one transaction and knows nothing of charts; the unit does no I/O. So one set of
rules runs on a thread with SQLite and on an event loop with PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from headway.codec import Scratch, Value
from headway.store.rows import (
    AskChange,
    AskClosing,
    AskRow,
    ChartRow,
    Cursor,
    HistoryRow,
    InstanceRow,
    Key,
    LeaseRow,
    LetterRow,
    LogRow,
    MessageRow,
    NodeRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
    WorkVersion,
)

Attempt = tuple[str, str, int]
"""An attempt at work: its tenant, its id, and which attempt."""
Owned = Literal["timer", "work", "ask"]
"""What rows belong to instances, beside their histories."""

Version = tuple[str, int]
"""A version of a chart: its name and its number."""


class Command(Value):
    """A write that has an answer, for a unit to run in its transaction: see `headway.store.commands`."""


class Reads(Scratch):
    """What a unit wants to see before it goes on; instances are locked until the unit ends.

    `soon` is what it is likely to want later: units that want the same had better take turns. `commands` are
    run after everything was read; a unit that has some sets `has_commands` when it begins.
    """

    instances: set[Key] = set()
    requests: set[Key] = set()
    counters: set[Key] = set()
    records: set[tuple[str, str, str]] = set()
    soon: set[Key] = set()
    commands: tuple[Command, ...] = ()
    has_commands: bool = False


class Found(Scratch):
    """What there is of what was asked for, what each command has answered, and the store's time."""

    now: datetime
    instances: dict[Key, InstanceRow] = {}
    requests: dict[Key, RequestRow] = {}
    counters: dict[Key, int] = {}
    records: dict[tuple[str, str, str], RecordRow] = {}
    results: list[Any] = []


class Changes(Scratch):
    """What a unit has changed, to be written together or not at all.

    The last two are for those who watch, and are not stored. `stays`: tenant, chart, a state that was left,
    and for how many seconds the instance had been in it. `refused`: tenant, chart, an event that changed
    nothing, and the code of its refusal.
    """

    created: list[InstanceRow] = []
    updated: list[InstanceRow] = []
    history: list[HistoryRow] = []
    timers: list[TimerRow] = []
    timers_gone: list[Key] = []
    work: list[WorkRow] = []
    work_versions: list[WorkVersion] = []
    work_gone: list[Key] = []
    asks: list[AskRow] = []
    asks_renewed: list[AskRow] = []
    asks_changed: list[AskChange] = []
    asks_closed: list[AskClosing] = []
    messages: list[MessageRow] = []
    requests: list[RequestRow] = []
    records: list[RecordRow] = []
    counters: dict[Key, int] = {}
    stays: list[tuple[str, str, str, float]] = []
    refused: list[tuple[str, str, object, str]] = []


class Unit(Protocol):
    """Work for one transaction. When the store has to start over, it calls `begin` again."""

    def begin(self) -> Reads:
        """Forget everything; say what must be read first."""

    def take(self, found: Found) -> Reads | None:
        """Look at what was found; say what must be read next, or None when all is decided."""

    def changes(self) -> Changes:
        """What must be written."""


class InstanceQuery(Value):
    """Which instances to list: those after a cursor (an instance's id in creation order), newest last."""

    tenant: str
    chart: str | None = None
    status: str | None = None
    parent: str | None = None
    owner: str | None = None
    ended: bool | None = None
    after: str | None = None
    limit: int = 100


class AskQuery(Value):
    """Which asks to list, the oldest first: those after a cursor (an ask's id).

    With `roles` or `person`: those that one of the roles may answer, or that are delegated to the person.
    """

    tenant: str
    roles: tuple[str, ...] = ()
    person: str | None = None
    instance: str | None = None
    open: bool = True
    after: str | None = None
    limit: int = 100


class WorkQuery(Value):
    """Which work to list, by id: that after a cursor (a work's id). An instance's snapshot knows its ids."""

    tenant: str
    ids: tuple[str, ...] | None = None
    queue: str | None = None
    leased: bool | None = None
    after: str | None = None
    limit: int = 100


class TimerQuery(Value):
    """Which timers to list, by due time: those after a cursor (a timer's due time and id).

    An instance's snapshot knows the ids of its timers. A tenant's timers are gone through for a page.
    """

    tenant: str
    ids: tuple[str, ...] | None = None
    after: tuple[datetime, str] | None = None
    limit: int = 100


class MessageQuery(Value):
    """Which messages to read on from a cursor, in their order; no kinds are all kinds.

    No more than `limit` are looked at, whether they are of these kinds and this tenant or not.
    `early`: those, too, that a transaction under way may still come before. They are for looking at: who
    reads on from their cursor may miss some.
    """

    after: Cursor = Cursor()
    kinds: tuple[str, ...] = ()
    tenant: str | None = None
    limit: int = 100
    early: bool = False


class MessagePage(Value):
    """Messages, and where to read on: beyond those that did not fit the query, too.

    `complete`: there are no more messages now, of whichever kind.
    """

    messages: Sequence[MessageRow]
    cursor: Cursor
    complete: bool = True


class EventQuery(Value):
    """Which lines of all histories and live messages to read on from a cursor, in their order."""

    after: Cursor = Cursor()
    tenant: str | None = None
    instance: str | None = None
    chart: str | None = None
    owner: str | None = None
    parent: str | None = None
    limit: int = 100

    def takes(self, event: LogRow) -> bool:
        """Whether an event is wanted, wherever it stands."""
        return (
            self.tenant in {None, event.tenant}
            and self.instance in {None, event.instance}
            and self.chart in {None, event.chart}
            and self.owner in {None, event.owner}
            and self.parent in {None, event.parent}
        )


class EventPage(Value):
    """Events, and where to read on: beyond those that did not fit the query, too.

    `complete`: there are no more of them now. `held_back`: more is committed, and can be read only when
    another transaction that is under way has ended.
    """

    events: Sequence[LogRow]
    cursor: Cursor
    complete: bool
    held_back: bool = False


class LetterQuery(Value):
    """Which letters to list, in the order of their messages: those after a position.

    `due`: only those that may be tried now, the first of each instance; fewer when their data is large.
    """

    destination: str | None = None
    tenant: str | None = None
    instance: str | None = None
    ids: tuple[str, ...] = ()
    dead: bool | None = None
    due: bool = False
    after: int = 0
    limit: int = 100


class LetterPlace(NamedTuple):
    """Of which tenant and instance a letter is, its position, and how often it was tried."""

    tenant: str = ""
    instance: str = ""
    position: int = 0
    attempts: int = 0


class Settlement(Value):
    """What a consumer has done with the messages up to a cursor; written only while it holds its lease.

    `letters` take the place of what is there under their destination and position; `delivered` are the
    positions of letters that have arrived.
    """

    consumer: str
    holder: str
    cursor: Cursor
    letters: tuple[LetterRow, ...] = ()
    delivered: tuple[int, ...] = ()


class Claim(Value):
    """What a worker asks for: work of its queues, as much as it has room for.

    `versions` are the chart versions that it knows: it gets no work of instances of others.
    """

    worker: str
    queues: tuple[str, ...]
    limit: int
    versions: tuple[Version, ...]
    handlers: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


ANYTHING = "*"
"""The topic for those who listen when they may have missed some: there may be something new of any."""

Done = Callable[[BaseException | None], None]
"""Is told that something has ended: with None, or with what went wrong."""


class NodeStore(Protocol):
    """Keeps which nodes are alive, and the versions each of them knows."""

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Count a node as alive for so long; nodes whose time is over are deleted."""

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""


class Store(Protocol):
    """Keeps rows. Raises StoreUnavailableError, StoreFullError and SchemaError of `headway.errors`."""

    lanes: int
    """How many units are worth running at once."""

    @property
    def nodes(self) -> NodeStore:
        """The nodes on this database."""

    async def open(self) -> None:
        """Connect; raises SchemaError when the schema is not the one this version needs."""

    async def close(self) -> None:
        """Finish what is under way and disconnect."""

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; `done` is called on the event loop, once, when it has ended."""

    async def now(self) -> datetime:
        """The store's time, on which all its nodes agree."""

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that there are, in any order."""

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances."""

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants, by tenant and id, from after one on."""

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, as `names` does."""

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The instances of all tenants that have lines of history, as `names` does."""

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The timers, work or asks of all tenants with their instances, by tenant and id, as `names` does."""

    async def misfiled_asks(self, limit: int) -> Sequence[Key]:
        """Asks that the index of the inbox does not list for exactly those whom they are for."""

    async def pruned(self, key: Key) -> str:
        """The hash of the last line of an instance that was pruned, while other lines or its row are left."""

    async def events(self, query: EventQuery) -> EventPage:
        """The lines of all histories and the live messages from a cursor on, as one log.

        None is missed, whoever commits when; a message comes after the lines of its step.
        """

    async def last_event(self) -> Cursor:
        """From where to read the events that are committed from now on."""

    async def forgotten(self) -> Cursor:
        """Up to here the log of events has gaps: something was pruned."""

    async def due_timers(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""

    async def next_timer(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""

    async def timers(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers."""

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease work that is due to a worker: by priority, then by due time, each to one worker only."""

    async def extend_leases(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend the leases of work; answers what the worker still holds."""

    async def release_work(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand work back that the worker holds, for anyone to claim from `due` on; answers what it held."""

    async def hasten_work(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Let work be due now that nobody holds and that was to be done later; answers which."""

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep how far an attempt has come, for it and those that follow; False when the lease is lost."""

    async def expired_work(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Work of instances of these versions whose lease has run out."""

    async def next_work(self) -> datetime | None:
        """When work that is not due yet will be, or the next lease of work runs out."""

    async def work(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work."""

    async def ask(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""

    async def asks(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks."""

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases on names; answers those the holder has now."""

    async def let_go(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""

    async def lease(self, name: Key) -> LeaseRow | None:
        """Who holds a name, or held it last and has not let go."""

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node for as long as this process lives, and end the leases of who had it before.

        These are the leases on work and on names of the holder that took the name last. False, and nothing is
        changed, while its process lives or may live.
        """

    async def messages(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on; none is missed, even when it is committed after a later one."""

    async def last_message(self) -> Cursor:
        """From where to read what is committed from now on."""

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has come; None for one that has not settled anything."""

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, when it has lost its lease.

        The lease is the one of the name `("", consumer)`.
        """

    async def retire(self, consumer: str) -> bool:
        """Forget a consumer and its letters, unless one still holds its lease; whether it is forgotten."""

    async def letters(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters."""

    async def letters_waiting(
        self, destination: str, after: LetterPlace, limit: int
    ) -> Sequence[LetterPlace]:
        """The places of letters that wait for a destination, in the order of places."""

    async def letters_behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """Letters that wait behind others of their instance and destination: so many of each, in order.

        They are fewer when their data is large; within a line none is left out before another.
        """

    async def redrive(self, query: LetterQuery) -> int:
        """Let dead letters be tried again at once, with all their attempts; answers how many."""

    async def discard(self, query: LetterQuery) -> int:
        """Delete letters that are dead, or with `dead=False` those that wait; answers how many."""

    async def charts(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""

    async def keep_charts(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is there stays as it is."""

    async def replace_chart(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the one that is there."""

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended; it looks at all of these."""

    async def prune_requests(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""

    async def prune_messages(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers are past; answers how many."""

    async def prune_instances(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that have ended before a time, with their history and asks; answers how many."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic that another process announces, until the store is closed.

        When some may have been missed, with ANYTHING.
        """

    async def announce(self, topics: Collection[str]) -> None:
        """Tell other processes on the same database that there is something new: a hint, no promise."""
