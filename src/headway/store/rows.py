"""The rows of a store, one noun each. Every row belongs to a tenant; JSON stands as text."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from headway.codec import Plain, replace

Key = tuple[str, str]
"""A tenant, and an id or a name within it."""
Attempt = tuple[str, str, int]
"""An attempt at work: its tenant, its id, and which attempt."""
Version = tuple[str, int]
"""A version of a chart: its name and its number."""


class Cursor(NamedTuple):
    """A place in a log of rows. Whoever reads on from here misses nothing, whenever it is committed.

    Only the log of events has a third part: `message` is the live message, or 0, after the line `position`.
    """

    stamp: int = 0
    position: int = 0
    message: int = 0


AFTER_LINES = 10**18 - 1
"""Higher than any position: the place of what comes after all lines of its stamp."""


class InstanceRow(Plain):
    """An instance: what lists and filters need, the hash of its last line, and its snapshot as JSON.

    `seal` is a hash of all the rest.
    """

    tenant: str
    id: str
    chart: str
    version: int
    seq: int
    status: str
    ended: bool
    parent: str | None
    owner: str | None
    created_at: datetime
    updated_at: datetime
    journal: str
    snapshot: str
    seal: str = ""


class HistoryRow(Plain):
    """A line of an instance's history; `cursor` is its place among all lines of a store.

    `note` is what people were asked in this step, and which questions it closed. `hash` covers the line
    and the hash of the line before it.
    """

    tenant: str
    instance: str
    seq: int
    row: int
    at: datetime
    event: str
    transition: str
    before: str
    after: str
    actor: str
    reason: str | None
    attempt: int
    data: str | None
    version: int
    note: str | None
    hash: str
    position: int = 0
    stamp: int = 0

    @property
    def cursor(self) -> Cursor:
        """Where to read on from to get what follows."""
        return Cursor(self.stamp, self.position)


class EventRow(Plain):
    """A line of an instance's history in the log of all of them, and whose it is."""

    line: HistoryRow
    chart: str
    owner: str | None = None
    parent: str | None = None

    @property
    def cursor(self) -> Cursor:
        """Where to read on from to get what follows."""
        return self.line.cursor

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.line.tenant

    @property
    def instance(self) -> str:
        """What it is about."""
        return self.line.instance

    @property
    def data(self) -> str | None:
        """What the event carried."""
        return self.line.data


class TimerRow(Plain):
    """An event that is due at a time; `chart` and `version` are those of its instance."""

    tenant: str
    id: str
    instance: str
    chart: str
    version: int
    event: str
    due: datetime


class WorkRow(Plain):
    """An attempt at a state's work: due, or leased to a worker; `chart` and `version` are its instance's.

    At most `at_once` items of a tenant with the same `concurrency` are leased at a time. Of items with
    the same `rate`, `rate_most` are handed out at once after a rest, and then one each time that the
    `rate_most`th part of `rate_per` milliseconds has passed. What names an `affinity` goes to the worker
    that holds the lease of that name, as long as one does. `started_at` is when the attempt was claimed last;
    it stays when the work is handed back.
    """

    tenant: str
    id: str
    instance: str
    chart: str
    version: int
    state: str
    handler: str
    queue: str
    priority: int
    attempt: int
    due: datetime
    timeout: int | None
    heartbeat: int
    lease: int
    affinity: str | None = None
    concurrency: str | None = None
    at_once: int = 1
    rate: str | None = None
    rate_most: int = 1
    rate_per: int = 1_000
    worker: str | None = None
    leased_until: datetime | None = None
    started_at: datetime | None = None
    checkpoint: str | None = None
    trace: str | None = None


class WorkVersion(Plain):
    """The version that the instance of a work item has from now on."""

    tenant: str
    id: str
    version: int


class AskRow(Plain):
    """A question to people, open until `closed_at`."""

    tenant: str
    id: str
    instance: str
    state: str
    roles: tuple[str, ...]
    answers: tuple[str, ...]
    form: str | None
    shows: str
    opened_at: datetime
    deadline: datetime | None
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegated_to: str | None = None
    closed_at: datetime | None = None
    closed_by: str | None = None
    closed_event: str | None = None


class AskChange(Plain):
    """Who may answer an open ask from now on, and who has taken it on."""

    tenant: str
    id: str
    roles: tuple[str, ...]
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegated_to: str | None = None


class AskClosing(Plain):
    """How an ask ended."""

    tenant: str
    id: str
    closed_at: datetime
    closed_by: str
    closed_event: str


ASK_CHANGES = AskChange.__struct_fields__[2:]
"""The columns of an open ask that change, after its key."""
ASK_CLOSINGS = AskClosing.__struct_fields__[2:]
"""The columns that are set when an ask is closed, after its key."""


def changed_ask(ask: AskRow, change: AskChange | AskClosing) -> AskRow:
    """An ask after a change, or after its closing."""
    return replace(ask, **{name: getattr(change, name) for name in change.__struct_fields__})


class MessageRow(Plain):
    """A message for the outside world; `cursor` is its place among all messages of a store."""

    tenant: str
    id: str
    instance: str
    kind: str
    name: str
    data: str | None
    at: datetime
    trace: str | None = None
    position: int = 0
    stamp: int = 0

    @property
    def cursor(self) -> Cursor:
        """Where to read on from to get what follows."""
        return Cursor(self.stamp, self.position)


class LiveRow(Plain):
    """A live message in the log of events, and whose it is. It stands after the lines of its step."""

    message: MessageRow
    cursor: Cursor
    chart: str
    owner: str | None = None
    parent: str | None = None

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.message.tenant

    @property
    def instance(self) -> str:
        """What it is about."""
        return self.message.instance

    @property
    def data(self) -> str | None:
        """What it tells."""
        return self.message.data


LogRow = EventRow | LiveRow
"""What followers see: that something has happened, or what a chart tells them."""


class LetterRow(Plain):
    """A message that a destination has not taken yet: to be tried again when due, or dead."""

    destination: str
    tenant: str
    id: str
    instance: str
    kind: str
    name: str
    data: str | None
    at: datetime
    position: int
    attempts: int
    due: datetime
    error: str
    dead: bool = False
    trace: str | None = None


class RequestRow(Plain):
    """The answer that a request id has got, and a fingerprint of what was asked."""

    tenant: str
    key: str
    body: str
    answer: str
    expires_at: datetime


class RecordRow(Plain):
    """A record beside the instances."""

    tenant: str
    kind: str
    key: str
    data: str
    updated_at: datetime


class CounterRow(Plain):
    """A counter and its value."""

    tenant: str
    key: str
    value: int


class LeaseRow(Plain):
    """Who holds a name, and until when."""

    tenant: str
    name: str
    holder: str
    until: datetime


class ChartRow(Plain):
    """A version of a chart, as it was when it was first registered."""

    chart: str
    version: int
    hash: str
    document: str
    stored_at: datetime


class NodeRow(Plain):
    """A node that runs, the chart versions it knows, and until when it counts as alive."""

    name: str
    versions: tuple[tuple[str, int], ...]
    until: datetime


class KeyRow(Plain):
    """An API key: for whom, what it may, and hashes of its secret and of the one that was replaced.

    `rate` is how many calls a second it may make; None is the service's own limit.
    """

    tenant: str
    id: str
    name: str
    actor: str
    kind: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    rate: int | None
    secret: str
    made_at: datetime
    made_by: str
    expires_at: datetime | None = None
    old_secret: str | None = None
    old_until: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None


class KeyNoteRow(Plain):
    """What was done to a key or with it: one act, or all of a kind in the time that begins `at`."""

    tenant: str
    key: str
    at: datetime
    what: str
    count: int
    first_at: datetime
    last_at: datetime
    by: str
