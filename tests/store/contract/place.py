"""Where the rows of a test live, and the rows that tests put there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headway.codec import replace
from headway.store.port import Store
from headway.store.rows import (
    AskRow,
    HistoryRow,
    InstanceRow,
    LetterRow,
    MessageRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
)

AT = datetime(2025, 6, 1, 9, 30, 15, 123456, tzinfo=UTC)
NEVER = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
ANY_TEXT = "Łódź 🦉 'quoted' \"twice\" \\ % _ \n\t \u200f"


class Place(NamedTuple):
    """A migrated database of a test's own; `shared` when several stores can be open on it.

    `store` makes a store there; a clock that it is given takes the place of the store's time.
    """

    store: Callable[..., Store]
    shared: bool = True


INSTANCE = InstanceRow(
    tenant="acme",
    id="i1",
    chart="expense",
    version=1,
    seq=1,
    status="draft",
    states="draft",
    since=AT,
    ended=False,
    parent=None,
    owner=None,
    created_at=AT,
    updated_at=AT,
    journal="00",
    snapshot='{"n":0}',
)
HISTORY = HistoryRow(
    tenant="acme",
    instance="i1",
    seq=1,
    row=0,
    at=AT,
    event="submit",
    transition="submit",
    before="draft",
    after="review",
    actor='{"id":"ann"}',
    reason=None,
    attempt=0,
    data=None,
    version=1,
    note=None,
    since=AT,
    hash="00",
)
KNOWN = (("expense", 1),)
"""The versions of charts that those know who look for work and timers."""
TIMER = TimerRow(
    tenant="acme",
    id="t1",
    instance="i1",
    chart="expense",
    version=1,
    event="after.review.remind",
    due=AT,
)
WORK = WorkRow(
    tenant="acme",
    id="w1",
    instance="i1",
    chart="expense",
    version=1,
    state="paying",
    handler="pay",
    queue="default",
    priority=0,
    attempt=1,
    due=AT,
    timeout=None,
    heartbeat=10_000,
    lease=90_000,
    trace="00-a-b-01",
)
ASK = AskRow(
    tenant="acme",
    id="a1",
    instance="i1",
    state="review",
    roles=("manager", "chief"),
    answers=("approve", "reject"),
    form=None,
    shows="{}",
    opened_at=AT,
    deadline=None,
)
MESSAGE = MessageRow(
    tenant="acme",
    id="m1",
    instance="i1",
    kind="emit",
    name="expense.approved",
    data=None,
    at=AT,
    trace="00-a-b-01",
)
LETTER = LetterRow(
    destination="a",
    tenant="acme",
    id="m1",
    instance="i1",
    kind="webhook",
    name="expense.paid",
    data="{}",
    at=AT,
    position=1,
    attempts=1,
    due=LONG_AGO,
    error="500",
    trace="00-a-b-01",
)
REQUEST = RequestRow(tenant="acme", key="r1", body="hash", answer='{"seq":1}', expires_at=NEVER)
RECORD = RecordRow(tenant="acme", kind="plan", key="p1", data='{"limit":3}', updated_at=AT)


def instance(id: str = "i1", **fields: Any) -> InstanceRow:  # noqa: A002 - the row's own word
    """An instance like any other, but for these fields."""
    return replace(INSTANCE, id=id, **fields)


def work(id: str = "w1", **fields: Any) -> WorkRow:  # noqa: A002 - the row's own word
    """Work like any other, but for these fields."""
    return replace(WORK, id=id, **fields)


def timer(id: str = "t1", **fields: Any) -> TimerRow:  # noqa: A002 - the row's own word
    """A timer like any other, but for these fields."""
    return replace(TIMER, id=id, **fields)


def message(id: str = "m1", **fields: Any) -> MessageRow:  # noqa: A002 - the row's own word
    """A message like any other, but for these fields."""
    return replace(MESSAGE, id=id, **fields)


def letter(position: int = 1, **fields: Any) -> LetterRow:
    """The letter of a message at a position like any other, but for these fields."""
    return replace(LETTER, position=position, id=f"m{position}", **fields)
