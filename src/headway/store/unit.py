"""A unit: work for one transaction, which the store runs without knowing what it is about.

A transition is a unit: it reads, decides, perhaps reads more, and then says what has changed. The unit does
no I/O itself, so one set of rules runs on a thread with SQLite and on an event loop with PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from headway.codec import Scratch
from headway.errors import StoreError
from headway.store.commands import Command
from headway.store.rows import (
    AskChange,
    AskClosing,
    AskRow,
    HistoryRow,
    InstanceRow,
    Key,
    MessageRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
    WorkVersion,
)

Done = Callable[[BaseException | None], None]
"""Called when a unit has ended: with None, or with the error."""


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
