"""The port: what the engine needs of a store, one protocol for each noun.

`store.work.claim(…)`, `store.asks.page(…)`. Each store keeps a noun in a file of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from headway.store.queries import (
    AskQuery,
    Claim,
    EventPage,
    EventQuery,
    InstanceQuery,
    KeyNoteQuery,
    KeyQuery,
    LetterPlace,
    LetterQuery,
    MessagePage,
    MessageQuery,
    Settlement,
    StateCounts,
    TimerQuery,
    WorkQuery,
)
from headway.store.rows import (
    AskRow,
    Attempt,
    ChartRow,
    Cursor,
    HistoryRow,
    InstanceRow,
    Key,
    KeyNoteRow,
    KeyRow,
    LeaseRow,
    LetterRow,
    NodeRow,
    StateCount,
    TimerRow,
    Version,
    WorkRow,
)
from headway.store.unit import Done, Unit

Owned = Literal["timer", "work", "ask"]
"""The tables whose rows belong to instances, beside their histories."""

ANYTHING = "*"
"""The topic for listeners that may have missed some: there may be something new of any topic."""


class InstanceStore(Protocol):
    """Instances, and the keys of what belongs to them."""

    async def get(self, key: Key) -> InstanceRow | None:
        """One instance."""

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """The instances of these keys that exist, in any order."""

    async def page(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances, in the order they were created."""

    async def names(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances after a key, by tenant and id."""

    async def living(self, chart: str, after: Key, limit: int) -> Sequence[InstanceRow]:
        """The instances of a chart that have not ended, of all tenants, ordered as `names`."""

    async def owned(self, table: Owned, after: Key, limit: int) -> Sequence[tuple[Key, Key]]:
        """The keys of all timers, work or asks, each with the key of its instance, ordered as `names`."""

    async def oldest(self, tenant: str) -> Sequence[StateCount]:
        """For each version and set of leaf states of living instances one that got there first.

        Its cost is that of the number of these sets, however many instances there are.
        """

    async def counts(self, tenant: str) -> StateCounts:
        """How many instances of a tenant are in which leaf states, and the cursor at which that is true."""

    async def prune(self, before: datetime, limit: int, chart: str | None = None) -> int:
        """Delete instances that ended before a time, with their history and asks; returns how many.

        For each version and final states a message in the log (`PRUNED`) says how many, so that its readers
        can keep their counts.
        """


class HistoryStore(Protocol):
    """The lines of histories."""

    async def page(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""

    async def newest(self, key: Key, limit: int) -> Sequence[HistoryRow]:
        """The last lines of an instance's history, the newest first."""

    async def journals(self, after: Key, limit: int) -> Sequence[Key]:
        """The keys of all tenants' instances that have lines of history, by tenant and id."""

    async def pruned(self, key: Key) -> str:
        """The hash of an instance's last pruned line, while other lines or its row are left; else empty."""


class EventStore(Protocol):
    """The lines of all histories and the live messages, as one log."""

    async def page(self, query: EventQuery) -> EventPage:
        """Events from a cursor on.

        None is missed, whatever the order of commits; a message comes after the lines of its step.
        """

    async def last(self) -> Cursor:
        """The cursor from which to read the events that are committed from now on."""

    async def forgotten(self) -> Cursor:
        """The cursor up to which the log has gaps because something was pruned."""


class TimerStore(Protocol):
    """Events that are due at a time."""

    async def due(self, limit: int, versions: Collection[Version]) -> Sequence[TimerRow]:
        """Timers of instances of these versions that are due, the longest overdue first."""

    async def next(self, versions: Collection[Version]) -> datetime | None:
        """When the next timer of an instance of these versions is due."""

    async def page(self, query: TimerQuery) -> Sequence[TimerRow]:
        """A page of timers, by due time."""


class WorkStore(Protocol):
    """Work items, which workers lease."""

    async def claim(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease due work to a worker: by priority, then by due time, each item to one worker only."""

    async def extend(self, worker: str, items: Sequence[Attempt]) -> Sequence[Key]:
        """Extend leases of a worker; returns the keys of the items that it still holds."""

    async def release(
        self, worker: str, items: Sequence[Attempt], due: datetime | None = None
    ) -> Sequence[Key]:
        """Hand back items that a worker holds, claimable from `due` on; returns the keys of those it held."""

    async def hasten(self, items: Sequence[Attempt]) -> Sequence[Key]:
        """Make items due now that nobody holds and that are due later; returns their keys."""

    async def checkpoint(self, worker: str, item: Attempt, data: str) -> bool:
        """Keep the progress of an attempt, for it and later ones; False if the lease is lost."""

    async def expired(self, limit: int, versions: Collection[Version]) -> Sequence[WorkRow]:
        """Items of instances of these versions whose lease has run out, the longest first."""

    async def next(self) -> datetime | None:
        """When the next item becomes due or the next lease runs out."""

    async def page(self, query: WorkQuery) -> Sequence[WorkRow]:
        """A page of work, by id."""


class AskStore(Protocol):
    """Questions to people."""

    async def get(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""

    async def page(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks, the oldest first."""

    async def misfiled(self, limit: int) -> Sequence[Key]:
        """The keys of asks whose entries in the inbox index do not match their audience."""


class LeaseStore(Protocol):
    """Leases on names."""

    async def hold(self, names: Sequence[Key], holder: str, milliseconds: int) -> Sequence[Key]:
        """Take or extend leases; returns the names that the holder has now."""

    async def release(self, names: Sequence[Key], holder: str) -> None:
        """Give up leases that the holder has."""

    async def get(self, name: Key) -> LeaseRow | None:
        """The lease on a name, even if it has run out, until it is released."""

    async def take_name(self, name: str, holder: str) -> bool:
        """Take the name of a node while this process lives, and end the leases of its previous holder.

        These are its leases on work and on names. False, and nothing is changed, while the process of the
        previous holder lives or may live.
        """


class MessageStore(Protocol):
    """Messages to the outside world as one log, and how far each consumer has read."""

    async def page(self, query: MessageQuery) -> MessagePage:
        """Messages from a cursor on; none is missed, even if it is committed after a later one."""

    async def last(self) -> Cursor:
        """The cursor from which to read what is committed from now on."""

    async def consumer(self, name: str) -> Cursor | None:
        """How far a consumer has read; None if it has not settled anything."""

    async def settle(self, settlement: Settlement) -> bool:
        """Write what a consumer has done; False, and nothing is written, if it has lost its lease.

        The lease is the one of the name `("", consumer)`.
        """

    async def retire(self, consumer: str) -> bool:
        """Delete a consumer and its letters; False if somebody holds its lease."""

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete messages from before a time that all consumers have read; returns how many."""


class LetterStore(Protocol):
    """Letters: messages that a destination has not accepted yet, to be retried or dead."""

    async def page(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters; without a destination, all letters of a message are on one page."""

    async def waiting(self, destination: str, after: LetterPlace, limit: int) -> Sequence[LetterPlace]:
        """The places of a destination's letters that are not dead, in the order of places."""

    async def behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """The letters behind others of their instance and destination: up to `each` of each, in order.

        Fewer if their data is large; within a line none is left out before another.
        """

    async def redrive(self, query: LetterQuery) -> int:
        """Make dead letters due now, with all their attempts; returns how many."""

    async def discard(self, query: LetterQuery) -> int:
        """Delete dead letters, or with `dead=False` those that are not dead; returns how many."""


class ChartStore(Protocol):
    """Versions of charts."""

    async def all(self) -> Sequence[ChartRow]:
        """All versions of charts, by name and version."""

    async def versions(self) -> Collection[Version]:
        """The names and numbers of all versions."""

    async def keep(self, charts: Sequence[ChartRow]) -> None:
        """Store versions of charts; one that is stored already stays as it is."""

    async def replace(self, chart: ChartRow) -> None:
        """Store a version of a chart in place of the stored one."""

    async def living_versions(self) -> Collection[Version]:
        """The versions of instances that have not ended; it reads all of these."""


class KeyStore(Protocol):
    """API keys, and the notes of what was done with them."""

    async def find(self, key: str) -> tuple[datetime, KeyRow | None]:
        """The store's time, and the key of an id; an unknown id costs as much as a known one."""

    async def list(self, query: KeyQuery) -> Sequence[KeyRow]:
        """A page of keys."""

    async def add(self, key: KeyRow, note: KeyNoteRow) -> None:
        """Store a new key, and a note of it."""

    async def change(self, key: KeyRow, note: KeyNoteRow, *, was: str) -> bool:
        """Give a key its new secrets and times, if its secret still is `was` and it is not revoked."""

    async def note(self, notes: Sequence[KeyNoteRow], used: Mapping[str, datetime]) -> None:
        """Add notes to those of the same key, time and kind, and set when keys were last used."""

    async def notes(self, query: KeyNoteQuery) -> Sequence[KeyNoteRow]:
        """A page of notes."""

    async def prune_notes(self, before: datetime, limit: int) -> int:
        """Delete notes from before a time; returns how many."""


class NodeStore(Protocol):
    """Which nodes are alive, and the versions that each of them knows."""

    async def keep(self, name: str, versions: Collection[Version], milliseconds: int) -> None:
        """Register a node as alive for `milliseconds`, and delete nodes whose time is over."""

    async def forget(self, name: str) -> None:
        """Delete a node that has ended."""

    async def alive(self) -> Sequence[NodeRow]:
        """The nodes that are alive, by name."""


class RequestStore(Protocol):
    """The answers to requests with an idempotency key; units read and write them."""

    async def prune(self, limit: int) -> int:
        """Delete answers that have expired; returns how many."""


class Store(Protocol):
    """Keeps rows. Raises StoreUnavailableError, StoreFullError and SchemaError of `headway.errors`."""

    lanes: int
    """How many units are worth running at once."""

    @property
    def instances(self) -> InstanceStore:
        """Instances."""

    @property
    def history(self) -> HistoryStore:
        """The lines of histories."""

    @property
    def events(self) -> EventStore:
        """The log of all histories and live messages."""

    @property
    def timers(self) -> TimerStore:
        """Timers."""

    @property
    def work(self) -> WorkStore:
        """Work items."""

    @property
    def asks(self) -> AskStore:
        """Asks."""

    @property
    def leases(self) -> LeaseStore:
        """Leases on names."""

    @property
    def messages(self) -> MessageStore:
        """Messages and their consumers."""

    @property
    def letters(self) -> LetterStore:
        """Letters."""

    @property
    def charts(self) -> ChartStore:
        """Versions of charts."""

    @property
    def keys(self) -> KeyStore:
        """API keys."""

    @property
    def nodes(self) -> NodeStore:
        """The nodes on this database."""

    @property
    def requests(self) -> RequestStore:
        """Answers to requests with an idempotency key."""

    async def open(self) -> None:
        """Connect; raises SchemaError if the schema is not the one that this version needs."""

    async def close(self) -> None:
        """Finish what is under way and disconnect."""

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; `done` is called on the event loop, once, when it has ended."""

    async def now(self) -> datetime:
        """The store's time, on which all its nodes agree."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic that another process announces, until the store is closed.

        With ANYTHING if some may have been missed.
        """

    async def announce(self, topics: Collection[str]) -> None:
        """Notify other processes on the same database; notifications may be lost."""
