"""What goes in and out of the routes of operators, as the OpenAPI document describes it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from headway.api.call import WHOLE, Strict
from headway.engine.engine import LONGEST_NAME

NO_NUL = r"^[^\x00]*$"
MOST_AT_ONCE = 500
MOST_LETTERS = 1_000

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
Reason = Annotated[str, Field(max_length=10_000, pattern=NO_NUL)]
DryRun = Annotated[
    bool, Field(description="Tell what would happen and change nothing. Only `false` changes something.")
]


class WorkItem(Strict):
    """Open work of a state: its next attempt, or the one that a worker holds. Times are in milliseconds."""

    id: str
    instance: str
    state: str
    handler: str
    queue: str
    priority: int
    attempt: int
    due: datetime = Field(description="From then on a worker may claim it.")
    worker: str | None = Field(description="Who holds it; null while it waits.")
    leased_until: datetime | None = Field(description="Without a sign of life it is lost then.")
    started_at: datetime | None = Field(description="When this attempt was claimed last.")
    lease_ms: int
    heartbeat_ms: int
    timeout_ms: int | None
    affinity: str | None = Field(description="Only the worker with this resource may claim it.")
    concurrency: str | None = Field(description="At most `at_once` of this key are held at a time.")
    at_once: int
    rate: str | None = Field(description="Of this key, `rate_most` may start within `rate_per_ms`.")
    rate_most: int
    rate_per_ms: int
    has_checkpoint: bool


class WorkItems(Strict):
    """A page of open work, by id."""

    items: list[WorkItem]
    next: str | None


class TimerShown(Strict):
    """An event that comes by itself."""

    id: str
    instance: str
    event: str
    due: datetime


class Timers(Strict):
    """A page of timers, the next one first."""

    items: list[TimerShown]
    next: str | None


class WorkerShown(Strict):
    """A worker: of this process, one that calls it, or one elsewhere that holds work of the tenant."""

    name: str
    kind: Literal["node", "remote", "elsewhere"]
    queues: list[str]
    handlers: list[str]
    waiting: bool = Field(description="It waits for work at this moment; only known of a remote one.")
    silent_seconds: float | None = Field(
        description="For so long a remote one has not spoken to this process."
    )
    held: int = Field(description="How much work of the caller's tenant it holds.")
    leased_until: datetime | None = Field(description="When the first of its leases runs out.")


class Workers(Strict):
    """The workers that this process knows, and those that hold work of the tenant."""

    items: list[WorkerShown]
    complete: bool = Field(description="False when more work is held than was looked at.")
    next: None = None


class Letter(Strict):
    """A message that a destination has not taken."""

    id: str
    destination: str
    instance: str
    kind: str
    name: str
    at: datetime = Field(description="When it was sent.")
    attempts: int
    due: datetime = Field(description="When it is tried again, unless it is dead.")
    error: str = Field(description="Why it was not taken the last time.")
    dead: bool


class LettersPage(Strict):
    """A page of letters, in the order of their messages."""

    items: list[Letter]
    next: str | None


class RedriveBody(Strict):
    """Which dead letters to try again: those that fit all that is given."""

    destination: Name | None = None
    instance: Name | None = None
    ids: Annotated[list[Name], Field(max_length=MOST_LETTERS)] = []
    limit: Annotated[int, Field(ge=1, le=MOST_LETTERS), WHOLE] = MOST_LETTERS
    dry_run: DryRun = True


class DiscardBody(RedriveBody):
    """Which dead letters of a destination to give up for good, or which that wait."""

    destination: Name
    waiting: Annotated[bool, Field(strict=True, description="Those that wait instead of dead ones.")] = False


class LettersChanged(Strict):
    """How many letters it was, or would be."""

    dry_run: bool
    count: int
    more: bool = Field(description="There were more than the limit: call again for the rest.")
    sample: list[Letter] = Field(description="The first of them.")


class DestinationShown(Strict):
    """A destination, as far as the caller's tenant is concerned."""

    name: str
    served_here: bool = Field(description="This process has it among its destinations.")
    lag_seconds: float | None = Field(
        description="For so long the next message waits; null when it is not known here."
    )
    waiting: int = Field(description="Letters that will be tried again.")
    dead: int = Field(description="Letters that will not.")
    complete: bool = Field(description="False when there are more letters than were counted.")


class Destinations(Strict):
    """All destinations that have something for the tenant, or may get it."""

    items: list[DestinationShown]
    next: None = None


class Filter(Strict):
    """Which instances: those of a chart that have not ended, and fit all that is given."""

    chart: Name
    status: Name | None = None
    owner: Name | None = None
    parent: Name | None = None
    ended: Literal[False] = False


class _Bulk(Strict):
    filter: Filter
    dry_run: DryRun = True
    limit: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = Field(
        MOST_AT_ONCE, description="For so many instances at most; `next` leads to the rest."
    )
    cursor: Annotated[str, Field(max_length=1_000)] | None = Field(
        None, description="The `next` of the call before."
    )


class BulkCancel(_Bulk):
    """Cancel instances and their children, each by the event that its chart names for it."""

    action: Literal["cancel"]
    reason: Reason | None = None


class BulkSend(_Bulk):
    """Send each instance the same event."""

    action: Literal["send"]
    event: Name
    data: Any = None
    reason: Reason | None = None


class BulkRetry(_Bulk):
    """Let work that waits for its next attempt be due now."""

    action: Literal["retry"]


BulkBody = Annotated[BulkCancel | BulkSend | BulkRetry, Field(discriminator="action")]


class BulkItem(Strict):
    """What became of one instance, or would; a code and a detail say why not."""

    instance: str
    outcome: Literal["done", "skipped", "refused", "failed"]
    code: str | None
    detail: str | None


class BulkResult(Strict):
    """What became of the instances, or would."""

    action: Literal["cancel", "send", "retry"]
    dry_run: bool
    seen: int = Field(description="How many instances fitted the filter.")
    done: int
    skipped: int = Field(description="There was nothing to do for them.")
    refused: dict[str, int] = Field(description="How many the chart refused, by code.")
    failed: dict[str, int] = Field(description="How many failed for another reason, by code.")
    sample: list[BulkItem] = Field(description="The first of each outcome and code.")
    next: str | None = Field(description="The cursor of the rest; null when there is none.")
