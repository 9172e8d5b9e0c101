"""What the core knows about people: roles, duties, asks, guards with reasons, and refusals that explain."""

import pytest
from pydantic import BaseModel

from headway import Ask, Event, Final, No, Parallel, State, Statechart, View, agent, any_live, person
from headway.actions import assign, put
from headway.statechart.effects import ClosedAsk, EscalateAsk, OpenedAsk, RemindAsk
from headway.testing import Journey

ann = person("ann", "employee", "manager")
bob = person("bob", "manager")
cid = person("cid", "manager", "auditor")
dee = person("dee", "director")
bot = agent("bot", "manager")
eve = person("eve")


class Verdict(BaseModel):
    """What a manager says."""

    ok: bool
    comment: str = ""


def has_receipt(view: View) -> bool | No:
    """A receipt is attached."""
    return bool(view.context.get("receipt")) or No("attach a receipt first")


def within_budget(view: View) -> bool:
    """The budget allows it."""
    return bool(view.facts["spent"] + view.context["amount"] <= view.facts["budget"])


class Claim(Statechart, facts=("spent", "budget")):
    """A claim that people decide on."""

    draft = State(initial=True)
    review = State(
        ask=Ask(
            "manager",
            form=Verdict,
            deadline="3d",
            remind="1d",
            escalate={"director": "2d"},
            shows=("amount",),
        )
    )
    paid, rejected = Final(), Final()

    submit = draft.to(review, by="employee", when=(has_receipt, within_budget))
    amend = draft.stay(takes=Verdict, do=put(amended=True))
    approve = review.to(paid, by="manager", distinct_from="submit", no_agent=True)
    answered = review.on_answer.to(paid, do=assign(said="_event.data.comment"))
    expire = review.on_deadline.to(rejected)
    withdraw = any_live.to(rejected, by="employee")


def claim(**context: object) -> Journey:
    """A claim at its beginning."""
    return Journey(
        Claim, context={"amount": 5, "receipt": "r.pdf"} | context, facts={"spent": 90, "budget": 100}
    )


def submitted() -> Journey:
    """A claim that waits for a manager."""
    journey = claim()
    journey.send(Claim.submit(by=ann))
    return journey


CASES = [
    ("unknown_event", Event("fly", by=ann)),
    ("illegal", Claim.approve(by=bob)),
    ("actor", Claim.submit(by=bob)),
    ("payload", Claim.amend({"ok": "maybe"}, by=ann)),
    ("reserved", Event("deadline.review", by=ann)),
    ("reserved", Event("done.work.draft", by=ann)),
    ("reserved", Event("timer", by=ann)),
    ("stale", Event("timer", ref="it:9:9")),
    ("actor", Event("timer", by=ann, ref="it:9:9")),
]


@pytest.mark.mission("ENG-2")
@pytest.mark.parametrize(("code", "event"), CASES, ids=lambda value: getattr(value, "name", value))
def test_each_kind_of_refusal_is_told_apart_and_says_what_is_possible(code: str, event: Event) -> None:
    """Whatever is not legal now leaves everything as it was, with the state and the events that are legal."""
    journey = claim()
    before = journey.snapshot
    refusal = journey.refused(event)
    assert (refusal.code, refusal.event, refusal.states) == (code, event.name, ("draft",))
    possible = {each.event: (each.by, each.targets) for each in refusal.allowed}
    assert possible == {
        "submit": (("employee",), ("review",)),
        "amend": ((), ()),
        "withdraw": (("employee",), ("rejected",)),
    }
    assert journey.snapshot is before


@pytest.mark.mission("ENG-2")
def test_terminal_and_already_there_are_told_apart() -> None:
    """After the end, an event that led there is "already", any other "terminal", and nothing is possible."""
    journey = submitted()
    journey.send(Claim.withdraw(by=ann))
    assert journey.refused(Claim.withdraw(by=ann)).code == "already"
    refusal = journey.refused(Claim.approve(by=bob))
    assert (refusal.code, refusal.states, refusal.allowed) == ("terminal", ("rejected",), ())


@pytest.mark.mission("ENG-1", "ENG-2")
def test_a_guard_says_why_not() -> None:
    """The reason of a guard, or else its description, reaches whoever sent the event."""
    without = claim(receipt=None).refused(Claim.submit(by=ann))
    assert (without.code, without.objections[0].guard) == ("guard", "has_receipt")
    assert "attach a receipt first" in without.message
    too_much = claim(amount=50).refused(Claim.submit(by=ann))
    assert [each.reason for each in too_much.objections] == ["condition not met: The budget allows it."]


@pytest.mark.mission("ENG-1")
def test_guards_see_the_facts_of_the_moment() -> None:
    """The same event is refused and taken as the facts change, not the instance."""
    journey = claim()
    journey.facts["budget"] = 91
    assert journey.refused(Claim.submit(by=ann)).code == "guard"
    journey.facts["budget"] = 95
    journey.send(Claim.submit(by=ann))
    assert journey.states == ("review",)


@pytest.mark.mission("ENG-1")
@pytest.mark.parametrize(
    ("sender", "reason"),
    [
        (ann, "someone else"),
        (bot, "only a person may send"),
        (eve, "needs the role manager; eve has no role"),
    ],
    ids=["four eyes", "no agent", "role"],
)
def test_duties_hold_whoever_asks(sender: object, reason: str) -> None:
    """Four eyes, no agents and roles are checked in the step itself."""
    journey = submitted()
    refusal = journey.refused(Event("approve", by=sender))  # type: ignore[arg-type]  # the table holds actors
    assert refusal.code in {"duty", "actor"}
    assert reason in refusal.message
    journey.send(Claim.approve(by=bob))
    assert journey.snapshot.ended


class Board(Statechart):
    """A decision that takes several."""

    open_ = State(initial=True)
    agreed, signed = Final(), Final()

    agree = open_.to(agreed, by="manager", quorum=2)
    sign = open_.to(signed, by="manager", countersign="auditor")


@pytest.mark.mission("ENG-1")
def test_a_quorum_takes_as_many_different_people_as_it_says() -> None:
    """A vote is recorded and changes no state; the same person does not count twice; the last vote moves."""
    journey = Journey(Board)
    voted = journey.send(Board.agree(by=ann))
    assert (journey.states, voted.history[0].reason) == (
        ("open_",),
        "1 voted; still needed: 1 more of manager",
    )
    assert journey.refused(Board.agree(by=ann)).code == "duty"
    journey.send(Board.agree(by=bob))
    assert journey.snapshot.ended
    assert journey.snapshot.votes == {}


@pytest.mark.mission("ENG-1")
def test_votes_for_a_transition_that_stays_begin_anew_each_time() -> None:
    """Once the quorum was reached the next time needs it again."""

    class Counting(Statechart):
        sitting = State(initial=True)

        agree = sitting.stay(by="manager", quorum=2, counts="agreed")

    journey = Journey(Counting)
    for voter in (ann, bob, ann, bob):
        journey.send(Counting.agree(by=voter))
    assert journey.snapshot.counters == {"agreed": 2}


@pytest.mark.mission("ENG-1")
def test_votes_are_forgotten_when_their_state_is_left() -> None:
    """Whoever voted before has to vote again when the question comes up anew."""

    class Adjourned(Statechart):
        sitting, away = State(initial=True), State()
        agreed = Final()

        agree = sitting.to(agreed, by="manager", quorum=2)
        adjourn = sitting.to(away)
        resume = away.to(sitting)

    journey = Journey(Adjourned)
    for event in (Adjourned.agree(by=ann), Adjourned.adjourn(), Adjourned.resume(), Adjourned.agree(by=bob)):
        journey.send(event)
    assert journey.states == ("sitting",)
    journey.send(Adjourned.agree(by=ann))
    assert journey.snapshot.ended


@pytest.mark.mission("ENG-1")
def test_a_quorum_in_one_region_is_not_passed_by_with_another_region() -> None:
    """An event that moves one region freely counts only as a vote in the region that needs two."""

    class Both(Statechart):
        free, freed = State(), State()
        held, released = State(), State()
        left, right = State(free, freed), State(held, released)
        whole = Parallel(left, right, initial=True)

        go = free.to(freed, by="manager") | held.to(released, by="manager", quorum=2)

    journey = Journey(Both)
    seen = []
    for voter in (ann, bob):
        journey.send(Both.go(by=voter))
        seen.append(journey.snapshot.state)
    assert seen == ["freed+held", "freed+released"]


@pytest.mark.mission("ENG-1")
def test_a_countersignature_is_another_persons_with_the_role() -> None:
    """One of the sender's kind alone does not move it, and two of them neither."""
    journey = Journey(Board)
    journey.send(Board.sign(by=ann))
    assert journey.refused(Board.sign(by=bob)).code == "duty"
    assert journey.refused(Board.sign(by=ann)).code == "duty"
    journey.send(Board.sign(by=cid))
    assert journey.states == ("signed",)


@pytest.mark.mission("ENG-8")
def test_an_ask_is_opened_with_the_state_and_closed_with_it() -> None:
    """People learn what is asked, of whom, until when and by which events; and when it is over."""
    journey = submitted()
    (opened,) = [each for each in journey.effects if isinstance(each, OpenedAsk)]
    assert (opened.roles, opened.form, opened.shows) == (("manager",), "Verdict", {"amount": 5})
    assert set(opened.answers) >= {"approve", "answer.review"}
    assert opened.deadline is not None
    assert (opened.deadline - journey.clock.now()).days == 3
    journey.send(Claim.approve(by=bob, ref=opened.ask))
    (closed,) = [each for each in journey.effects if isinstance(each, ClosedAsk)]
    assert (closed.ask, closed.event, closed.by) == (opened.ask, "approve", "bob")


@pytest.mark.mission("ENG-8")
def test_an_answer_by_form_is_checked_against_the_form_and_the_roles() -> None:
    """`answer` carries the form's data: the wrong data and the wrong person are refused."""
    journey = submitted()
    ask = journey.snapshot.asks["review"].id
    assert journey.refused(Event("answer", {"ok": "maybe"}, bob, ask)).code == "payload"
    assert journey.refused(Event("answer", {"ok": True}, eve, ask)).code == "actor"
    journey.answer({"ok": True, "comment": "fine"}, by=bob)
    assert journey.snapshot.context["said"] == "fine"


@pytest.mark.mission("ENG-8")
def test_a_late_answer_is_refused() -> None:
    """The deadline ends the ask; what refers to it afterwards is late, and the state stays what it became."""
    journey = submitted()
    ask = journey.snapshot.asks["review"].id
    journey.advance("3d")
    assert journey.states == ("rejected",)
    assert journey.refused(Event("answer", {"ok": True}, bob, ask)).code == "late"
    assert journey.refused(Claim.approve(by=bob, ref=ask)).code == "late"

    class Reopening(Statechart):
        asking = State(initial=True, ask=Ask("manager", deadline="1d"))
        thinking = State()

        decide = asking.to(thinking, by="manager")
        timeout = asking.on_deadline.to(thinking)
        again = thinking.to(asking)

    journey = Journey(Reopening)
    ask = journey.snapshot.asks["asking"].id
    journey.advance("1d")
    assert journey.refused(Reopening.decide(by=bob, ref=ask)).code == "late"
    journey.send("again")
    assert journey.refused(Reopening.decide(by=bob, ref=ask)).code == "late"
    journey.send(Reopening.decide(by=bob, ref=journey.snapshot.asks["asking"].id))


class Recording(Statechart):
    """An ask that keeps answers which come too late."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d", late="record"))
    closed = State()

    decide = asking.to(closed, by="manager")
    timeout = asking.on_deadline.to(closed)


class RecordingAtTheEnd(Statechart):
    """The same, where the deadline ends the life."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d", late="record"))
    closed = Final()

    decide = asking.to(closed, by="manager")
    timeout = asking.on_deadline.to(closed)


@pytest.mark.mission("ENG-8")
@pytest.mark.parametrize("chart", [Recording, RecordingAtTheEnd])
def test_a_late_answer_can_be_kept_on_record(chart: type[Recording]) -> None:
    """With `late="record"` the answer is a line of the history and changes no state, also after the end."""
    journey = Journey(chart)
    ask = journey.snapshot.asks["asking"].id
    journey.advance("1d")
    kept = journey.send(chart.decide({"ok": True}, by=bob, ref=ask))
    assert journey.states == ("closed",)
    assert [(row.event, row.actor, row.reason) for row in kept.history] == [("decide", "bob", "late answer")]


@pytest.mark.mission("ENG-8", "ENG-9")
def test_reminders_repeat_until_the_deadline() -> None:
    """With a reminder each day and a deadline of three days there are two: on the third day it is over."""
    journey = submitted()
    journey.advance("2d")
    assert [timer.event for timer in journey.snapshot.timers.values()] == ["deadline.review"]
    journey.advance("1d")
    reminders = [each for each in journey.effects if isinstance(each, RemindAsk)]
    assert [each.roles for each in reminders] == [("manager",), ("manager", "director")]
    assert len({each.id for each in reminders}) == 2
    assert journey.snapshot.timers == {}


@pytest.mark.mission("ENG-8")
def test_an_escalation_lets_another_role_answer() -> None:
    """Before it the director may not decide, after it she may, by event and by form."""
    journey = submitted()
    assert journey.refused(Claim.approve(by=dee)).code == "actor"
    journey.advance("2d")
    assert [each.roles for each in journey.effects if isinstance(each, EscalateAsk)] == [("director",)]
    journey.send(Claim.approve(by=dee))
    assert journey.states == ("paid",)
