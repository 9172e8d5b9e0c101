"""Why: for any instance, what it waits for, who can act, what says no, what comes next, or "stuck"."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from headway import (
    Ask,
    Event,
    Final,
    No,
    Retry,
    Snapshot,
    State,
    Statechart,
    Step,
    View,
    explain,
    person,
    start,
    step,
)
from headway.actions import spawn
from headway.errors import InputError
from headway.statechart.explain import DueTimer, Wait
from headway.statechart.snapshot import child_changed, work_failed

pytestmark = pytest.mark.mission("ENG-18")

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
ANN, BOB = person("ann", "employee", "manager"), person("bob", "manager")


def has_receipt(view: View) -> bool | No:
    """There is a receipt."""
    return bool(view.context.get("receipt")) or No("attach a receipt first")


def within_limit(view: View) -> bool:
    """The month's limit leaves room."""
    return bool(view.facts["spent"] < view.facts["limit"])


class Expense(Statechart):
    """An expense claim."""

    draft = State(initial=True, waits_for="the employee to submit")
    review = State(ask=Ask("manager", deadline="2d", remind="1d", escalate={"cfo": "30h"}))
    paying = State(run="pay", retry=Retry(3, base="2s"))
    paid, rejected = Final(), Final()

    submit = draft.to(review, by="employee", when=(has_receipt, within_limit))
    approve = review.to(paying, by="manager", distinct_from="submit", quorum=2)
    reject = review.to(rejected, by="manager")
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(rejected)


def snapshot(result: object) -> Snapshot:
    """The snapshot of a step that went through."""
    assert isinstance(result, Step), result
    return result.snapshot


def submitted() -> Snapshot:
    """A claim in review."""
    draft = snapshot(start(Expense, "exp-7", now=NOW, context={"receipt": "r1"}))
    return snapshot(step(Expense, draft, Expense.submit(by=ANN), NOW, facts={"spent": 1, "limit": 9}))


def test_it_tells_which_guards_say_no_and_why() -> None:
    """Each guard that says no stands with its reason: a No, or the guard's own docstring."""
    draft = snapshot(start(Expense, "exp-7", now=NOW))
    why = explain(Expense, draft, NOW, facts={"spent": 9, "limit": 9})
    (way,) = why.ways
    assert way.says_no == {
        "has_receipt": "attach a receipt first",
        "within_limit": "condition not met: The month's limit leaves room.",
    }
    assert not way.open
    assert (
        "employee could submit, but attach a receipt first; condition not met: The month's limit leaves room."
        in str(why)
    )


def over_limit(view: View) -> bool:
    """The amount, which the context may lack, is above the limit."""
    return bool(view.context["amount"] > 100)


def sent_amount(view: View) -> bool:
    """The event carries an amount."""
    return bool(view.event.data["amount"] > view.context["least"])


class Amount(Statechart):
    """An amount with no fallback."""

    noting = State(initial=True)
    raise_, cut, done = State(), State(), Final()
    escalate = noting.to(raise_, by="clerk", when=over_limit)
    lower = noting.to(cut, by="clerk", when="amount > 100")
    note = noting.to(done, by="clerk", when=sent_amount)


@pytest.mark.parametrize(
    ("event", "guard", "says"),
    [
        ("escalate", "over_limit", "clerk could escalate, but over_limit failed: KeyError: 'amount'."),
        ("lower", "amount > 100", "clerk could lower, but unknown name amount (in 'amount > 100')."),
    ],
)
def test_a_guard_that_fails_with_an_error_is_in_the_way(event: str, guard: str, says: str) -> None:
    """A guard that raises, or reads a missing field, is named with its error: nobody can go that way."""
    noting = snapshot(start(Amount, "a1", now=NOW))
    why = explain(Amount, noting, NOW)
    way = next(way for way in why.ways if way.transition == event)
    assert (way.open, [*way.says_no], way.broken) == (False, [guard], (guard,))
    assert says in str(why)
    refused = step(Amount, noting, Event(event, by=person("c", "clerk")), NOW)
    assert not refused
    assert next(iter(way.says_no.values())) in str(refused)


def test_a_guard_that_fails_for_want_of_the_event_depends_on_the_event() -> None:
    """A guard that broke after it looked at the event may say yes to the real one."""
    why = explain(Amount, snapshot(start(Amount, "a1", now=NOW)), NOW)
    way = next(way for way in why.ways if way.transition == "note")
    assert (way.open, way.depends_on_event, way.broken) == (True, True, ())


@dataclass
class Bill:
    """A bill."""

    amount: int


class Typed(Statechart):
    """A transition that takes data."""

    noting, done = State(initial=True), Final()
    note = noting.to(done, takes=Bill, when=over_limit)


def test_a_guard_of_a_transition_with_data_is_asked_too() -> None:
    """What a guard says without a look at the data, it says of all data."""
    why = explain(Typed, snapshot(start(Typed, "t1", now=NOW)), NOW)
    (way,) = why.ways
    assert (way.broken, way.depends_on_event, why.stuck) == (("over_limit",), True, True)


def test_an_instance_that_nothing_can_move_is_stuck() -> None:
    """No timer, no work, no child, and every way out says no: stuck."""
    draft = snapshot(start(Expense, "exp-7", now=NOW))
    stuck = explain(Expense, draft, NOW, facts={"spent": 9, "limit": 9})
    moving = explain(Expense, submitted(), NOW)
    assert stuck.stuck
    assert "exp-7 is in draft and stuck: nothing can move it." in str(stuck)
    assert not moving.stuck


def test_a_state_that_waits_for_a_person_names_roles_deadline_and_who_is_barred() -> None:
    """The ask's roles and deadline, those barred by four eyes, and the timers in due order are told."""
    why = explain(Expense, submitted(), NOW + timedelta(days=1, minutes=1))
    approve = next(way for way in why.ways if way.transition == "approve")
    assert why.waits == (
        Wait(kind="person", state="review", what="an answer from manager", until=NOW + timedelta(days=2)),
    )
    assert (approve.by, approve.barred) == (("manager",), ("ann",))
    assert [(timer.event, timer.late) for timer in why.timers] == [
        ("remind.review", True),
        ("escalate.review", False),
        ("deadline.review", False),
    ]
    assert why.timers[0] == DueTimer(
        id=why.timers[0].id, due=NOW + timedelta(days=1), event="remind.review", late=True
    )


def test_votes_cast_so_far_are_told() -> None:
    """A quorum that is not full yet shows who has voted."""
    voted = snapshot(step(Expense, submitted(), Expense.approve(by=BOB), NOW))
    why = explain(Expense, voted, NOW)
    assert next(way for way in why.ways if way.transition == "approve").votes == ("bob",)


def test_work_tells_its_attempt_and_when_it_is_due() -> None:
    """Work that waits for its retry says which attempt comes when."""
    review = snapshot(step(Expense, submitted(), Expense.approve(by=BOB), NOW))
    paying = snapshot(step(Expense, review, Expense.approve(by=person("eve", "manager")), NOW))
    work = paying.work["paying"]
    failed = snapshot(step(Expense, paying, work_failed(work.id, 1, "busy"), NOW))
    why = explain(Expense, failed, NOW)
    begins = (NOW + timedelta(seconds=2)).isoformat()
    assert why.waits == (
        Wait(kind="work", state="paying", what=f"the work pay (attempt 2), which starts at {begins}"),
    )
    assert not why.stuck


def test_a_parent_tells_which_children_are_missing() -> None:
    """Children are told by status."""

    class Parent(Statechart):
        waiting = State(initial=True, entry=(spawn("Child"), spawn("Child")))
        over = Final()
        settle = waiting.on("child.changed").to(over, when="children.Done == 2")

    parent = snapshot(start(Parent, "p", now=NOW))
    one = snapshot(step(Parent, parent, child_changed("p:1:0", None, "Running"), NOW))
    why = explain(Parent, one, NOW)
    assert [wait.what for wait in why.waits] == ["its children: 1 Running, 1 new"]
    assert not why.stuck


def test_an_ended_instance_waits_for_nothing() -> None:
    """The end is told as the end."""
    ended = snapshot(step(Expense, submitted(), Expense.reject(by=BOB), NOW))
    why = explain(Expense, ended, NOW)
    assert (why.ended, why.stuck, why.waits, why.ways) == (True, False, (), ())
    assert str(why) == "exp-7 is in rejected, a final state."


@pytest.mark.parametrize("wrong", [None, 3, "snapshot", Event("x"), Snapshot("Other", 1, "x", 1, ("draft",))])
def test_what_is_no_snapshot_is_an_input_error(wrong: Snapshot) -> None:
    """Anything else than a snapshot of the chart is refused with a typed error."""
    with pytest.raises(InputError):
        explain(Expense, wrong, NOW)
