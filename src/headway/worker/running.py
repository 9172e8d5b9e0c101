"""An attempt at work that runs in this process, and the table of all that do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any, Literal

from headway.store.rows import Attempt, Key, WorkRow
from headway.worker.progress import Progress

Reason = Literal["timeout", "lost", "left", "drain"]
"""Why a handler is stopped: it took too long, its lease is gone, its state was left, the worker ends."""

OVER: frozenset[Reason | None] = frozenset({"lost", "left"})
"""Nothing that an attempt tells is of interest any more."""


class Running:
    """An attempt: its row, its task, and until when it may go on by the monotonic clock."""

    __slots__ = (
        "beat_at",
        "begun",
        "cancelled",
        "deadline",
        "ending",
        "given_up",
        "in_thread",
        "key",
        "lease_until",
        "progress",
        "resource_lost",
        "row",
        "started",
        "task",
        "thread",
    )

    def __init__(self, row: WorkRow, *, in_thread: bool, taken: float, now: float) -> None:
        """`taken` is a time before the claim: the lease is counted from there, so it never seems longer."""
        self.row = row
        self.key: Key = (row.tenant, row.id)
        self.in_thread = in_thread
        self.begun = now
        self.lease_until = taken + row.lease / 1_000
        self.beat_at = taken + row.heartbeat / 1_000
        self.deadline = inf if row.timeout is None else now + row.timeout / 1_000
        self.cancelled: Reason | None = None
        self.started = False
        self.ending = False
        self.given_up = False
        self.resource_lost = False
        self.progress: Progress | None = None
        self.task: asyncio.Task[None] | None = None
        self.thread: asyncio.Future[Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether its task has ended."""
        return self.task is not None and self.task.done()

    @property
    def attempt(self) -> Attempt:
        """What the store knows it by."""
        return (self.row.tenant, self.row.id, self.row.attempt)


class Attempts:
    """All attempts of a worker: those it holds, and those that are over but whose code has not ended yet."""

    def __init__(self, capacity: int, tally: Counter[str], ended: Callable[[Running], None]) -> None:
        self.capacity = capacity
        self.held: dict[Key, Running] = {}
        self.lingering: set[Running] = set()
        self.tally = tally
        self._ended = ended

    @property
    def room(self) -> int:
        """How many more fit."""
        return self.capacity - len(self.held) - len(self.lingering)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that have not ended."""
        everything = (*self.held.values(), *self.lingering)
        return [running.task for running in everything if running.task and not running.task.done()]

    def add(self, running: Running) -> None:
        """Take an attempt on; an earlier one of the same work is over."""
        earlier = self.held.get(running.key)
        if earlier is not None:
            self.cancel(earlier, "lost")
            self.let_linger(earlier)
        self.held[running.key] = running

    def cancel(self, running: Running, reason: Reason) -> None:
        """Stop a handler; nothing happens to one that has ended and is being reported."""
        first = running.cancelled is None
        if running.ending or not (first or (running.cancelled == "drain" and reason in OVER)):
            return
        running.cancelled = reason
        if reason in OVER:
            self.let_linger(running)
        # A thread may bring its work to an end during a drain; a task that has not begun sees for itself.
        may_end = running.in_thread and reason == "drain"
        if running.task and running.started and (first or running.in_thread) and not may_end:
            running.task.cancel(reason)

    def let_linger(self, running: Running) -> None:
        """The attempt is over; it keeps its place until its code has ended."""
        if self.held.get(running.key) is running:
            del self.held[running.key]
            self.lingering.add(running)

    def end(self, running: Running) -> None:
        """The task of an attempt has ended; a thread that goes on keeps its place."""
        if running.thread is not None and not running.thread.done():
            self.let_linger(running)
            running.thread.add_done_callback(lambda _: self._remove(running))
        else:
            self._remove(running)

    def _remove(self, running: Running) -> None:
        self.lingering.discard(running)
        if self.held.get(running.key) is running:
            del self.held[running.key]
        self._ended(running)
