"""The rows themselves, in dictionaries; several stores may share them, as nodes share a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime

from headway.codec import replace
from headway.store.port import Changes, Version
from headway.store.rows import (
    AskRow,
    ChartRow,
    Cursor,
    HistoryRow,
    InstanceRow,
    Key,
    LeaseRow,
    LetterRow,
    MessageRow,
    NodeRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
)

Watcher = Callable[[Changes, datetime], None]

Saved = tuple[
    dict[Key, WorkRow], dict[tuple[str, int], LetterRow], dict[Key, LeaseRow], dict[Key, datetime], str
]
"""What commands may write."""


class Tables:
    """All rows of a database. What is written in one call is there at once, and all of it."""

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
        self.nodes: dict[str, NodeRow] = {}
        self.node_names: dict[str, tuple[object, str]] = {}
        """By the names of nodes: the store of the process that has it, and the holder of its leases."""
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
        self._saved: Saved | None = None
        self.forgotten = Cursor()
        """The last event that was pruned."""

    @contextmanager
    def commands_undone(self) -> Iterator[Callable[[], None]]:
        """Undo at the end of a block what commands have written in it, unless what it yields was called."""
        try:
            yield self._forget
        finally:
            if self._saved is not None:
                self.work, self.letters, self.leases, self.pace, self.served = self._saved
                self._forget()

    def save(self) -> None:
        """Remember what commands may write."""
        if self._saved is None:
            self._saved = ({**self.work}, {**self.letters}, {**self.leases}, {**self.pace}, self.served)

    def _forget(self) -> None:
        self._saved = None

    def next_position(self) -> int:
        """A place in a log that nobody had."""
        self.position += 1
        return self.position

    def timers_of(self, versions: Collection[Version]) -> Iterator[TimerRow]:
        """The timers of instances of these versions."""
        return (row for row in self.timers.values() if (row.chart, row.version) in versions)

    def holds(self, name: Key, holder: str, now: datetime) -> bool:
        """Whether someone has a name now."""
        lease = self.leases.get(name)
        return lease is not None and lease.holder == holder and lease.until > now

    def end_leases(self, holder: str, now: datetime) -> None:
        """Let all leases of a holder run out now."""
        for key, work in self.work.items():
            if work.worker == holder and work.leased_until is not None and work.leased_until > now:
                self.work[key] = replace(work, leased_until=now)
        for name, lease in self.leases.items():
            if lease.holder == holder and lease.until > now:
                self.leases[name] = replace(lease, until=now)

    def held_by_another(self, name: Key, holder: str, now: datetime) -> bool:
        """Whether someone else has a name now."""
        lease = self.leases.get(name)
        return lease is not None and lease.holder != holder and lease.until > now
