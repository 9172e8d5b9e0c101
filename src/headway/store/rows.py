"""The rows of a store, one class for each noun; JSON is stored as text."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from headway.codec import Plain, encode, replace

Key = tuple[str, str]
"""A tenant, and an id or a name within it."""
Attempt = tuple[str, str, int]
"""An attempt at work: its tenant, its id, and which attempt."""
Version = tuple[str, int]
"""A version of a chart: its name and its number."""


class Cursor(NamedTuple):
    """A place in a log of rows; a reader that continues here misses nothing, whatever the order of commits.

    `message` is used by the log of events only: the live message after the line `position`, or 0.
    """

    stamp: int = 0
    position: int = 0
    message: int = 0


AFTER_LINES = 10**18 - 1
"""Higher than any position: the position of what comes after all lines of its stamp."""


class InstanceRow(Plain):
    """An instance: the columns to filter by, the hash of its last line of history, and its snapshot.

    `states` are its leaf states (the active atomic ones) in document order, joined by `+` as in a line of
    history; `since` is when this set of them was reached. `seal` is a hash of all other columns.
    """

    tenant: str
    id: str
    chart: str
    version: int
    seq: int
    status: str
    states: str
    since: datetime
    ended: bool
    parent: str | None
    owner: str | None
    created_at: datetime
    updated_at: datetime
    journal: str
    snapshot: str
    seal: str = ""


class StateCount(Plain):
    """How many instances of a version are in one set of leaf states, and since when the first of them is.

    `oldest` is None for those that have ended.
    """

    chart: str
    version: int
    states: str
    ended: bool
    count: int
    oldest: datetime | None = None


PRUNED = "pruned"
"""The kind of a message in the log that tells how many instances of a chart, its name, were pruned.

It is of no instance, and no destination takes it.
"""


class HistoryRow(Plain):
    """A line of an instance's history; `cursor` is its place among all lines of a store.

    `note` has the asks that the step opened and closed. `since` is when the states `before` were reached, if
    the line left them, and None for one that did not. `hash` covers the line and the hash of the line before.
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
    since: datetime | None
    hash: str
    position: int = 0
    stamp: int = 0

    @property
    def cursor(self) -> Cursor:
        """The cursor behind this row."""
        return Cursor(self.stamp, self.position)


class EventRow(Plain):
    """A line of history in the log of events, with its instance's chart, owner and parent."""

    line: HistoryRow
    chart: str
    owner: str | None = None
    parent: str | None = None

    @property
    def cursor(self) -> Cursor:
        """The cursor behind this row."""
        return self.line.cursor

    @property
    def tenant(self) -> str:
        """The tenant."""
        return self.line.tenant

    @property
    def instance(self) -> str:
        """The instance."""
        return self.line.instance

    @property
    def data(self) -> str | None:
        """What the event carries."""
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
    """A work item, an attempt at a state's work: due, or leased; `chart` and `version` are its instance's.

    At most `at_once` items of a tenant with the same `concurrency` are leased at a time. Items with the same
    `rate` are limited to `rate_most` in `rate_per` milliseconds: a burst of `rate_most` after a pause, then
    one each `rate_per / rate_most`. An item with an `affinity` goes to the worker that holds the lease of
    that name, while one does. `started_at` is when the attempt was last claimed; it stays when the item is
    released.
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
    """The new roles, claim and delegation of an open ask."""

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
        """The cursor behind this row."""
        return Cursor(self.stamp, self.position)


class Pruned(Plain):
    """What a message of the kind `PRUNED` carries: how many instances in which final states are gone."""

    version: int
    states: str
    count: int


def pruned_message(group: tuple[str, str, int, str], count: int, message_id: str, at: datetime) -> MessageRow:
    """The message that tells of pruned instances, by their tenant, chart, version and final states."""
    tenant, chart, version, states = group
    data = encode(Pruned(version, states, count)).decode()
    return MessageRow(tenant=tenant, id=message_id, instance="", kind=PRUNED, name=chart, data=data, at=at)


class LiveRow(Plain):
    """A live message in the log of events, with its instance's chart, owner and parent.

    It comes after the lines of its step. One of the kind `PRUNED` is of no instance: it says how many are
    gone.
    """

    message: MessageRow
    cursor: Cursor
    chart: str
    owner: str | None = None
    parent: str | None = None

    @property
    def tenant(self) -> str:
        """The tenant."""
        return self.message.tenant

    @property
    def instance(self) -> str:
        """The instance."""
        return self.message.instance

    @property
    def data(self) -> str | None:
        """The data of the message."""
        return self.message.data


LogRow = EventRow | LiveRow
"""A row of the log of events."""


class LetterRow(Plain):
    """A message that a destination has not accepted yet: to be tried again when due, or dead."""

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
    """The answer to a request with an idempotency key, and a fingerprint of the request."""

    tenant: str
    key: str
    body: str
    answer: str
    expires_at: datetime


class RecordRow(Plain):
    """A record that actions put beside the instances."""

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
    """A version of a chart, as it was when it was first registered.

    `functions` are the fingerprints of its functions by name, as JSON, as they were when it was last used.
    """

    chart: str
    version: int
    hash: str
    document: str
    stored_at: datetime
    functions: str = "{}"


class NodeRow(Plain):
    """A node that runs, the chart versions it knows, and until when it counts as alive."""

    name: str
    versions: tuple[tuple[str, int], ...]
    until: datetime


class KeyRow(Plain):
    """An API key: its actor, scopes, and the hashes of its secret and of the previous one.

    `rate` is its limit of calls per second; None is the service's default.
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
    """What was done to a key or with it: once, or `count` times in the period that begins `at`."""

    tenant: str
    key: str
    at: datetime
    what: str
    count: int
    first_at: datetime
    last_at: datetime
    by: str
