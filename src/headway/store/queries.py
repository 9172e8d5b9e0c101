"""Queries and their pages: which rows to read, and where to read on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from headway.codec import Value
from headway.store.rows import Cursor, LetterRow, LogRow, MessageRow, StateCount, Version


class Readable(Value):
    """What somebody may read: all instances but those of `closed` charts, and their own of these, too."""

    person: str
    closed: tuple[str, ...]

    def takes(self, chart: str, owner: str | None) -> bool:
        """Whether an instance of this chart and owner may be read."""
        return chart not in self.closed or owner == self.person


class InstanceQuery(Value):
    """Which instances to list: those after a cursor (an instance's id in creation order), newest last."""

    tenant: str
    chart: str | None = None
    status: str | None = None
    parent: str | None = None
    owner: str | None = None
    ended: bool | None = None
    readable: Readable | None = None
    after: str | None = None
    limit: int = 100


class StateCounts(Value):
    """StateCounts of instances, all true at the cursor: a reader that goes on from there keeps them right."""

    items: Sequence[StateCount]
    cursor: Cursor


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
    """Which work items to list, by id: those after a cursor (an item's id). `ids` come from a snapshot."""

    tenant: str
    ids: tuple[str, ...] | None = None
    queue: str | None = None
    leased: bool | None = None
    after: str | None = None
    limit: int = 100


class TimerQuery(Value):
    """Which timers to list, by due time: those after a cursor (a timer's due time and id).

    `ids` come from an instance's snapshot. Without them, a page reads all timers of the tenant.
    """

    tenant: str
    ids: tuple[str, ...] | None = None
    after: tuple[datetime, str] | None = None
    limit: int = 100


class MessageQuery(Value):
    """Which messages to read from a cursor on, in their order; without `kinds`, those of all kinds.

    No more than `limit` messages are examined, whether they match or not. `early` includes messages that
    may still be preceded by those of an open transaction: a reader that continues at their cursor may miss
    some.
    """

    after: Cursor = Cursor()
    kinds: tuple[str, ...] = ()
    tenant: str | None = None
    limit: int = 100
    early: bool = False


class MessagePage(Value):
    """Messages, and the cursor behind all that were examined, whether they match or not.

    `complete`: there are no more messages now, of any kind.
    """

    messages: Sequence[MessageRow]
    cursor: Cursor
    complete: bool = True


class EventQuery(Value):
    """Which lines of histories and live messages to read from a cursor on, in their order."""

    after: Cursor = Cursor()
    tenant: str | None = None
    instance: str | None = None
    chart: str | None = None
    owner: str | None = None
    parent: str | None = None
    readable: Readable | None = None
    limit: int = 100

    def takes(self, event: LogRow) -> bool:
        """Whether an event matches, wherever its cursor is."""
        return (
            self.tenant in {None, event.tenant}
            and self.instance in {None, event.instance}
            and self.chart in {None, event.chart}
            and self.owner in {None, event.owner}
            and self.parent in {None, event.parent}
            and (self.readable is None or self.readable.takes(event.chart, event.owner))
        )


class EventPage(Value):
    """Events, and the cursor behind all that were examined, whether they match or not.

    `complete`: there are no more of them now. `held_back`: more is committed, but cannot be read before an
    open transaction has ended.
    """

    events: Sequence[LogRow]
    cursor: Cursor
    complete: bool
    held_back: bool = False


class LetterQuery(Value):
    """Which letters to list, in the order of their messages: those after a position.

    `due`: only those that may be tried now, the first of each instance; fewer if their data is large.
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
    """The tenant, instance and position of a letter, and how often it was tried."""

    tenant: str = ""
    instance: str = ""
    position: int = 0
    attempts: int = 0


class Settlement(Value):
    """What a consumer has done with the messages up to a cursor; written only while it holds its lease.

    `letters` replace those of the same destination and position; `delivered` are the positions of letters
    that were accepted.
    """

    consumer: str
    holder: str
    cursor: Cursor
    letters: tuple[LetterRow, ...] = ()
    delivered: tuple[int, ...] = ()


class Claim(Value):
    """What a worker asks for: up to `limit` items of its queues.

    `versions` are the chart versions that it knows: it gets no items of instances of others.
    """

    worker: str
    queues: tuple[str, ...]
    limit: int
    versions: tuple[Version, ...]
    handlers: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


class KeyQuery(Value):
    """Which keys to list, the oldest first: those after a cursor (a key's id). No tenant: all tenants."""

    tenant: str | None = None
    after: str | None = None
    limit: int = 100


class KeyNoteQuery(Value):
    """Which notes of a key to list, the newest first: those before a cursor (a note's `at` and `what`)."""

    tenant: str
    key: str
    before: tuple[datetime, str] | None = None
    limit: int = 100
