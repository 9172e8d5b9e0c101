"""Questions that somebody holds: claimed for a time, released, or delegated to another person."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from headway import Actor, Ask, Event, Final, Parallel, State, Statechart, agent, any_live, explain, person
from headway.codec import decode, encode, replace
from headway.errors import InputError
from headway.statechart.effects import ChangedAsk, ClosedAsk, EscalateAsk, RemindAsk
from headway.statechart.export import from_document, to_document
from headway.statechart.snapshot import (
    SYSTEM,
    OpenAsk,
    Snapshot,
    claim_ask,
    delegate_ask,
    release_ask,
    work_done,
)
from headway.statechart.step.step import step
from headway.testing import Journey

pytestmark = pytest.mark.mission("ENG-8")

ann = person("ann", "manager", "employee")
bob = person("bob", "manager")
cid = person("cid", "manager")
dan = person("dan", "intern")
dee = person("dee", "director")
eve = person("eve", "employee")
root = person("root", "admin")
bot = agent("bot", "manager")
HOUR, DAY = timedelta(hours=1), timedelta(hours=24)


class Claim(Statechart):
    """A claim that a manager decides on."""

    draft = State(initial=True)
    review = State(
        ask=Ask("manager", deadline="5d", remind="2d", escalate={"director": "3d"}, delegate="anyone")
    )
    paid, rejected = Final(), Final()

    submit = draft.to(review, by="employee")
    approve = review.to(paid, by="manager", distinct_from="submit", no_agent=True)
    comment = review.stay(by="manager", counts="comments")
    answered = review.on_answer.to(paid)
    settle = review.to(paid, by=("manager", "admin"))
    recall = review.to(draft, by="employee")
    expire = review.on_deadline.to(rejected)
    drop = any_live.to(rejected, by=("manager", "admin"))
    audit = any_live.to(rejected, by="auditor")


def asked(by: Actor = eve) -> Journey:
    """A claim that waits for a manager."""
    journey = Journey(Claim)
    journey.send(Claim.submit(by=by))
    return journey


def ask_of(journey: Journey) -> OpenAsk:
    """The question as it stands."""
    return journey.snapshot.asks["review"]


def claim(journey: Journey, by: Actor, ahead: timedelta = HOUR) -> Event:
    """The event by which somebody claims the question for a while."""
    return claim_ask(ask_of(journey).id, ahead, by)


def claimed(by: Actor = bob, ahead: timedelta = HOUR) -> Journey:
    """A claim of whose review somebody has taken charge."""
    journey = asked()
    journey.send(claim(journey, by, ahead))
    return journey


def delegated(to: str = "dan", by: Actor = bob) -> Journey:
    """A claim whose review is left to one person."""
    journey = asked()
    journey.send(delegate_ask(ask_of(journey).id, to, by))
    return journey


def test_a_claim_is_a_step_with_its_line_and_its_effect() -> None:
    """A claim changes no state; history, sequence and the world learn who has it, and until when."""
    journey = asked()
    before = journey.snapshot
    until = journey.clock.now() + HOUR
    taken = journey.send(claim(journey, bob))
    assert (taken.snapshot.states, taken.snapshot.seq) == (("review",), before.seq + 1)
    [row] = taken.history
    assert (row.transition, row.event, row.actor, row.data) == (
        "ask.claim",
        "ask.claim",
        "bob",
        {"lasts": 3_600_000},
    )
    [changed] = taken.effects
    ask = before.asks["review"]
    assert changed == ChangedAsk(
        id=changed.id, ask=ask.id, roles=("manager",), claimed_by="bob", claimed_until=until
    )
    assert taken.snapshot.asks["review"] == replace(ask, claimed_by="bob", claimed_until=until)
    assert (taken.snapshot.timers, taken.snapshot.context) == (before.timers, before.context)


@pytest.mark.parametrize("sender", [dan, eve, dee, SYSTEM], ids=lambda actor: actor.id)
def test_only_those_who_are_asked_may_claim_or_delegate(sender: Actor) -> None:
    """Whoever could not answer cannot take the question, nor give it away."""
    journey = asked()
    assert journey.refused(claim(journey, sender)).code == "actor"
    assert journey.refused(delegate_ask(ask_of(journey).id, "cid", sender)).code == "actor"


def test_a_claim_keeps_others_away_and_says_who_and_until_when() -> None:
    """While it lasts nobody else claims, delegates or releases; the claimer may claim longer."""
    journey = claimed(bob)
    until = journey.clock.now() + HOUR
    for event in (
        claim(journey, cid),
        delegate_ask(ask_of(journey).id, "dan", cid),
        release_ask(ask_of(journey).id, cid),
    ):
        refusal = journey.refused(event)
        assert (refusal.code, refusal.message) == (
            "claimed",
            f"review is claimed by bob until {until.isoformat()}",
        )
    journey.send(claim(journey, bob, DAY))
    assert ask_of(journey).claimed_until == journey.clock.now() + DAY


def doors(ask: str, by: Actor) -> dict[str, Event]:
    """All the ways to answer a question."""
    return {
        "event": Claim.approve(by=by),
        "event with its ask": Claim.approve(by=by, ref=ask),
        "form": Event("answer", {}, by, ref=ask),
        "without leaving": Claim.comment(by=by),
        "of a state around": Claim.drop(by=by),
    }


DOORS = list(doors("", bob))


@pytest.mark.parametrize("door", DOORS)
def test_nobody_but_the_claimer_answers_while_the_claim_lasts(door: str) -> None:
    """Every way to answer is closed to others, open to the claimer, and open to all when it has run out."""
    journey = claimed(bob)
    before = journey.snapshot
    refusal = journey.refused(doors(ask_of(journey).id, cid)[door])
    assert refusal.code == "claimed"
    assert "review is claimed by bob until" in refusal.message
    assert journey.snapshot is before
    journey.send(doors(ask_of(journey).id, bob)[door])

    journey = claimed(bob)
    journey.advance(HOUR - timedelta(milliseconds=1))
    assert journey.refused(doors(ask_of(journey).id, cid)[door]).code == "claimed"
    journey.advance("1ms")
    journey.send(doors(ask_of(journey).id, cid)[door])


@pytest.mark.parametrize("hold", [claimed, delegated], ids=["claimed", "delegated"])
@pytest.mark.parametrize(
    "event",
    [Claim.recall(by=eve), Claim.drop(by=root), Claim.audit(by=person("aud", "auditor"))],
    ids=["a row for others", "a row around, in another role", "a row around for others"],
)
def test_what_is_no_answer_is_not_held_up(hold: Any, event: Event) -> None:
    """Whoever acts in their own right, and not because they are asked, goes on to do so."""
    journey = hold()
    ask = ask_of(journey).id
    done = journey.send(event)
    assert [each.ask for each in done.effects if isinstance(each, ClosedAsk)] == [ask]


def test_a_row_of_the_asking_state_is_an_answer_whoever_else_may_fire_it() -> None:
    """The decision that a claimer works on is not taken by others, be it in another role."""
    journey = claimed(bob)
    assert journey.refused(Claim.settle(by=root)).code == "claimed"
    journey.advance("1h")
    journey.send(Claim.settle(by=root))


def test_what_is_no_answer_is_possible_when_it_is_too_late_to_answer() -> None:
    """A deadline that has passed ends the time to answer, and nothing else."""
    journey = asked()
    journey.clock.advance("5d")
    assert journey.refused(Claim.comment(by=bob)).code == "late"
    journey.send(Claim.recall(by=eve))


def test_rows_of_a_document_that_name_nobody_are_held_too() -> None:
    """A chart from outside may let anyone answer; while one person holds the question, nobody else does."""
    document = to_document(Claim)
    for row in document["transitions"]:
        if row["name"] in {"comment", "answered"}:
            del row["by"]
    chart = from_document(document)
    journey = Journey(chart)
    journey.send(Claim.submit(by=eve))
    journey.send(Claim.comment(by=dan))
    ask = ask_of(journey).id
    assert journey.refused(Event("answer", {}, dan, ref=ask)).code == "actor"
    journey.send(claim(journey, bob))
    assert journey.refused(Claim.comment(by=dan)).code == "claimed"
    journey.send(delegate_ask(ask, "eve", bob))
    assert journey.refused(Claim.comment(by=dan)).code == "actor"
    journey.send(Claim.comment(by=eve))
    journey.send(Event("answer", {}, eve, ref=ask))
    assert journey.states == ("paid",)


def test_a_claim_does_not_stop_the_clock() -> None:
    """The deadline comes whether somebody has claimed the question or not."""
    journey = asked()
    journey.advance("4d 23h")
    journey.send(claim(journey, bob, DAY))
    journey.advance("1h")
    assert journey.states == ("rejected",)


def test_what_is_overdue_is_not_claimed_any_more() -> None:
    """After the deadline a question can be neither claimed nor delegated, even before its timer comes."""
    journey = asked()
    journey.clock.advance("5d")
    assert journey.refused(claim(journey, bob)).code == "late"
    assert journey.refused(delegate_ask(ask_of(journey).id, "dan", bob)).code == "late"


BAD_CLAIMS = [
    None,
    "2026-01-01",
    {},
    {"until": "2026-03-02T10:00:00+00:00"},
    {"lasts": None},
    {"lasts": [1_000]},
    {"lasts": -1},
    {"lasts": 0},
    {"lasts": True},
    {"lasts": 1.5},
    {"lasts": "15m"},
    {"lasts": 10**30},
    {"lasts": 24 * 3_600_000 + 1},
]


@pytest.mark.parametrize("data", BAD_CLAIMS)
def test_a_claim_says_for_how_long(data: object) -> None:
    """What is not a number of milliseconds up to a day is refused, whatever it is."""
    journey = asked()
    assert journey.refused(Event("ask.claim", data, bob, ref=ask_of(journey).id)).code == "payload"


@pytest.mark.parametrize(
    ("ahead", "code"),
    [
        (timedelta(0), "payload"),
        (timedelta(seconds=-1), "payload"),
        (timedelta(milliseconds=1), None),
        (DAY, None),
        (DAY + timedelta(milliseconds=1), "payload"),
    ],
)
def test_a_claim_lasts_at_most_a_day(ahead: timedelta, code: str | None) -> None:
    """A claim ends in the future, and within 24 hours."""
    journey = asked()
    answer = journey.attempt(claim(journey, bob, ahead))
    assert getattr(answer, "code", None) == code


def test_a_claim_lasts_from_when_it_is_decided() -> None:
    """So many milliseconds from when it is decided, so that the same request twice is the same event."""
    journey = asked()
    journey.send(Event("ask.claim", {"lasts": 90_000}, bob, ref=ask_of(journey).id))
    assert ask_of(journey).claimed_until == journey.clock.now() + timedelta(seconds=90)


@pytest.mark.parametrize(
    ("hold", "sender"),
    [(claimed, bob), (claimed, SYSTEM), (delegated, dan), (delegated, SYSTEM)],
    ids=["claimer", "claim by the system", "delegate", "delegation by the system"],
)
def test_a_release_gives_the_question_back_to_all(hold: Any, sender: Actor) -> None:
    """After it everyone who is asked may answer again, and it has its line and effect."""
    journey = hold()
    released = journey.send(release_ask(ask_of(journey).id, sender))
    [row] = released.history
    assert (row.transition, row.actor) == ("ask.release", sender.id)
    [changed] = released.effects
    assert isinstance(changed, ChangedAsk)
    assert (changed.claimed_by, changed.claimed_until, changed.delegated_to) == (None, None, None)
    journey.send(Claim.approve(by=cid))


@pytest.mark.parametrize(
    ("hold", "sender", "code"),
    [
        (claimed, cid, "claimed"),
        (claimed, eve, "claimed"),
        (delegated, bob, "actor"),
        (delegated, eve, "actor"),
        (asked, bob, "illegal"),
        (asked, SYSTEM, "illegal"),
    ],
    ids=["colleague", "stranger", "who delegated", "stranger to a delegation", "nobody", "nobody, system"],
)
def test_nobody_releases_what_another_holds(hold: Any, sender: Actor, code: str) -> None:
    """A release is for whoever holds the question, and for the system."""
    journey = hold()
    assert journey.refused(release_ask(ask_of(journey).id, sender)).code == code


def test_a_claim_that_has_run_out_is_nobodys() -> None:
    """Its claimer may still release it; others have nothing to release, but may claim it themselves."""
    journey = claimed(bob)
    journey.advance("1h")
    assert journey.refused(release_ask(ask_of(journey).id, cid)).code == "illegal"
    journey.send(claim(journey, cid))
    assert ask_of(journey).claimed_by == "cid"
    journey = claimed(bob)
    journey.advance("1h")
    journey.send(release_ask(ask_of(journey).id, bob))
    assert ask_of(journey).claimed_by is None


def test_a_delegation_drops_the_claim_and_leaves_it_to_one_alone() -> None:
    """The claimer hands over; from then on the delegate alone may claim, delegate and answer."""
    journey = claimed(bob)
    given = journey.send(delegate_ask(ask_of(journey).id, "dan", bob))
    [row] = given.history
    assert (row.transition, row.actor, row.data) == ("ask.delegate", "bob", {"to": "dan"})
    [changed] = given.effects
    assert isinstance(changed, ChangedAsk)
    assert (changed.roles, changed.claimed_by, changed.delegated_to) == (("manager",), None, "dan")
    for sender in (bob, cid, dee):
        assert journey.refused(claim(journey, sender)).code == "actor"
        refusal = journey.refused(Claim.approve(by=sender))
        assert refusal.code == "actor"
    assert "review is delegated to dan" in journey.refused(Claim.approve(by=bob)).message
    journey.send(claim(journey, dan))
    journey.send(delegate_ask(ask_of(journey).id, "cid", dan))
    assert journey.refused(Claim.approve(by=dan)).code == "actor"
    journey.send(Claim.approve(by=cid))


@pytest.mark.parametrize("door", DOORS)
def test_a_delegate_answers_as_if_asked(door: str) -> None:
    """Whoever got the question has every way to answer it, without having the role; others have none."""
    journey = delegated("dan")
    assert journey.refused(doors(ask_of(journey).id, bob)[door]).code == "actor"
    assert journey.refused(doors(ask_of(journey).id, eve)[door]).code == "actor"
    answered = journey.send(doors(ask_of(journey).id, dan)[door])
    assert answered.history[0].actor == "dan"


def test_a_delegate_gets_nothing_else() -> None:
    """What does not answer the question stays closed, before and after it, and so do other questions."""

    class Two(Statechart):
        legal, legal_ok = State(ask=Ask("manager", deadline="5d", delegate="anyone")), Final()
        money, money_ok = State(ask=Ask("manager", deadline="5d")), Final()
        left, right = State(legal, legal_ok), State(money, money_ok)
        both = Parallel(left, right, initial=True)
        signing = State()
        done = Final()

        pass_legal = legal.to(legal_ok, by="manager")
        pass_money = money.to(money_ok, by="manager")
        agreed = both.on_done.to(signing)
        file = both.stay(by="clerk")
        sign = signing.to(done, by="manager")

    journey = Journey(Two)
    journey.send(delegate_ask(journey.snapshot.asks["legal"].id, "dan", bob))
    assert journey.refused(Two.pass_money(by=dan)).code == "actor"
    assert journey.refused(Two.file(by=dan)).code == "actor"
    assert (
        journey.refused(Event("pass_money", None, dan, ref=journey.snapshot.asks["money"].id)).code == "actor"
    )
    journey.send(Two.pass_legal(by=dan))
    assert journey.refused(Two.pass_money(by=dan)).code == "actor"
    journey.send(Two.pass_money(by=bob))
    assert journey.refused(Two.sign(by=dan)).code == "actor"


def test_a_delegate_may_not_recall_or_audit() -> None:
    """Rows out of the asking state that are for others are no part of a delegation."""
    journey = delegated("dan")
    assert journey.refused(Claim.recall(by=dan)).code == "actor"
    assert journey.refused(Claim.audit(by=dan)).code == "actor"


@pytest.mark.parametrize("to", [None, "", "  ", 7, ["dan"], "bob", "x" * 201])
def test_a_delegation_names_another_person(to: object) -> None:
    """Nobody, oneself and what is no id are refused."""
    journey = asked()
    assert journey.refused(Event("ask.delegate", {"to": to}, bob, ref=ask_of(journey).id)).code == "payload"
    assert journey.refused(Event("ask.delegate", to, bob, ref=ask_of(journey).id)).code == "payload"


@pytest.mark.mission("ENG-1")
def test_duties_hold_for_a_delegate_by_their_own_id() -> None:
    """Four eyes and persons only are not passed by with a delegation."""
    journey = asked(by=ann)
    journey.send(delegate_ask(ask_of(journey).id, "ann", bob))
    assert journey.refused(Claim.approve(by=ann)).code == "duty"
    journey = delegated("helper")
    assert journey.refused(Claim.approve(by=agent("helper"))).code == "duty"
    journey.send(Claim.approve(by=person("helper")))


class Board(Statechart):
    """A question that takes two, and one of two kinds."""

    sitting = State(initial=True, ask=Ask("manager", deadline="5d", delegate="anyone"))
    agreed, signed, over = Final(), Final(), Final()

    agree = sitting.to(agreed, by="manager", quorum=2)
    sign = sitting.to(signed, by="manager", countersign="lawyer")
    expire = sitting.on_deadline.to(over)


@pytest.mark.mission("ENG-1")
def test_a_vote_releases_what_the_voter_held() -> None:
    """A claim or delegation keeps others from voting; with the vote it is everybody's again."""
    journey = Journey(Board)
    ask = journey.snapshot.asks["sitting"].id
    journey.send(claim_ask(ask, HOUR, bob))
    assert journey.refused(Board.agree(by=cid)).code == "claimed"
    voted = journey.send(Board.agree(by=bob))
    [changed] = voted.effects
    assert isinstance(changed, ChangedAsk)
    assert (changed.claimed_by, journey.snapshot.asks["sitting"].claimed_by) == (None, None)
    journey.send(delegate_ask(ask, "dan", cid))
    journey.send(Board.agree(by=dan))
    assert journey.states == ("agreed",)


@pytest.mark.mission("ENG-1")
def test_a_delegate_has_one_vote_like_everybody() -> None:
    """Whoever has voted does not vote again as a delegate, and gives the delegation back by voting."""
    journey = Journey(Board)
    ask = journey.snapshot.asks["sitting"].id
    journey.send(Board.agree(by=bob))
    journey.send(delegate_ask(ask, "bob", cid))
    assert journey.refused(Board.agree(by=bob)).code == "duty"
    journey.send(release_ask(ask, bob))
    journey.send(delegate_ask(ask, "dan", bob))
    journey.send(Board.sign(by=dan))
    assert journey.snapshot.asks["sitting"].delegated_to is None
    assert journey.states == ("sitting",)
    journey.send(Board.agree(by=cid))
    assert journey.states == ("agreed",)


@pytest.mark.mission("ENG-1")
def test_a_countersigner_to_whom_it_is_delegated_may_vote_for_either() -> None:
    """As a delegate a lawyer fills the place of a manager when another lawyer countersigns."""
    journey = Journey(Board)
    lea, leo = person("lea", "lawyer"), person("leo", "lawyer")
    journey.send(Board.sign(by=leo))
    assert journey.refused(Board.sign(by=lea)).code == "duty"
    journey.send(delegate_ask(journey.snapshot.asks["sitting"].id, "lea", bob))
    journey.send(Board.sign(by=lea))
    assert journey.states == ("signed",)


@pytest.mark.parametrize("hold", [claimed, delegated], ids=["claimed", "delegated"])
def test_an_escalation_makes_it_everybodys_again(hold: Any) -> None:
    """With more roles asked, nobody holds it any longer: claim and delegation are gone."""
    journey = asked()
    journey.advance("2d 23h")
    ask = ask_of(journey).id
    given = claim(journey, bob, DAY) if hold is claimed else delegate_ask(ask, "dan", bob)
    journey.send(given)
    journey.advance("1h")
    escalated = journey.steps[-1]
    assert [type(each) for each in escalated.effects] == [EscalateAsk, ChangedAsk]
    changed = escalated.effects[1]
    assert isinstance(changed, ChangedAsk)
    assert (changed.roles, changed.claimed_by, changed.delegated_to) == (("manager", "director"), None, None)
    assert ask_of(journey) == replace(ask_of(journey), roles=("manager", "director"), claimed_by=None)
    assert journey.refused(Claim.approve(by=dan)).code == "actor"
    journey.send(Claim.approve(by=dee))


def test_a_reminder_names_the_delegate() -> None:
    """Whoever reminds knows that one person alone is meant."""
    journey = delegated("dan")
    journey.advance("2d")
    [reminder] = [each for each in journey.effects if isinstance(each, RemindAsk)]
    assert (reminder.roles, reminder.delegated_to) == (("manager",), "dan")


NAMES = ["ask.claim", "ask.release", "ask.delegate"]


@pytest.mark.parametrize("name", NAMES)
def test_what_belongs_to_no_open_question_is_refused(name: str) -> None:
    """Without a question, with one that is over or unknown, with work's: nothing is held."""
    journey = asked()
    old = ask_of(journey).id
    assert journey.refused(Event(name, by=bob)).code == "reserved"
    assert journey.refused(Event(name, by=bob, ref="it:9:9")).code == "late"
    journey.send(Claim.recall(by=eve))
    assert journey.refused(Event(name, by=bob, ref=old)).code == "late"
    journey.send(Claim.submit(by=eve))
    assert journey.refused(Event(name, by=bob, ref=old)).code == "late"
    journey.send(Claim.approve(by=bob))
    assert journey.refused(Event(name, by=bob, ref=old)).code == "late"


def test_a_question_that_comes_again_is_held_by_nobody() -> None:
    """Leaving the state ends claim and delegation with the question."""
    journey = claimed(bob)
    journey.send(Claim.recall(by=eve))
    journey.send(Claim.submit(by=eve))
    assert (ask_of(journey).claimed_by, ask_of(journey).delegated_to) == (None, None)
    journey.send(Claim.approve(by=cid))


def test_an_answer_that_stays_keeps_the_claim() -> None:
    """Whoever comments on a question that they hold goes on to hold it."""
    journey = claimed(bob)
    journey.send(Claim.comment(by=bob))
    assert ask_of(journey).claimed_by == "bob"
    assert journey.refused(Claim.comment(by=cid)).code == "claimed"


def test_in_one_region_a_claim_does_not_hold_up_the_other() -> None:
    """An event for both regions moves the one whose question is free."""

    class Both(Statechart):
        one, one_ok = State(ask=Ask("manager", deadline="5d")), State()
        two, two_ok = State(ask=Ask("manager", deadline="5d")), State()
        left, right = State(one, one_ok), State(two, two_ok)
        whole = Parallel(left, right, initial=True)

        go = one.to(one_ok, by="manager") | two.to(two_ok, by="manager")

    journey = Journey(Both)
    journey.send(claim_ask(journey.snapshot.asks["one"].id, HOUR, bob))
    journey.send(Both.go(by=cid))
    assert journey.snapshot.state == "one+two_ok"


def test_work_beside_a_question_goes_on() -> None:
    """A claim concerns people: what timers and workers bring is taken as ever."""

    class Beside(Statechart):
        both = State(initial=True, run="look", ask=Ask("manager", deadline="5d"))
        found, over = Final(), Final()

        seen = both.on_done.to(found)
        said = both.on_answer.to(over)
        expire = both.on_deadline.to(over)

    journey = Journey(Beside)
    journey.send(claim_ask(journey.snapshot.asks["both"].id, HOUR, bob))
    journey.send(work_done(journey.snapshot.work["both"].id, 1))
    assert journey.states == ("found",)


def test_explain_tells_who_holds_the_question() -> None:
    """Why an instance waits: who has claimed it until when, or to whom it is delegated, and who can act."""
    journey = claimed(bob)
    why = explain(Claim, journey.snapshot, journey.clock.now())
    until = journey.clock.now() + HOUR
    [wait] = why.waits
    assert wait.what == f"an answer from manager (claimed by bob until {until.isoformat()})"
    assert (wait.claimed_by, wait.claimed_until, wait.delegated_to) == ("bob", until, None)
    assert "bob (not eve) can approve." in str(why)
    assert "manager or admin can drop." in str(why)

    later = explain(Claim, journey.snapshot, journey.clock.now() + HOUR)
    assert (later.waits[0].what, later.waits[0].claimed_by) == ("an answer from manager", None)
    assert "manager (not eve) can approve." in str(later)

    journey = delegated("dan")
    why = explain(Claim, journey.snapshot, journey.clock.now())
    assert why.waits[0].what == "an answer from dan, to whom it is delegated"
    assert why.waits[0].delegated_to == "dan"
    assert "dan, in place of bob, can approve." in str(why)


@pytest.mark.mission("ENG-8", "ENG-17")
def test_snapshots_keep_who_holds_and_older_ones_still_load() -> None:
    """What is stored comes back; what was stored before there were claims has none."""
    journey = claimed(bob)
    assert decode(Snapshot, encode(journey.snapshot)) == journey.snapshot
    head = b'{"chart":"Claim","version":1,"instance":"it","states":["review"],"seq":2,'
    older = head + b'"asks":{"review":{"id":"it:2:0","roles":["manager"]}}}'
    loaded = decode(Snapshot, older)
    assert loaded.asks["review"] == OpenAsk(id="it:2:0", roles=("manager",))
    assert step(Claim, loaded, claim_ask("it:2:0", HOUR, bob), journey.clock.now())


def test_a_snapshot_whose_claim_has_no_zone_is_refused_as_such() -> None:
    """A time that no step wrote is named as what is wrong."""
    journey = claimed(bob)
    ask = replace(ask_of(journey), claimed_until=datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake itself
    broken = replace(journey.snapshot, asks={"review": ask})
    with pytest.raises(InputError, match="an ask in review"):
        step(Claim, broken, Claim.approve(by=cid), journey.clock.now())


def test_agents_that_are_asked_may_claim_too() -> None:
    """A claim follows the roles; what an agent may then do is up to the duties of the rows."""
    journey = claimed(bot)
    assert journey.refused(Claim.approve(by=bot)).code == "duty"
    journey.send(Claim.comment(by=bot))
