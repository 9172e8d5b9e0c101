"""The test kit does what a team's own tests rely on."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from headway import Ask, Final, No, Parallel, Retry, State, Statechart, Step, View, any_live, person
from headway.actions import assign
from headway.clock import Clock
from headway.codec import encode
from headway.outbox.destination import Subscriber
from headway.outbox.message import Message as Heard
from headway.statechart.effects import PublishMessage, StartWork
from headway.testing import FakeClock, Harness, Journey, assert_path, covering_paths
from headway.testing.paths import Happening
from headway.testing.strategies import walks

ann, bob = person("ann", "employee", "manager"), person("bob", "manager")


class Verdict(BaseModel):
    """What a manager says."""

    ok: bool
    comment: str = ""


def has_receipt(view: View) -> bool | No:
    """A receipt is attached."""
    return bool(view.context.get("receipt")) or No("attach a receipt first")


class Expense(Statechart):
    """An expense claim."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", form=Verdict, deadline="2d", remind="1d"))
    paying = State(run="pay", retry=Retry(times=2, base="10s"), timeout="60s")
    paid, rejected, failed = Final(), Final(), Final()

    submit = draft.to(review, by="employee", when=has_receipt)
    approve = review.to(paying, by="manager", distinct_from="submit", emit="expense.approved")
    decided = review.on_answer.to(paying, do=assign(comment="_event.data.comment"))
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(failed)
    withdraw = any_live.to(failed, by="employee")


RECEIPT = {"receipt": "r.pdf"}


def test_a_fake_clock_moves_only_when_told_and_never_back() -> None:
    """It stands still, advances by durations as people write them, and refuses the past."""
    clock: Clock = FakeClock()
    assert clock.now() == clock.now()
    fake = FakeClock(datetime(2026, 2, 28, tzinfo=UTC))
    assert fake.advance("1d 12h") == fake.now() == datetime(2026, 3, 1, 12, tzinfo=UTC)
    with pytest.raises(ValueError, match="does not go back"):
        fake.move_to(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_journey_keeps_all_that_happened() -> None:
    """Snapshot, states, steps, history and effects are there to be looked at."""
    journey = Journey(Expense, context=RECEIPT)
    journey.send(Expense.submit(by=ann))
    journey.send(Expense.approve(by=bob))
    assert journey.states == journey.snapshot.states == ("paying",)
    assert [row.transition for row in journey.history] == ["start", "submit", "approve"]
    assert [e.name for e in journey.effects if isinstance(e, PublishMessage)] == ["expense.approved"]
    assert len(journey.steps) == 3
    journey.work_done()
    assert journey.snapshot.ended


def test_time_fires_the_timers_that_become_due_in_their_order() -> None:
    """A reminder after a day, the deadline after two, each at its own time."""
    journey = Journey(Expense, context=RECEIPT)
    begun = journey.clock.now()
    journey.send(Expense.submit(by=ann))
    journey.advance("3d")
    fired = [(row.event, row.at - begun) for row in journey.history[2:]]
    assert fired == [("remind.review", timedelta(days=1)), ("deadline.review", timedelta(days=2))]
    assert journey.clock.now() == begun + timedelta(days=3)


def test_failed_work_is_tried_again_when_its_delay_is_over() -> None:
    """Each failure lets time pass until the attempt was due, and the last one is final."""
    journey = Journey(Expense, context=RECEIPT)
    journey.send(Expense.submit(by=ann))
    journey.answer({"ok": True, "comment": "fine"}, by=bob)
    assert journey.snapshot.context["comment"] == "fine"
    begun = journey.clock.now()
    for _ in range(3):
        journey.work_fails("network")
    assert journey.clock.now() - begun == timedelta(seconds=30)
    assert [e.attempt for e in journey.effects if isinstance(e, StartWork)] == [1, 2, 3]
    assert journey.states == ("failed",)


def test_facts_may_change_on_the_way() -> None:
    """What the engine would read is a dictionary of the test."""

    class Limited(Statechart, facts=("limit",)):
        closed = State(initial=True)
        opened = State()

        open_ = closed.to(opened, when="limit > 1")

    journey = Journey(Limited, facts={"limit": 1})
    assert journey.refused("open_").code == "guard"
    journey.facts["limit"] = 2
    journey.send("open_")


class Twin(Statechart):
    """Two works at once, and a timer without end."""

    one, two = State(run="one"), State(run="two")
    left, right = State(one), State(two)
    both = Parallel(left, right, initial=True)
    spin = State()

    go = both.to(spin)
    again = spin.after("0s").to(spin)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda it: it.send("spin"), "unknown_event"),
        (lambda it: it.refused("go"), "go was not refused: it led to spin"),
        (lambda it: it.work_done(), "several are open: say of which state the work is (one, two)"),
        (lambda it: it.work_done(state="both"), "no work is open in both"),
        (lambda it: it.answer(by=ann), "no ask is open in one+two"),
        (lambda it: (it.send("go"), it.advance("1s")), "Twin sets timers without end in spin"),
    ],
)
def test_a_failure_says_what_was_expected(act: Callable[[Journey], object], says: str) -> None:
    """Each misuse is an AssertionError that a reader understands without the code."""
    with pytest.raises(AssertionError) as failure:
        act(Journey(Twin))
    assert says in str(failure.value)


def test_a_path_that_holds_returns_the_journey() -> None:
    """Events, names and functions of the journey are taken in their order; outer states count too."""
    happenings: list[Happening] = [Expense.submit(by=ann), Expense.approve(by=bob), Journey.work_done]
    assert assert_path(Expense, happenings, ends_in="paid", context=RECEIPT).snapshot.ended
    assert_path(Twin, [], ends_in="both")
    assert_path(Twin, [], ends_in="one+two")
    assert_path(Twin, ["go"], ends_in="spin")


REFUSED = """\
the path of Expense breaks at approve by ann (duty): approve is refused in review: \
ann sent submit, so someone else must send approve
  start → draft
  1. submit by ann → review
  possible in review: approve (manager), answer (manager), withdraw (employee)"""

ELSEWHERE = """\
the path of Expense ends in review, not in paid
  start → draft
  1. submit by ann → review"""


@pytest.mark.parametrize(
    ("happenings", "told"),
    [([Expense.submit(by=ann), Expense.approve(by=ann)], REFUSED), ([Expense.submit(by=ann)], ELSEWHERE)],
    ids=["refused", "elsewhere"],
)
def test_a_path_that_breaks_tells_its_story(happenings: list[Happening], told: str) -> None:
    """The message says how far it came, what was refused and why, and what would have been possible."""
    with pytest.raises(AssertionError) as failure:
        assert_path(Expense, happenings, ends_in="paid", context=RECEIPT)
    assert str(failure.value) == told


@pytest.mark.mission("ENG-18")
def test_covering_paths_take_every_transition_with_few_and_short_paths() -> None:
    """Each transition is taken, no path could be left out, and none is longer than it needs to be."""
    paths = covering_paths(Expense)
    taken = [{name for leg in path for name in leg.transitions} for path in paths]
    assert set().union(*taken) == {row.name for row in Expense.chart.model.transitions}
    for index, names in enumerate(taken):
        assert names - set().union(*taken[:index], *taken[index + 1 :])
    assert sorted(len(path) for path in paths) == [1, 2, 3, 3]
    assert all(path[-1].ends_in in {"paid", "rejected", "failed"} for path in paths)


walked: dict[str, int] = {}


@pytest.mark.mission("ENG-1")
@settings(max_examples=400, deadline=None)
@given(walks(Expense, context=st.sampled_from([RECEIPT, {}])))
def test_random_walks_are_legal_lives(journey: Journey) -> None:
    """Each step follows from the one before, states change only by transitions, and all can be stored."""
    for before, after in zip(journey.steps, journey.steps[1:], strict=False):
        assert after.snapshot.seq == before.snapshot.seq + 1
        assert after.history[0].before == before.snapshot.states
        assert not before.snapshot.ended
        encode(after)
    for row in journey.history:
        walked[row.transition] = walked.get(row.transition, 0) + 1


def test_random_walks_reach_every_transition() -> None:
    """Among four hundred walks every transition, retries included, was taken."""
    test_random_walks_are_legal_lives()
    assert walked.keys() >= {row.name for row in Expense.chart.model.transitions} | {"retry"}


def test_the_fixtures_share_one_clock(clock: FakeClock, journey: partial[Journey]) -> None:
    """`journey` begins lives on the test's `clock`: two of them live at the same time."""
    first, second = journey(Expense, context=RECEIPT), journey(Expense)
    assert first.clock is second.clock is clock
    assert isinstance(first.attempt(Expense.submit(by=ann)), Step)
    assert not second.attempt(Expense.submit(by=ann))


def test_the_plugin_does_not_load_hypothesis() -> None:
    """A project that uses only the fixtures does not pay for property tests."""
    program = "import sys, headway.testing.plugin; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_the_harness_fixture_makes_nodes_on_the_tests_clock(
    clock: FakeClock, harness: partial[Harness]
) -> None:
    """What is due by the test's `clock` happens when the test says so, and not before."""
    async with harness(Expense) as life:
        assert life.clock is clock
        (await life.tenant.create(Expense, "e1", RECEIPT)).unwrap()
        (await life.tenant.send("e1", Expense.submit(by=ann))).unwrap()
        clock.advance("2d")
        assert (await life.tenant.get("e1")).states == ("review",)
        await life.run_until_idle()
        assert (await life.tenant.get("e1")).states == ("rejected",)


@pytest.mark.mission("ENG-5")
async def test_a_destination_of_a_harness_hears_all_from_the_beginning_on(
    harness: partial[Harness], tmp_path: Path
) -> None:
    """What is published before the first turn is heard, as by a node that runs, restarts or not."""
    heard: list[str] = []

    async def hear(message: Heard) -> None:
        heard.append(message.instance)

    file = f"sqlite:///{tmp_path / 'heard.db'}"
    async with harness(Expense, database=file, destinations=[Subscriber("ears", hear)]) as life:
        for name in ("e1", "e2"):
            (await life.tenant.create(Expense, name, RECEIPT)).unwrap()
            (await life.tenant.send(name, Expense.submit(by=ann))).unwrap()
            (await life.tenant.send(name, Expense.approve(by=bob))).unwrap()
            await life.restart()
        assert heard == []
        await life.run_until_idle()
    assert heard == ["e1", "e2"]


class Note(BaseModel):
    """Says anything, and some of it in parts."""

    said: Any
    parts: list[Any] | dict[str, Any] | None
    before: "Note | None" = None


class Dated(BaseModel):
    """Asks for more than its field tells."""

    day: str

    @field_validator("day")
    @classmethod
    def _is_a_day(cls, day: str) -> str:
        raise ValueError(f"{day} is no day")


class Diary(Statechart):
    """Takes notes."""

    open_ = State(initial=True)
    closed = Final()
    note = open_.stay(takes=Note)
    date = open_.stay(takes=Dated)
    close = open_.to(closed)


@settings(max_examples=20, deadline=None)
@given(journey=walks(Diary, longest=4))
def test_a_walk_makes_data_for_a_field_that_may_be_anything(journey: Journey) -> None:
    """Whatever is said, it is JSON that the chart takes; what a type refuses is no part of the walk."""
    assert journey.snapshot.states in {("open_",), ("closed",)}
    assert "date" not in {line.event for line in journey.history}
