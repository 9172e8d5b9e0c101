"""A unit: work for one transaction, which the store runs without knowing what it is about.

A transition is a unit: it reads, decides, perhaps reads more, and then says what has changed. The unit does
no I/O itself, so one set of rules runs on a thread with SQLite and on an event loop with PostgreSQL. A
command is a call of the port that a unit runs in its own transaction.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from headway.codec import Scratch, Value
from headway.errors import StoreError, StoreUnavailableError
from headway.store.queries import Claim, LetterQuery
from headway.store.rows import (
    AskChange,
    AskClosing,
    AskRow,
    Attempt,
    HistoryRow,
    InstanceRow,
    Key,
    KeyNoteRow,
    KeyRow,
    MessageRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
    WorkVersion,
)

Done = Callable[[BaseException | None], None]
"""Called when a unit has ended: with None, or with the error."""


class Command(Value):
    """A call of the port whose result a unit gets with its reads."""


class ClaimWork(Command):
    """As `WorkStore.claim`: the work that was leased."""

    claim: Claim


class HastenWork(Command):
    """As `WorkStore.hasten`: the keys of the work that was to be done later."""

    items: tuple[Attempt, ...]


class RedriveLetters(Command):
    """As `LetterStore.redrive`: how many letters."""

    query: LetterQuery


class DiscardLetters(Command):
    """As `LetterStore.discard`: how many letters."""

    query: LetterQuery


class LookUpInstances(Command):
    """As `InstanceStore.look_up`: the instances, without locking them."""

    keys: tuple[Key, ...]


class AddKey(Command):
    """As `KeyStore.add`: True."""

    key: KeyRow
    note: KeyNoteRow


class ChangeKey(Command):
    """As `KeyStore.change`: False if the key has another secret or is revoked."""

    key: KeyRow
    note: KeyNoteRow
    was: str


class Reads(Scratch):
    """What a unit reads next; instances are locked until the unit ends.

    `soon` are keys that it is likely to read later: units that share a key are serialised. `commands` are run
    after the reads; a unit that has commands sets `has_commands` in its first reads.
    """

    instances: set[Key] = set()
    requests: set[Key] = set()
    counters: set[Key] = set()
    records: set[tuple[str, str, str]] = set()
    soon: set[Key] = set()
    commands: tuple[Command, ...] = ()
    has_commands: bool = False


class Found(Scratch):
    """The rows of `Reads` that exist, the result of each command, and the store's time."""

    now: datetime
    instances: dict[Key, InstanceRow] = {}
    requests: dict[Key, RequestRow] = {}
    counters: dict[Key, int] = {}
    records: dict[tuple[str, str, str], RecordRow] = {}
    results: list[Any] = []


class Changes(Scratch):
    """What a unit has changed, to be written together or not at all.

    The last two are for metrics, and are not stored. `stays`: tenant, chart, a state that was left,
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


STORED = tuple(name for name in Changes.__struct_fields__ if name not in {"stays", "refused"})
"""The lists of changes that a store writes."""


class ConflictError(StoreError):
    """Another transaction has written what a unit has read or wants to write: the unit must start over.

    Nobody outside a store sees it.
    """


class Unit(Protocol):
    """Work for one transaction. When the store has to start over, it calls `begin` again."""

    def begin(self) -> Reads:
        """Start from the beginning; returns the first reads."""

    def take(self, found: Found) -> Reads | None:
        """Use what was read; returns the next reads, or None when everything is decided."""

    def changes(self) -> Changes:
        """What to write."""


class Submissions(ABC):
    """Runs each submitted unit as a task of its own."""

    def __init__(self) -> None:
        self._submitted: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; `done` is called on the event loop, once, when it has ended."""
        task = asyncio.get_running_loop().create_task(self._run(unit, done))
        self._submitted.add(task)
        task.add_done_callback(self._submitted.discard)

    async def _run(self, unit: Unit, done: Done) -> None:
        try:
            await self.run(unit)
        except asyncio.CancelledError:
            done(StoreUnavailableError("the event loop has ended meanwhile", maybe_committed=True))
            raise
        except Exception as error:  # noqa: BLE001 - it is passed to the caller
            done(error)
        else:
            done(None)
