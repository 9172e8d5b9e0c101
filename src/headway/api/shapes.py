"""What goes in and out of the routes of charts and instances, as the OpenAPI document describes it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, PlainSerializer

from headway.api.call import Strict
from headway.clock import time_text
from headway.engine.engine import LONGEST_NEW_NAME

NEW_NAME = r"^[^\x00]+$"
NO_NUL = r"^[^\x00]*$"
Text = Annotated[str, Field(pattern=NO_NUL)]
Time = Annotated[
    datetime, PlainSerializer(time_text, when_used="json"), Field(json_schema_extra={"format": "date-time"})
]
"""A time, always with microseconds."""


class SendEvent(Strict):
    """An event for an instance. Who sends it is told by the credential."""

    event: str = Field(description="The event's name.", examples=["submit"], min_length=1)
    data: Any = Field(None, description="What it carries, as the chart's model for it says.")
    reason: Text | None = Field(None, description="Why, for the history.")


class NewInstance(Strict):
    """An instance to begin."""

    chart: str = Field(description="The chart's name.", examples=["Expense"])
    id: Annotated[str, Field(min_length=1, max_length=LONGEST_NEW_NAME, pattern=NEW_NAME)] | None = Field(
        None, description="Its id; without one it gets one."
    )
    context: dict[str, Any] | None = Field(
        None, description="What it begins with, as the chart's model says."
    )


class Cancel(Strict):
    """Why an instance is cancelled."""

    reason: Text | None = None


class Standing(Strict):
    """Where an instance stands."""

    id: str
    chart: str
    version: int
    seq: int = Field(
        description="The instance's version: the number of its steps. Its ETag is this in quotes."
    )
    status: str = Field(description="The outermost active state.")
    states: list[str] = Field(description="The innermost active states, one for each parallel region.")
    ended: bool


class Summary(Strict):
    """An instance in a list."""

    id: str
    chart: str
    version: int
    seq: int
    status: str
    ended: bool
    parent: str | None
    owner: str | None
    created_at: Time
    updated_at: Time


class Instances(Strict):
    """A page of instances."""

    items: list[Summary]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


class Instance(Summary):
    """An instance as it is now."""

    states: list[str]
    context: dict[str, Any]
    since: dict[str, datetime] = Field(description="Since when each active state is.")
    timers: dict[str, Any]
    work: dict[str, Any] = Field(description="The open work, by state.")
    asks: dict[str, Any] = Field(description="The open asks, by state.")
    children: dict[str, int] = Field(description="How many children stand where.")
    counters: dict[str, int]
    progress: float
    output: Any


class AllowedEvent(Strict):
    """An event that the instance would take now."""

    event: str
    by: list[str] = Field(description="The roles that may send it; none for anybody.")
    targets: list[str]
    yours: bool = Field(description="Whether the caller has one of the roles.")


class AllowedEvents(Strict):
    """The events that an instance would take now."""

    seq: int
    items: list[AllowedEvent]
    next: None = None


class Line(Strict):
    """A line of an instance's history."""

    seq: int
    row: int
    at: Time
    event: str
    transition: str
    before: str
    after: str
    actor: str
    reason: str | None
    attempt: int
    data: Any
    version: int
    note: Any = Field(description="What people were asked in this step, and which questions it closed.")
    hash: str = Field(description="Covers the line and the hash of the line before it.")


class Lines(Strict):
    """A page of an instance's history, the oldest first."""

    items: list[Line]
    next: str | None


class Why(Strict):
    """Why an instance stands where it stands."""

    text: str = Field(description="What a person wants to read.")
    stuck: bool
    why: dict[str, Any]
    work: list[Any]
    children: list[str]
    undelivered: list[str]


class ChartSummary(Strict):
    """A chart in a list."""

    name: str
    version: int
    meaning: str
    states: int
    events: list[str]


class Charts(Strict):
    """All charts, the newest version of each."""

    items: list[ChartSummary]
    next: None = None


class Counts(Strict):
    """How many instances of the caller's tenant stand where."""

    chart: str
    counts: dict[str, int]
    complete: bool = Field(description="False when there are more instances than were counted.")
