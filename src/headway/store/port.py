"""The port: what the engine needs of a store, and nothing else.

A transition is a *unit*: it reads, decides, perhaps reads more, and then says what has changed. The store
runs the whole of it in one transaction and knows nothing of charts; the unit does no I/O. So one set of
rules runs on a thread with SQLite and on an event loop with PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headway.codec import Scratch, Value
from headway.store.rows import (
    AskRow,
    HistoryRow,
    InstanceRow,
    Key,
    MessageRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
)


class Reads(Scratch):
    """What a unit wants to see before it goes on; instances are locked until the unit ends."""

    instances: set[Key] = set()
    requests: set[Key] = set()
    counters: set[Key] = set()
    records: set[tuple[str, str, str]] = set()


class Found(Scratch):
    """What there is of what was asked for, and the store's time."""

    now: datetime
    instances: dict[Key, InstanceRow] = {}
    requests: dict[Key, RequestRow] = {}
    counters: dict[Key, int] = {}
    records: dict[tuple[str, str, str], RecordRow] = {}


class Changes(Scratch):
    """What a unit has changed, to be written together or not at all."""

    created: list[InstanceRow] = []
    updated: list[InstanceRow] = []
    history: list[HistoryRow] = []
    timers: list[TimerRow] = []
    timers_gone: list[Key] = []
    work: list[WorkRow] = []
    work_gone: list[Key] = []
    asks: list[AskRow] = []
    asks_closed: list[AskRow] = []
    messages: list[MessageRow] = []
    requests: list[RequestRow] = []
    records: list[RecordRow] = []
    counters: dict[Key, int] = {}


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
    ended: bool | None = None
    after: str | None = None
    limit: int = 100


class Claim(Value):
    """What a worker asks for: work of its queues, as much as it has room for."""

    worker: str
    queues: tuple[str, ...]
    limit: int
    handlers: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


class Store(Protocol):
    """Keeps rows. Raises StoreUnavailableError, StoreFullError and SchemaError of `headway.errors`."""

    async def open(self) -> None:
        """Connect; raises SchemaError when the schema is not the one this version needs."""

    async def close(self) -> None:
        """Finish what is under way and disconnect."""

    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""

    async def now(self) -> datetime:
        """The store's time, on which all its nodes agree."""

    async def instance(self, key: Key) -> InstanceRow | None:
        """One instance."""

    async def instances(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances."""

    async def history(self, key: Key, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from a position on."""

    async def due_timers(self, limit: int) -> Sequence[TimerRow]:
        """Timers that are due, the longest overdue first."""

    async def next_timer(self) -> datetime | None:
        """When the next timer is due."""

    async def claim_work(self, claim: Claim) -> Sequence[WorkRow]:
        """Lease work that is due to a worker: by priority, then by due time, each to one worker only."""

    async def extend_leases(self, worker: str, items: Sequence[tuple[str, str, int]]) -> Sequence[Key]:
        """Extend leases (tenant, work, attempt); answers those the worker still holds."""

    async def expired_work(self, limit: int) -> Sequence[WorkRow]:
        """Work whose lease has run out."""

    async def prune(self, limit: int) -> int:
        """Delete request ids that have expired; answers how many."""
