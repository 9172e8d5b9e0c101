"""The rows themselves, in dictionaries; several stores may share them, as nodes share a database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from headway.store.port import Changes
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
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
)

Watcher = Callable[[Changes, datetime], None]


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
        self.forgotten = Cursor()
        """The last event that was pruned."""

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
