"""Queries and their pages: which rows to read, and where to read on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from headway.codec import Value
from headway.store.rows import Cursor, LetterRow, LogRow, MessageRow, Version


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


class KeyQuery(Value):
    """Which keys to list, the oldest first: those after a cursor (a key's id); no tenant is all of them."""

    tenant: str | None = None
    after: str | None = None
    limit: int = 100


class KeyNoteQuery(Value):
    """Which notes of a key to list, the newest first: those before a cursor (a note's `at` and `what`)."""

    tenant: str
    key: str
    before: tuple[datetime, str] | None = None
    limit: int = 100
