"""What a step asks the world to do, as data; each with an id that is the same when repeated."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from headway.codec import Plain


class Deed(Plain, tag_field="do"):
    """The base of all effects; the field `do` names the kind in stored data."""


class SetTimer(Deed, tag="set_timer"):
    """Send this event back at this time."""

    id: str
    timer: str
    due: datetime
    event: str
    state: str | None = None


class CancelTimer(Deed, tag="cancel_timer"):
    """The timer is no longer wanted."""

    id: str
    timer: str


class StartWork(Deed, tag="start_work"):
    """Run a handler on a worker, not before `due` when that is given.

    At most `at_once` items with the same `concurrency` run at a time, and at most `rate_most` with the same
    `rate` begin within `rate_per` milliseconds; `affinity` names the live resource that its worker holds.
    """

    id: str
    work: str
    state: str
    handler: str
    attempt: int = 1
    due: datetime | None = None
    timeout: int | None = None
    heartbeat: int = 10_000
    lease: int = 90_000
    queue: str = "default"
    priority: int = 0
    affinity: str | None = None
    concurrency: str | None = None
    at_once: int = 1
    rate: str | None = None
    rate_most: int = 1
    rate_per: int = 1_000


class CancelWork(Deed, tag="cancel_work"):
    """The state was left before its work ended: stop it."""

    id: str
    work: str


class OpenedAsk(Deed, tag="open_ask"):
    """Ask a person; `schema` is that of the form, as it is put to them."""

    id: str
    ask: str
    state: str
    roles: tuple[str, ...]
    answers: tuple[str, ...]
    form: str | None = None
    deadline: datetime | None = None
    shows: dict[str, Any] = {}
    schema: dict[str, Any] | None = None


class RenewedAsk(OpenedAsk, tag="renew_ask", kw_only=True):
    """An open ask is put again, after an upgrade to a new version of the chart or back to an older one."""

    opened_at: datetime
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegated_to: str | None = None


class ClosedAsk(Deed, tag="close_ask"):
    """The question is answered or no longer of interest."""

    id: str
    ask: str
    event: str
    by: str


class RemindAsk(Deed, tag="remind_ask"):
    """Remind the people who may answer: these roles, or the delegate."""

    id: str
    ask: str
    roles: tuple[str, ...]
    delegated_to: str | None = None


class EscalateAsk(Deed, tag="escalate_ask"):
    """From now on these roles may answer too."""

    id: str
    ask: str
    roles: tuple[str, ...]


class ChangedAsk(Deed, tag="change_ask"):
    """Who may answer the question from now on, and who has taken it on."""

    id: str
    ask: str
    roles: tuple[str, ...]
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegated_to: str | None = None


class PublishMessage(Deed, tag="message"):
    """Publish a message to a topic, webhook or live stream, after the commit."""

    id: str
    kind: Literal["topic", "webhook", "live"]
    name: str
    data: Any = None


class Deliver(Deed, tag="deliver"):
    """Send an event to another instance."""

    id: str
    to: str
    event: str
    data: Any = None


class SpawnChild(Deed, tag="spawn"):
    """Create a child instance."""

    id: str
    child: str
    chart: str
    context: dict[str, Any]
    depth: int


class ReportToParent(Deed, tag="report"):
    """The parent's counts change; `errors` are those that are new, or fewer when some were taken back."""

    id: str
    parent: str
    before: str | None
    after: str | None
    errors: int = 0


class StoreRecord(Deed, tag="record"):
    """Put a record beside the instance."""

    id: str
    kind: str
    key: str
    data: dict[str, Any]


class AddToCounter(Deed, tag="add"):
    """Add to a counter shared between instances."""

    id: str
    key: str
    by: int


class WriteLog(Deed, tag="log"):
    """Write a line to the log."""

    id: str
    label: str
    data: Any = None


Effect = (
    SetTimer
    | CancelTimer
    | StartWork
    | CancelWork
    | OpenedAsk
    | RenewedAsk
    | ClosedAsk
    | RemindAsk
    | EscalateAsk
    | ChangedAsk
    | PublishMessage
    | Deliver
    | SpawnChild
    | ReportToParent
    | StoreRecord
    | AddToCounter
    | WriteLog
)
