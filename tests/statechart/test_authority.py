"""Who may do what, tried by those who should not: roles, duties, references and late answers."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from headway import (
    Ask,
    Event,
    Final,
    Parallel,
    Refusal,
    State,
    Statechart,
    Step,
    View,
    agent,
    person,
    start,
    step,
)
from headway.statechart.snapshot import Actor, Snapshot, child_changed, timer_fired, work_done

pytestmark = pytest.mark.mission("ENG-1", "ENG-2", "ENG-8", "ENG-10")
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


@dataclass
class Verdict:
    """What an approval says."""

    amount: int


def begun(chart: type[Statechart]) -> Snapshot:
    """A life that has just begun."""
    return start(chart, now=NOW).unwrap().snapshot


def sent(
    chart: type[Statechart], snapshot: Snapshot, event: Event, after: timedelta = timedelta()
) -> Snapshot:
    """The snapshot after an event that must go through."""
    return step(chart, snapshot, event, NOW + after).unwrap().snapshot


def refused(
    chart: type[Statechart], snapshot: Snapshot, event: Event, after: timedelta = timedelta()
) -> Refusal:
    """The refusal of an event that must not go through."""
    answer = step(chart, snapshot, event, NOW + after)
    assert isinstance(answer, Refusal), answer
    return answer


class Approval(Statechart):
    """Asks two roles; each may do one thing; a director comes in later."""

    review = State(
        initial=True, ask=Ask("manager", "finance", deadline="2d", escalate={"director": "1d"}, form=Verdict)
    )
    ok, no = Final(), Final()
    approve = review.to(ok, by="manager")
    reject = review.to(no, by="finance")
    expire = review.on_deadline.to(no)


def test_being_asked_is_not_being_allowed_everything() -> None:
    """A role that the ask names cannot fire a transition that is for another role of it."""
    answer = refused(Approval, begun(Approval), Approval.approve(by=person("fin", "finance")))
    assert (answer.code, answer.allowed[0].by) == ("actor", ("manager",))


def test_an_escalation_reaches_rows_refusals_and_explanations() -> None:
    """Whom an ask was escalated to may act, and every list of who may says so."""
    first = begun(Approval)
    timer = next(key for key, timer in first.timers.items() if timer.event.startswith("escalate."))
    later = sent(Approval, first, timer_fired(timer), timedelta(days=1))
    answer = refused(Approval, later, Approval.approve(by=person("x", "clerk")), timedelta(days=1))
    assert answer.allowed[0].by == ("manager", "director")
    assert "needs the role manager or director" in answer.message
    approved = sent(Approval, later, Approval.approve(by=person("dir", "director")), timedelta(days=1))
    assert approved.states == ("ok",)


def test_a_form_binds_every_answer_that_carries_data() -> None:
    """Data that comes with an answer fits the ask's form, by whichever event and with or without its id."""
    first = begun(Approval)
    boss = person("boss", "manager")
    for ref in (None, first.asks["review"].id):
        answer = refused(Approval, first, Event("approve", {"garbage": 1}, boss, ref))
        assert answer.code == "payload"
        assert sent(Approval, first, Event("approve", {"amount": 1}, boss, ref)).states == ("ok",)


def test_after_the_deadline_no_answer_counts_even_before_its_timer_comes() -> None:
    """The deadline itself ends the time to answer; a timer that comes late gives nobody more of it."""
    answer = refused(
        Approval, begun(Approval), Approval.approve(by=person("b", "manager")), timedelta(days=9)
    )
    assert answer.code == "late"


class Both(Statechart):
    """Two regions ask at once and wait for events of one name."""

    left_ask = State(ask=Ask("manager", deadline="2d"))
    right_ask = State(ask=Ask("manager", deadline="2d"))
    left_done, right_done = Final(), Final()
    left, right = State(left_ask, left_done), State(right_ask, right_done)
    both = Parallel(left, right, initial=True)
    approve = left_ask.to(left_done, by="manager") | right_ask.to(right_done, by="manager")
    expire = left_ask.on_deadline.to(left_done) | right_ask.on_deadline.to(right_done)


def test_an_answer_reaches_the_ask_it_names_and_no_other() -> None:
    """With two asks open that wait for the same event, the reference decides which is answered."""
    first = begun(Both)
    event = Event("approve", None, person("b", "manager"), first.asks["left_ask"].id)
    assert sent(Both, first, event).states == ("left_done", "right_ask")


class Motion(Statechart, staff={"manager": 5, "finance": 3, "director": 3}):
    """Needs several people, some of them particular ones."""

    asked = State(initial=True)
    granted, paid, dropped = State(), Final(), Final()
    grant = asked.to(granted, by="manager", quorum=2, countersign="finance")
    hurry = asked.to(granted, by="manager", quorum=2, event="rush") | asked.to(
        granted, by="director", quorum=2, event="rush"
    )
    pay = granted.to(paid, by="manager", distinct_from="grant")
    sign = asked.to(granted, by="manager", no_agent=True)
    drop = (asked | granted).after("7d").to(dropped)


ANN, BOB, EVE = person("ann", "manager"), person("bob", "manager"), person("eve", "manager")
FIN, ALL = person("fin", "finance"), person("all", "manager", "finance")


@pytest.mark.parametrize("order", [(ANN, ALL, FIN), (ALL, ANN, FIN), (FIN, ALL, ANN), (ALL, FIN, BOB)])
def test_votes_fill_the_places_they_can_whatever_their_order(order: tuple[Actor, ...]) -> None:
    """Somebody with two roles takes the place nobody else can, no matter who votes first."""
    snapshot = begun(Motion)
    for voter in order:
        snapshot = sent(Motion, snapshot, Motion.grant(by=voter))
    assert snapshot.states == ("granted",)


def test_everyone_who_voted_counts_as_having_acted() -> None:
    """Four eyes look at all voters, not only at the last."""
    snapshot = begun(Motion)
    for voter in (ANN, BOB, FIN):
        snapshot = sent(Motion, snapshot, Motion.grant(by=voter))
    for voter in (ANN, BOB):
        assert refused(Motion, snapshot, Motion.pay(by=voter)).code == "duty"
    assert sent(Motion, snapshot, Motion.pay(by=EVE)).ended


def test_a_vote_for_other_data_is_no_vote() -> None:
    """Votes are for what was voted on: a later voter cannot change it."""
    voted = sent(Motion, begun(Motion), Motion.grant({"amount": 1}, by=ANN))
    answer = refused(Motion, voted, Motion.grant({"amount": 10**6}, by=BOB))
    assert (answer.code, "different data" in answer.message) == ("duty", True)
    assert sent(Motion, voted, Motion.grant({"amount": 1}, by=BOB)).votes


def test_rows_of_one_name_count_their_own_votes() -> None:
    """A vote for one row is none for another that happens to share its name."""
    voted = sent(Motion, begun(Motion), Event("rush", by=ANN))
    assert sent(Motion, voted, Event("rush", by=person("d", "director"))).states == ("asked",)


@pytest.mark.parametrize("kind", ["agent", "service", "system"])
def test_what_is_for_people_is_not_for_programs(kind: str) -> None:
    """no_agent keeps out everything that is not a person."""
    program = Actor("bot", kind, frozenset({"manager"}))  # type: ignore[arg-type]  # a column of the table
    answer = refused(Motion, begun(Motion), Motion.sign(by=program))
    assert answer.code == "duty"
    assert answer.message.endswith(
        f"only a person may send sign, and bot is of kind {kind}:"
        " send it as a person (with an API key made with `--kind person`)"
    )


def test_a_voters_reason_stays_in_the_history() -> None:
    """What a voter says beside the vote is kept with it."""
    answer = step(Motion, begun(Motion), Motion.grant(by=ANN, reason="within budget"), NOW)
    assert isinstance(answer, Step)
    assert answer.history[0].reason == "within budget; 1 voted; still needed: 1 more of manager, finance"


class Working(Statechart):
    """Runs work; anyone may leave a note meanwhile."""

    running = State(initial=True, run="work")
    over = Final()
    note = running.stay()
    done = running.on_done.to(over)
    broken = running.on_error.to(over)


@pytest.mark.parametrize("name", ["work.done", "note"])
def test_a_reference_gives_nobody_authority(name: str) -> None:
    """A person who knows or guesses the id of a piece of work cannot end it."""
    first = begun(Working)
    work = first.work["running"]
    assert refused(Working, first, Event(name, by=person("mallory"), ref=work.id, attempt=1)).code == "actor"
    assert sent(Working, first, work_done(work.id, 1, by=agent("planner"))).states == ("over",)


def test_a_person_cannot_speak_for_a_child() -> None:
    """What a child reports comes from the engine."""
    forged = child_changed("c", None, "Done")
    answer = refused(Working, begun(Working), Event(forged.name, forged.data, person("mallory"), forged.ref))
    assert answer.code == "actor"


class Recorded(Statechart):
    """Writes late answers down."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="2d", late="record"))
    over = Final()
    submit = draft.to(review)
    approve = review.to(over, by="manager")
    expire = review.on_deadline.to(draft)


def test_only_an_answer_of_somebody_asked_is_recorded_late() -> None:
    """A stranger, or a reference that was never given out here, leaves no line in the history."""
    first = begun(Recorded)
    asked = sent(Recorded, first, Recorded.submit())
    ask = asked.asks["review"].id
    expired = sent(Recorded, asked, timer_fired(next(iter(asked.timers))), timedelta(days=2))
    late = step(Recorded, expired, Event("approve", by=person("b", "manager"), ref=ask), NOW)
    assert isinstance(late, Step)
    assert late.history[0].reason == "late answer"
    assert refused(Recorded, expired, Event("approve", by=person("s"), ref=ask)).code == "late"
    assert (
        refused(Recorded, expired, Event("approve", by=person("b", "manager"), ref="made up")).code == "late"
    )


def ready(view: View) -> bool:
    """Whether somebody outside has opened the gate."""
    return bool(view.facts.get("open"))


class Gate(Statechart):
    """Opens by itself once the facts allow it."""

    shut = State(initial=True)
    open_ = Final()
    push = shut.to(open_, by="guard")
    swing = shut.always.to(open_, when=ready)


def test_a_refused_event_moves_nothing_under_its_senders_name() -> None:
    """What would follow by itself waits for an event that is taken."""
    shut = begun(Gate)
    for event in (Gate.push(by=person("mallory")), Event("nonsense", by=person("mallory"))):
        answer = step(Gate, shut, event, NOW, facts={"open": True})
        assert isinstance(answer, Refusal)


class Parcel(Statechart, version=1):
    """Something that people and the engine itself move."""

    waiting, moving, lost = State(initial=True), State(), Final()
    load = waiting.to(moving, by=("driver", "system"))
    route = waiting.stay(by="system")
    lose = waiting.to(lost, by="system") | moving.to(lost, by="driver")
    look = waiting.stay()


@pytest.mark.mission("ENG-2")
def test_a_refusal_names_only_what_somebody_outside_can_send() -> None:
    """What only the engine sends is left out, and so is its role; what anybody may send is there."""
    waiting = start(Parcel, "p", now=NOW)
    assert isinstance(waiting, Step)
    answer = step(Parcel, waiting.snapshot, Event("fly"), NOW)
    assert isinstance(answer, Refusal)
    assert {each.event: each.by for each in answer.allowed} == {"load": ("driver",), "look": ()}
    answer = step(Parcel, waiting.snapshot, Event("lose", by=person("dan", "driver")), NOW)
    assert isinstance(answer, Refusal)
    assert (answer.code, {each.event for each in answer.allowed}) == ("actor", {"load", "look"})
