"""Exploration: it finds every configuration the real step can reach, the shortest way, within its limit."""

from __future__ import annotations

import types
from datetime import UTC, datetime
from random import Random

import pytest

from headway import (
    Ask,
    Final,
    History,
    No,
    Parallel,
    Retry,
    Run,
    State,
    Statechart,
    View,
    any_live,
    invariant,
    start,
    step,
)
from headway.actions import count, spawn
from headway.statechart.chart import chart_of
from headway.statechart.check.invariants import Explored, prove
from headway.statechart.explore.abstraction import MOST_ROWS
from headway.statechart.explore.events import Happenings, People
from headway.statechart.explore.explore import MOST_ANSWERS, Exploration, explore
from headway.statechart.explore.facts import RuleFacts
from headway.statechart.refusal import Refusal
from tests.fuzzing import seeds

pytestmark = pytest.mark.mission("ENG-18")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALLED: list[str] = []


def has_receipt(view: View) -> bool | No:
    """Looks at data, which exploration does not have."""
    CALLED.append("has_receipt")
    return bool(view.context["receipt"]) or No("attach a receipt first")


def note(_view: View) -> dict[str, str]:
    """Writes data, which exploration does not keep."""
    CALLED.append("note")
    return {"noted": "yes"}


class Expense(Statechart):
    """One human decision, one piece of work."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="2d", remind="1d", escalate={"director": "36h"}))
    paying = State(run=Run("pay", retry=Retry(5), timeout="60s", errors=("DECLINED", "FRAUD")))
    paid, rejected, failed = Final(), Final(), Final()

    submit = draft.to(review, by="employee", when=has_receipt, do=note)
    approve = review.to(paying, by="manager", distinct_from="submit")
    reject = review.to(rejected, by="manager")
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    declined = paying.on_error("DECLINED").to(review)
    broken = paying.on_error.to(failed)
    stale = draft.after("30d").to(failed)
    withdraw = any_live.to(failed, by="employee")


class Desk(Statechart):
    """Parallel regions, history, an answer by form, children."""

    typing, typed = State(), State()
    waiting, seen = State(ask=Ask("clerk", deadline="1h")), State()
    text, stamp = State(typing, typed), State(waiting, seen)
    both = Parallel(text, stamp)
    memory = History(deep=True, otherwise=both)
    desk = State(both, memory)
    away = State(initial=True)
    helping = State()
    end = Final()

    sit = away.to(desk)
    resume = away.to(memory)
    type_on = typing.to(typed)
    look = waiting.on_answer.to(seen)
    late = waiting.on_deadline.to(seen)
    leave = desk.to(away)
    delegate = away.to(helping, do=spawn("helper"))
    helped = helping.on("child.changed").to(end)


class Votes(Statechart, staff={"member": 3}):
    """A quorum and a countersignature."""

    voting = State(initial=True)
    carried = Final()
    vote = voting.to(carried, by="member", quorum=2, countersign="chair")


class Loop(Statechart, computed="first"):
    """A status from facts, with a counter."""

    failed = State(where="failed_at && counters.tries >= 2")
    waiting = State(where="failed_at")
    fresh = State(where="true", initial=True)
    fail = fresh.computes(waiting, failed, do=count("tries"), sets="failed_at")
    again = (waiting | failed).computes(fresh, clears="failed_at")


class Pair(Statechart, computed="first"):
    """Follows two children, of which it hears one by one."""

    both = State(where="children.done >= 2")
    one = State(where="children.done == 1")
    none = State(where="true", initial=True)
    begin = none.stay(do=(spawn("helper"), spawn("helper")))


class Twins(Statechart, computed="first", children="together"):
    """The same, which may hear of both at once."""

    both = State(where="children.done >= 2")
    one = State(where="children.done == 1")
    none = State(where="true", initial=True)
    begin = none.stay(do=(spawn("helper"), spawn("helper")))


def places(explored: Exploration) -> set[str]:
    """The states of all configurations."""
    return {node.snapshot.state for node in explored.nodes}


def shortest(explored: Exploration, state: str) -> tuple[str, ...]:
    """The path to a state that is reached."""
    path = explored.path_to_state(state)
    assert path is not None
    return path


def test_children_that_are_told_of_together_can_skip_what_lies_between() -> None:
    """A parent that hears of them one by one cannot."""
    assert shortest(explore(Pair), "both") == ("begin", "a child becomes done", "a child becomes done")
    assert shortest(explore(Twins), "both") == ("begin", "all new children become done")


@pytest.mark.parametrize(
    ("chart", "state", "path"),
    [
        (Expense, "draft", ()),
        (Expense, "review", ("submit by employee",)),
        (Expense, "paid", ("submit by employee", "approve by manager", "work of paying is done")),
        (Expense, "rejected", ("submit by employee", "reject by manager")),
        (Expense, "failed", ("withdraw by employee",)),
        (Desk, "seen", ("sit", "answer to waiting by clerk")),
        (Desk, "end", ("delegate", "a child changes")),
        (Votes, "carried", ("vote by chair", "vote by member", "vote by member 2")),
        (Loop, "failed", ("fail", "again", "fail")),
    ],
)
def test_the_shortest_way_is_told_in_readable_words(
    chart: type[Statechart], state: str, path: tuple[str, ...]
) -> None:
    """Every state has its shortest path, step by step as a person would tell it."""
    assert shortest(explore(chart), state) == path


def test_timers_deadlines_escalations_and_errors_have_their_words() -> None:
    """Each way of moving by itself is tried, and has a label of its own."""
    labels = {edge.label for edge in explore(Expense).edges if edge.automatic}
    assert labels == {
        "after 30d in draft",
        "deadline of review",
        "escalation of review",
        "work of paying is done",
        "work of paying fails: DECLINED",
        "work of paying fails: FRAUD",
    }


def test_error_codes_that_the_same_rows_take_are_tried_once() -> None:
    """Of FRAUD, timeout and lost, which all lead to `broken`, one stands for the others."""
    broken = {edge.label for edge in explore(Expense).edges if edge.kind == "error"}
    assert len(broken) == 2


def test_functions_of_the_chart_are_not_called() -> None:
    """Guards and actions in Python never run: exploration has no data for them."""
    CALLED.clear()
    explore(Expense)
    assert CALLED == []


def test_all_configurations_of_parallel_regions_are_found() -> None:
    """Each combination of the regions is one configuration."""
    together = {"typing+waiting", "typed+waiting", "typing+seen", "typed+seen"}
    assert places(explore(Desk)) == together | {"away", "helping", "end"}


def test_states_that_are_left_at_once_count_as_reached() -> None:
    """A state passed in the middle of a step has a path too."""

    class Passing(Statechart):
        first, choice = State(initial=True), State()
        end = Final()
        go = first.to(choice)
        on = choice.always.to(end)

    explored = explore(Passing)
    assert "choice" not in places(explored)
    assert shortest(explored, "choice") == ("go",)


def test_a_guard_goes_both_ways_and_the_path_says_which() -> None:
    """Where a guard decides, both outcomes are reached."""

    class Forked(Statechart):
        first = State(initial=True)
        yes, no = Final(), Final()
        go = first.to(yes, when=has_receipt) | first.to(no)

    assert shortest(explore(Forked), "no") == ("go (not has_receipt)",)


def test_a_guard_on_states_alone_is_decided() -> None:
    """`In('x')` needs no data, so it does not go both ways."""

    class Looking(Statechart):
        first = State(initial=True)
        yes, no = Final(), Final()
        go = first.to(yes, when="In('first')") | first.to(no)

    assert places(explore(Looking)) == {"first", "yes"}


def test_one_guard_gives_one_answer_within_a_step() -> None:
    """Two rows with the same guard are never taken to be of different opinion."""

    class Twins(Statechart):
        first, second = State(initial=True), State()
        never = Final()
        go = first.to(second, when=has_receipt) | first.to(never, event="go", when=has_receipt)

    assert places(explore(Twins)) == {"first", "second"}


def test_what_history_remembers_tells_configurations_apart() -> None:
    """Away after one child is not away after the other: each comes back to its own."""

    class Resuming(Statechart):
        one, two = State(), State()
        memory = History(otherwise=one)
        work = State(one, two, memory, initial=True)
        away = State()
        on = one.to(two)
        leave = work.to(away)
        resume = away.to(memory)

    explored = explore(Resuming)
    edges = [edge for edge in explored.edges if edge.label == "resume"]
    assert {explored.nodes[edge.target].snapshot.state for edge in edges} == {"one", "two"}


@pytest.mark.parametrize(("members", "carried"), [(1, False), (2, True)])
def test_only_the_declared_staff_acts(members: int, *, carried: bool) -> None:
    """A quorum of two is reached by two members and not by one who votes twice."""

    class Board(Statechart, staff={"member": members}):
        voting = State(initial=True)
        carried = Final()
        vote = voting.to(carried, by="member", quorum=2)

    assert ("carried" in places(explore(Board))) is carried


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_limit_is_respected_and_told(limit: int) -> None:
    """A bounded exploration stops near its limit and says that it is not complete."""
    explored = explore(Expense, limit=limit)
    whole = explore(Expense)
    assert not explored.complete
    assert limit <= len(explored) < len(whole)
    assert whole.complete


def test_more_answers_than_can_be_tried_are_told() -> None:
    """Ten guards asked at once have a thousand answers: exploration stops there, and says so."""
    body: dict[str, object] = {}
    regions = []
    for index in range(10):
        here, there = State(), State()
        regions.append(State(here, there))
        body |= {f"here{index}": here, f"there{index}": there, f"region{index}": regions[-1]}
        body[f"go{index}"] = here.to(there, event="go", when=f"open{index}")
    body["all"] = Parallel(*regions, initial=True)
    wide: type[Statechart] = type("Wide", (Statechart,), body)
    explored = explore(wide, limit=100)
    assert not explored.complete
    assert len(explored) <= MOST_ANSWERS + 1


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", seeds(25))
@pytest.mark.parametrize("chart", [Expense, Desk, Votes, Loop])
def test_whatever_really_happens_was_explored(chart: type[Statechart], seed: int) -> None:
    """Random walks of the real chart, with its real guards, never leave what exploration found."""
    known, random, ready = places(explore(chart)), Random(seed), chart_of(chart)
    happenings = Happenings(ready, People(ready), RuleFacts(ready))
    begun = start(ready, now=NOW, context={"receipt": seed % 2})
    assert not isinstance(begun, Refusal)
    snapshot, now = begun.snapshot, NOW
    for _ in range(30):
        assert snapshot.state in known
        options = list(happenings.after(snapshot, now)) if not snapshot.ended else []
        if not options:
            break
        chosen = random.choice(options)
        outcome = step(ready, chosen.before, chosen.event, chosen.now)
        if not isinstance(outcome, Refusal):
            snapshot, now = outcome.snapshot, chosen.now


class Proving(Statechart):
    """A chart with promises of every kind."""

    draft, review = State(initial=True), State(ask=Ask("boss", deadline="1d"))
    paying = State(run="pay")
    paid, lost = Final(), Final()

    submit = draft.to(review)
    approve = review.to(paying, by="boss")
    expire = review.on_deadline.to(lost)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(review)

    @invariant("nothing is paid without approval")
    def approved(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """Over all ways, however long."""
        return view.fired("approve") or view.status != "paid"

    @invariant("an ask is open exactly in review, work exactly in paying")
    def open_parts(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """What is open follows the state."""
        return (view.asks == {"review"}) == view.in_state("review") and (view.work == {"paying"}) == (
            "paying" in view.states
        )


class Refuted(Proving):
    """The same chart with a promise it does not keep."""

    @invariant("what was approved is never lost")
    def never_lost(view: Explored) -> bool | No:  # noqa: N805 - an invariant sees a configuration, not an instance
        """It is: by an error and a deadline."""
        if view.fired("approve") and view.ended and not view.fired("done"):
            return No("approved, and lost")
        return True


class Undecided(Proving):
    """An invariant that forgets to answer."""

    @invariant("nothing")
    def silent(view: Explored) -> None:  # noqa: N805 - an invariant sees a configuration, not an instance
        """Answers nothing."""


def test_invariants_are_proved_for_all_configurations() -> None:
    """Promises that hold are proved, with the number of configurations looked at."""
    proof = prove(Proving)
    assert proof.ok
    assert list(proof) == []
    assert str(proof) == f"proved for all {proof.configurations} reachable configurations"


def test_a_promise_about_the_way_tells_configurations_apart_by_the_way() -> None:
    """`fired` is exact: review before and after an approval are two configurations."""
    assert prove(Proving).configurations == len(explore(Proving)) + 2


def test_a_broken_promise_gets_its_shortest_counter_example() -> None:
    """The path of a violation is the shortest there is, and the reason is the invariant's own."""
    (violation,) = prove(Refuted)
    assert violation.path == (
        "submit",
        "approve by boss",
        "work of paying fails: lost",
        "deadline of review",
    )
    assert (violation.promise, violation.reason) == ("what was approved is never lost", "approved, and lost")
    assert str(violation).startswith("what was approved is never lost: broken in lost (approved, and lost)")


def test_an_invariant_without_an_answer_proves_nothing() -> None:
    """Neither yes nor no is told as a failure of the invariant itself."""
    (violation,) = prove(Undecided)
    assert violation.failed


def test_a_proof_that_met_the_limit_says_so() -> None:
    """What was not looked at is not claimed."""
    proof = prove(Proving, limit=2)
    assert not proof.ok
    assert str(proof).startswith("not proved: only 2 configurations")


class Skipping(Statechart):
    """Moves on by itself at the start, when a guard says yes."""

    first, second = State(initial=True), State()
    end = Final()
    skip = first.always.to(second, when=has_receipt)
    go = first.to(second)
    leave = second.to(end)

    @invariant("nothing is skipped")
    def unskipped(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """It is, at the start."""
        return not view.fired("skip")


def test_what_fires_at_the_start_has_fired() -> None:
    """A row taken before the first step counts as taken, for the explorer and for a promise."""
    explored = explore(Skipping)
    assert {explored.chart.model.transitions[row].name for row in explored.begun} == {"skip"}
    (violation,) = prove(Skipping)
    assert (violation.states, violation.path) == (("second",), ())


def test_a_promise_that_asks_one_by_one_is_heard_to_the_end() -> None:
    """However many transitions are asked about, and each only after the one before, all are watched."""
    states = [State(initial=index == 0) for index in range(12)]
    names = [f"go{index}" for index in range(11)]
    body: dict[str, object] = {f"s{index}": state for index, state in enumerate(states)}
    body |= {name: states[index].to(states[index + 1]) for index, name in enumerate(names)}

    def short(view: Explored) -> bool:
        return not all(view.fired(name) for name in names)

    body["short"] = invariant("never all the way")(short)
    long: type[Statechart] = type("Long", (Statechart,), body)
    (violation,) = prove(long)
    assert violation.path == tuple(names)


@pytest.mark.parametrize(("facts", "complete"), [(8, True), (9, False)])
@pytest.mark.parametrize("given", [True, False], ids=["readings", "starts"])
def test_more_starts_than_are_tried_are_told(facts: int, *, given: bool, complete: bool) -> None:
    """Of nine free facts not all combinations are tried, so nothing is proved about them."""
    names = [f"f{index}" for index in range(facts)]
    body: dict[str, object] = {
        "hot": State(where=" && ".join(names)),
        "cold": State(where="true", initial=True),
        "look": any_live.stay(event="look"),
    }
    declared = tuple(names) if given else ()
    wide: type[Statechart] = types.new_class(
        "Wide", (Statechart,), {"computed": "first", "facts": declared}, lambda space: space.update(body)
    )
    assert explore(wide).complete is complete


class Circling(Statechart):
    """Goes round by itself for as long as a guard says yes."""

    first, ping, pong = State(initial=True), State(), State()
    end = Final()
    go = first.to(ping)
    hit = ping.always.to(pong, when=has_receipt)
    back = pong.always.to(ping)
    leave = ping.always.to(end)

    @invariant("no way to the end goes round")
    def straight(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """It does, when the guard says yes and then no."""
        return not (view.ended and view.fired("hit"))


def test_a_circle_that_a_guard_may_end_leaves_the_proof_open() -> None:
    """A runaway step on free answers may come to rest: nothing is proved, and it is cut early."""
    explored = explore(Circling)
    assert not explored.complete
    (denial,) = explored.denials
    assert (denial.code, denial.guarded, len(denial.transitions)) == ("runaway", True, MOST_ROWS + 1)
    assert not prove(Circling).ok


class Noting(Statechart):
    """Notes something by itself, until its guard says that there is nothing to note."""

    first = State(initial=True)
    go = first.to(first)
    note = first.always.stay(when=has_receipt)


def test_a_row_that_stays_and_changes_nothing_ends_when_its_guard_says_no() -> None:
    """Taken once or often, it comes to the same place: the proof goes on from there."""
    explored = explore(Noting)
    assert (explored.complete, explored.denials) == (True, [])
    assert {edge.names for edge in explored.edges} == {("go",), ("go", "note")}
