"""A chart and what it may become: each version changes one thing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway import (
    Ask,
    Event,
    Final,
    Retry,
    Snapshot,
    State,
    Statechart,
    Step,
    Upgrade,
    any_live,
    person,
    start,
    step,
)
from headway.statechart.chart import Charted
from headway.testing import FakeClock

ANN, BOB, EVE = person("ann", "employee"), person("bob", "manager"), person("eve", "manager")


class Expense(Statechart):
    """An expense claim, as it was first."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="2d", remind="1d", escalate={"director": "36h"}))
    paying = State(run="pay", retry=Retry(2))
    paid, rejected = Final(), Final()

    submit = draft.to(review, by="employee")
    stale = draft.after("30d").to(rejected)
    approve = review.to(paying, by="manager")
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(rejected)
    withdraw = any_live.to(rejected, by="employee")


class Renamed(Statechart, name="Expense", version=2, upgrades={1: Upgrade(states={"review": "check"})}):
    """The review has another name, other times and other people."""

    draft = State(initial=True)
    check = State(ask=Ask("manager", "auditor", deadline="3d", remind="1d", escalate={"director": "36h"}))
    paying = State(run="pay", retry=Retry(2))
    paid, rejected = Final(), Final()

    submit = draft.to(check, by="employee")
    stale = draft.after("20d").to(rejected)
    approve = check.to(paying, by="manager", distinct_from="submit")
    expire = check.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(rejected)
    withdraw = any_live.to(rejected, by="employee")


class Unruly(Statechart, name="Expense", version=2):
    """The same, but nobody says what becomes of those in review; the work has another handler."""

    draft = State(initial=True)
    check = State(ask=Ask("manager", deadline="3d"))
    paying = State(run="pay_quickly", retry=Retry(2))
    paid, rejected = Final(), Final()

    submit = draft.to(check, by="employee")
    approve = check.to(paying, by="manager")
    expire = check.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(rejected)


class Trap(Statechart, name="Expense", version=2):
    """Nothing leads out of the draft."""

    draft = State(initial=True)
    begun = State()
    rejected = Final()
    hurry = begun.to(rejected, by="employee")


class Life:
    """One life under a chart, with a clock."""

    def __init__(self, chart: Charted, context: object = None, clock: FakeClock | None = None) -> None:
        self.chart, self.clock = chart, clock or FakeClock()
        self.snapshot = _stepped(start(chart, "it", now=self.clock.now(), context=context)).snapshot

    def send(self, name: str, **event: Any) -> "Life":
        """An event that goes through."""
        self.snapshot = self.step(Event(name, **event)).snapshot
        return self

    def step(self, event: Event) -> Step:
        """The step of an event that goes through."""
        return _stepped(step(self.chart, self.snapshot, event, self.clock.now()))


def _stepped(answer: object) -> Step:
    assert isinstance(answer, Step), answer
    return answer


@dataclass
class Claim:
    """What a claim was once."""

    amount: int = 1
    note: str = ""


def in_cents(old: Snapshot) -> Mapping[str, Any]:
    """The new field, from the old one."""
    return {"cents": old.context["amount"] * 100}


def by_amount(old: Snapshot) -> str:
    """Small claims are checked by a clerk."""
    return "check" if old.context.get("amount", 0) > 10 else "draft"
