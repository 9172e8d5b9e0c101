"""What the service answers, under the names that its OpenAPI document gives; unknown fields are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from headway.codec import Value

T = TypeVar("T")


class ServiceAnswer(Value, forbid_unknown_fields=False):
    """An answer; a newer service may say more than this client knows."""


class Standing(ServiceAnswer):
    """Where an instance stands; `seq` is its version, the number of its steps."""

    id: str
    chart: str
    version: int
    seq: int
    status: str
    states: tuple[str, ...]
    ended: bool


class InstanceSummary(ServiceAnswer):
    """An instance in a list."""

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


class Instance(InstanceSummary):
    """An instance as it is now; `since` has all its active states, also those around others."""

    states: tuple[str, ...]
    context: dict[str, Any]
    since: dict[str, datetime]
    timers: dict[str, Any]
    work: dict[str, Any]
    asks: dict[str, Any]
    children: dict[str, int]
    counters: dict[str, int]
    progress: float
    output: Any


class AllowedEvent(ServiceAnswer):
    """An event that an instance would accept now, its senders, and whether the caller is one (`yours`)."""

    event: str
    by: tuple[str, ...]
    people: tuple[str, ...]
    targets: tuple[str, ...]
    yours: bool


class Line(ServiceAnswer):
    """A line of an instance's history."""

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
    data: Any
    version: int
    note: Any
    hash: str
    since: datetime | None


class WhyShown(ServiceAnswer):
    """Why an instance stands where it stands; `text` is for people."""

    text: str
    stuck: bool
    why: dict[str, Any]
    failure: dict[str, Any] | None
    ending: dict[str, Any] | None
    work: list[Any]
    children: list[str]
    undelivered: list[str]

    def __str__(self) -> str:
        return self.text


class AskShown(ServiceAnswer):
    """An ask: the data that it shows, the answers it accepts, who has claimed it."""

    id: str
    instance: str
    state: str
    roles: tuple[str, ...]
    people: tuple[str, ...]
    answers: tuple[str, ...]
    shows: dict[str, Any]
    opened_at: datetime
    deadline: datetime | None
    claimed_by: str | None
    claimed_until: datetime | None
    delegated_to: str | None
    closed_at: datetime | None
    closed_by: str | None
    closed_event: str | None


class AskWithForm(AskShown):
    """An ask, the JSON Schema of its answers' data, and the answers that are open to the caller."""

    form: dict[str, Any] | None
    yours: tuple[str, ...]


class NewLink(ServiceAnswer):
    """A link by which one person answers one ask once; its token is shown only once."""

    ask: str
    person: str
    roles: tuple[str, ...]
    expires_at: datetime
    token: str


class WorkShown(ServiceAnswer):
    """An attempt at the work of a state, leased to a worker."""

    id: str
    attempt: int
    instance: str
    chart: str
    version: int
    state: str
    handler: str
    queue: str
    context: dict[str, Any]
    checkpoint: Any
    leased_until: datetime | None
    lease_ms: int
    heartbeat_ms: int
    timeout_ms: int | None
    trace: str | None


class Sign(ServiceAnswer):
    """Whether a worker may continue an attempt: only if the lease is `held`."""

    standing: Literal["held", "left", "lost", "timeout"]


class AnswerPage(ServiceAnswer, Generic[T]):
    """A page of a list, and the cursor of the next one."""

    items: Sequence[T]
    next: str | None = None


class ChartStates(ServiceAnswer):
    """What the client needs of a chart: which states there are."""

    states: Sequence[Mapping[str, Any]]
    version: int = 1
