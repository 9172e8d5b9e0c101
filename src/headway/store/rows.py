"""The rows of a store, one noun each. Every row belongs to a tenant; JSON stands as text."""

from __future__ import annotations

from datetime import datetime

from headway.codec import Value

Key = tuple[str, str]
"""A tenant, and an id or a name within it."""


class InstanceRow(Value):
    """An instance: what lists and filters need, and its snapshot as JSON."""

    tenant: str
    id: str
    chart: str
    version: int
    seq: int
    status: str
    ended: bool
    parent: str | None
    created_at: datetime
    updated_at: datetime
    snapshot: str


class HistoryRow(Value):
    """A line of an instance's history; `position` orders all lines of a store."""

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
    position: int = 0


class TimerRow(Value):
    """An event that is due at a time."""

    tenant: str
    id: str
    instance: str
    event: str
    due: datetime


class WorkRow(Value):
    """An attempt at a state's work: due, or leased to a worker."""

    tenant: str
    id: str
    instance: str
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
    worker: str | None = None
    leased_until: datetime | None = None
    started_at: datetime | None = None
    checkpoint: str | None = None


class AskRow(Value):
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


class MessageRow(Value):
    """A message for the outside world; `position` orders all messages of a store."""

    tenant: str
    id: str
    instance: str
    kind: str
    name: str
    data: str | None
    at: datetime
    position: int = 0


class RequestRow(Value):
    """The answer that a request id has got, and a fingerprint of what was asked."""

    tenant: str
    key: str
    body: str
    answer: str
    expires_at: datetime


class RecordRow(Value):
    """A record beside the instances."""

    tenant: str
    kind: str
    key: str
    data: str
    updated_at: datetime
