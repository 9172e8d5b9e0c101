"""The rows themselves, in dictionaries; several stores may share them, as nodes share a database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol, TypeVar

from headway.store.rows import (
    AskRow,
    ChartRow,
    Cursor,
    HistoryRow,
    InstanceRow,
    Key,
    KeyNoteRow,
    KeyRow,
    LeaseRow,
    LetterRow,
    MessageRow,
    NodeRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
)
from headway.store.unit import Changes, Command

T = TypeVar("T")
Watcher = Callable[[Changes, datetime], None]

KeyNotes = dict[tuple[str, str, datetime, str], KeyNoteRow]
WRITTEN_BY_COMMANDS = ("work", "letters", "leases", "pace", "keys", "key_notes")


class Tables:
    """All rows of a database. The changes of one call become visible together."""

    def __init__(self) -> None:
        self.instances: dict[Key, InstanceRow] = {}
        self.history: dict[Key, list[HistoryRow]] = {}
        self.timers: dict[Key, TimerRow] = {}
        self.work: dict[Key, WorkRow] = {}
        self.asks: dict[Key, AskRow] = {}
        self.messages: list[MessageRow] = []
        self.letters: dict[tuple[str, int], LetterRow] = {}
        self.consumers: dict[str, Cursor] = {}
        self.leases: dict[Key, LeaseRow] = {}
        self.keys: dict[str, KeyRow] = {}
        self.key_notes: KeyNotes = {}
        self.nodes: dict[str, NodeRow] = {}
        self.node_names: dict[str, tuple[object, str]] = {}
        """By the names of nodes: the leases of the store that has it, and their holder."""
        self.pace: dict[Key, datetime] = {}
        self.requests: dict[Key, RequestRow] = {}
        self.records: dict[tuple[str, str, str], RecordRow] = {}
        self.counters: dict[Key, int] = {}
        self.charts: dict[tuple[str, int], ChartRow] = {}
        self.listeners: list[Callable[[str], None]] = []
        self.watchers: list[Watcher] = []
        self.served = ""
        """The tenant whose turn it was last."""
        self.position = 0
        """The last place in a log that was given out."""
        self._saved: dict[str, Any] | None = None
        self.forgotten = Cursor()
        """The last event that was pruned."""

    @contextmanager
    def commands_undone(self) -> Iterator[Callable[[], None]]:
        """Undo at the end of a block what commands have written in it, unless what it yields was called."""
        try:
            yield self._forget
        finally:
            if self._saved is not None:
                vars(self).update(self._saved)
                self._forget()

    def save(self) -> None:
        """Remember what commands may write."""
        if self._saved is None:
            tables = {name: {**getattr(self, name)} for name in WRITTEN_BY_COMMANDS}
            self._saved = tables | {"served": self.served}

    def _forget(self) -> None:
        self._saved = None

    def next_position(self) -> int:
        """A place in a log that nobody had."""
        self.position += 1
        return self.position

    def holds(self, name: Key, holder: str, now: datetime) -> bool:
        """Whether someone has a name now."""
        lease = self.leases.get(name)
        return lease is not None and lease.holder == holder and lease.until > now

    def held_by_another(self, name: Key, holder: str, now: datetime) -> bool:
        """Whether someone else has a name now."""
        lease = self.leases.get(name)
        return lease is not None and lease.holder != holder and lease.until > now


class JobRunner(Protocol):
    """Does something with the tables at one moment."""

    def __call__(self, job: Callable[[Tables, datetime], T], *, writes: bool = False) -> Awaitable[T]:
        """The job's answer."""


Commands = Mapping[type[Command], Callable[[Tables, Any, datetime], Any]]
"""What runs each command of a noun within a unit."""
