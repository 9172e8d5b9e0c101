"""With `delegate="anyone"` somebody without the role answers in the place of who delegated the question."""

from datetime import timedelta

import pytest

from headway import Actor, Ask, Event, Final, State, Statechart, View, agent, explain, person
from headway.codec import decode, encode
from headway.errors import DefinitionError
from headway.statechart.export import from_document, to_document
from headway.statechart.snapshot import OpenAsk, Snapshot, claim_ask, delegate_ask, release_ask
from headway.testing import Journey

pytestmark = pytest.mark.mission("ENG-1", "ENG-8")

ann = person("ann", "manager", "employee")
bob, cid = person("bob", "manager"), person("cid", "manager")
dan, ed, eve = person("dan"), person("ed"), person("eve", "employee")
fay = person("fay", "finance")
bot = agent("bot", "manager")


class Review(Statechart):
    """The submitter may reject and not approve; agents may not approve; somebody else pays."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", "finance", deadline="5d", delegate="anyone"))
    approved, paid, rejected = State(), Final(), Final()

    submit = draft.to(review, by="employee")
    approve = review.to(approved, by="manager", distinct_from="submit", no_agent=True)
    reject = review.to(rejected, by="manager")
    check = review.stay(by="finance")
    pay = approved.to(paid, by=("manager", "helper"), distinct_from="approve")
    expire = review.on_deadline.to(rejected)


class Board(Statechart):
    """Two managers and a lawyer must agree."""

    review = State(
        initial=True, ask=Ask("manager", deadline="5d", escalate={"director": "3d"}, delegate="anyone")
    )
    agreed, over = State(), Final()

    agree = review.to(agreed, by="manager", quorum=2, countersign="lawyer")
    file = agreed.to(over, by=("manager", "helper"), distinct_from="agree")
    expire = review.on_deadline.to(over)


def asked(by: Actor = eve) -> Journey:
    """A claim that waits for its review."""
    journey = Journey(Review)
    journey.send(Review.submit(by=by))
    return journey


def ask_of(journey: Journey) -> OpenAsk:
    """The question as it stands."""
    return journey.snapshot.asks["review"]


def delegate(journey: Journey, to: str, by: Actor) -> Event:
    """Delegate the question."""
    return delegate_ask(ask_of(journey).id, to, by)


def test_a_stand_in_answers_and_both_have_acted() -> None:
    """The delegate needs no role; four eyes then bar the delegate and who delegated."""
    journey = asked()
    journey.send(delegate(journey, "dan", bob))
    journey.send(Review.approve(by=dan))
    assert journey.snapshot.acted["approve"] == ("bob", "dan")
    for actor in (bob, person("dan", "helper")):
        assert journey.refused(Review.pay(by=actor)).code == "duty"
    journey.send(Review.pay(by=cid))


def test_a_stand_in_has_the_rights_of_who_delegated_and_no_more() -> None:
    """What finance may not do, a delegate of finance may not do either."""
    journey = asked()
    journey.send(delegate(journey, "dan", fay))
    assert journey.refused(Review.approve(by=dan)).code == "actor"
    journey.send(Review.check(by=dan))


def test_a_role_that_is_not_asked_is_not_lent() -> None:
    """Somebody who has another role of a row besides the one that is asked passes on the asked one alone."""
    journey = Journey(Board)
    journey.send(delegate(journey, "dan", person("bo", "manager", "lawyer")))
    journey.send(Board.agree(by=dan))
    assert journey.snapshot.votes["review/agree"]["dan"] == "by"
    assert ask_of(journey).delegated_by == ()


@pytest.mark.parametrize("door", ["event", "named"])
def test_four_eyes_look_at_who_delegated(door: str) -> None:
    """The submitter cannot approve through somebody else, though the submitter may reject."""
    journey = asked(by=ann)
    journey.send(delegate(journey, "dan", ann))
    ref = ask_of(journey).id if door == "named" else None
    refusal = journey.refused(Review.approve(by=dan, ref=ref))
    assert refusal.code == "duty"
    assert "ann, who delegated it, sent submit" in refusal.message
    journey.send(Review.reject(by=dan))


def test_four_eyes_look_at_the_delegate() -> None:
    """The submitter does not approve as the delegate of a manager."""
    eve = person("eve", "employee")
    journey = asked(by=eve)
    journey.send(delegate(journey, "eve", bob))
    assert journey.refused(Review.approve(by=eve)).code == "duty"
    journey.send(Review.reject(by=eve))


@pytest.mark.parametrize(
    ("by", "to"), [(bot, dan), (bob, agent("helper"))], ids=["from an agent", "to an agent"]
)
def test_what_is_for_people_is_for_people_on_both_ends(by: Actor, to: Actor) -> None:
    """An agent lends a person no right that it has not, and a person lends none to an agent."""
    journey = asked()
    journey.send(delegate(journey, to.id, by))
    assert journey.refused(Review.approve(by=to)).code == "duty"
    journey.send(Review.reject(by=to))


def test_a_chain_of_delegations_binds_everyone_in_it() -> None:
    """Whoever passes a delegation on without having the role passes on the first one's right."""
    journey = asked(by=ann)
    journey.send(delegate(journey, "dan", ann))
    journey.send(delegate(journey, "ed", dan))
    assert [each.id for each in ask_of(journey).delegated_by] == ["ann", "dan"]
    assert journey.refused(Review.approve(by=dan)).code == "actor"
    assert journey.refused(Review.approve(by=ed)).code == "duty"
    journey.send(Review.reject(by=ed))


def test_a_delegation_that_comes_back_is_no_ones_but_the_askeds() -> None:
    """From ann to dan and back again: ann answers in her own right, and is bound by her own duties."""
    journey = asked(by=ann)
    journey.send(delegate(journey, "dan", ann))
    journey.send(delegate(journey, "ann", dan))
    assert ask_of(journey).delegated_by == ()
    assert journey.refused(Review.approve(by=ann)).code == "duty"
    journey.send(delegate(journey, "dan", ann))
    journey.send(delegate(journey, "ed", dan))
    journey.send(delegate(journey, "dan", ed))
    assert [each.id for each in ask_of(journey).delegated_by] == ["ann"]


def test_who_has_the_role_delegates_in_their_own_right() -> None:
    """A manager who got the question from another passes on their own right, and not the other's."""
    journey = asked(by=ann)
    journey.send(delegate(journey, "bob", ann))
    journey.send(delegate(journey, "dan", bob))
    assert [each.id for each in ask_of(journey).delegated_by] == ["bob"]
    journey.send(Review.approve(by=dan))


def test_a_question_is_not_passed_on_for_ever() -> None:
    """A chain of delegations has an end: whoever has it then may answer it or give it back."""
    journey = asked()
    journey.send(delegate(journey, "p0", bob))
    for number in range(1, 20):
        journey.send(delegate(journey, f"p{number}", person(f"p{number - 1}")))
    last = person("p19")
    assert journey.refused(delegate(journey, "p20", last)).code == "illegal"
    journey.send(release_ask(ask_of(journey).id, last))
    assert ask_of(journey).delegated_by == ()


def test_a_vote_by_a_stand_in_is_the_vote_of_both() -> None:
    """Neither who delegated nor the delegate votes again, whatever they hold meanwhile."""
    journey = Journey(Board)
    journey.send(delegate(journey, "dan", bob))
    voted = journey.send(Board.agree(by=dan))
    assert voted.history[0].reason == "1 voted; still needed: 1 more of manager, lawyer"
    assert journey.refused(Board.agree(by=bob)).code == "duty"
    assert journey.refused(delegate(journey, "ed", bob)).code == "duty"
    assert journey.refused(delegate(journey, "dan", cid)).code == "duty"
    journey.send(Board.agree(by=cid))
    assert journey.states == ("review",)
    journey.send(Board.agree(by=person("lea", "lawyer")))
    assert set(journey.snapshot.acted["agree"]) == {"dan", "bob", "cid", "lea"}
    for actor in (bob, person("dan", "helper")):
        assert journey.refused(Board.file(by=actor)).code == "duty"


def test_who_has_voted_delegates_no_second_vote() -> None:
    """A delegation made before the vote of who delegated, and one after it, give nothing."""
    journey = Journey(Board)
    journey.send(Board.agree(by=bob))
    for event in (
        delegate(journey, "dan", bob),
        claim_ask(ask_of(journey).id, timedelta(hours=1), bob),
    ):
        assert journey.refused(event).code == "duty"
    journey.send(delegate(journey, "dan", cid))
    assert journey.refused(delegate(journey, "bob", dan)).code == "duty"


def test_an_escalated_countersigner_may_fill_either_place() -> None:
    """A director who is a lawyer too takes the place of a manager when a lawyer has signed."""
    journey = Journey(Board)
    journey.advance("3d")
    journey.send(Board.agree(by=person("lea", "lawyer")))
    journey.send(Board.agree(by=person("di", "director", "lawyer")))
    journey.send(Board.agree(by=bob))
    assert journey.states == ("agreed",)


def test_an_escalation_ends_what_was_lent() -> None:
    """After it the former delegate has no right, and nobody is stood in for."""
    journey = Journey(Board)
    journey.send(delegate(journey, "dan", bob))
    journey.advance("3d")
    assert ask_of(journey).delegated_by == ()
    assert journey.refused(Board.agree(by=dan)).code == "actor"


def test_a_delegation_stored_before_lends_nothing() -> None:
    """A snapshot that does not say who delegated leaves the question to a delegate with the role."""
    journey = asked()
    journey.send(delegate(journey, "dan", bob))
    data = decode(dict, encode(journey.snapshot))
    del data["asks"]["review"]["delegated_by"]
    journey.snapshot = decode(Snapshot, encode(data))
    assert journey.refused(Review.approve(by=dan)).code == "actor"
    journey.send(release_ask(ask_of(journey).id, dan))


@pytest.mark.parametrize("to", ["dan ", "d\u200ban", "\uff44an"], ids=ascii)
def test_a_delegate_is_known_by_every_form_of_the_id(to: str) -> None:
    """The holder of a question is compared in the same form as in duties."""
    journey = asked()
    journey.send(delegate(journey, "dan", bob))
    journey.send(Review.reject(by=Actor(to)))


def test_explain_says_in_whose_place_a_delegate_acts() -> None:
    """Rows that a delegate may fire without the role say for whom, the others which role it takes."""
    journey = asked(by=ann)
    journey.send(delegate(journey, "dan", ann))
    why = explain(Review, journey.snapshot, journey.clock.now())
    ways = {way.transition: way for way in why.ways}
    assert (ways["reject"].only_for, ways["reject"].in_place_of) == ("dan", ("ann",))
    assert "dan, in place of ann, can reject." in str(why)
    assert ways["approve"].in_place_of == ()
    assert "dan (not ann), as manager, can approve." in str(why)


def test_the_option_is_part_of_the_document() -> None:
    """A chart that is read from its document keeps who may be delegated to; another word is a mistake."""
    document = to_document(Review)
    [state] = [each for each in document["states"] if each["id"] == "review"]
    assert state["ask"]["delegate"] == "anyone"
    journey = Journey(from_document(document))
    journey.send(Review.submit(by=ann))
    journey.send(delegate(journey, "dan", bob))
    journey.send(Review.approve(by=dan))
    with pytest.raises(DefinitionError, match='delegate= must be "asked" or "anyone"'):

        class Wrong(Statechart):
            review = State(initial=True, ask=Ask("manager", delegate="nobody"))
            done = Final()
            go = review.to(done)


def its_owner(view: View) -> bool:
    """The sender owns it, or is nobody who could own one."""
    return view.actor.id == view.context["owner"] or "user" not in view.actor.roles


def test_guards_look_at_who_delegated_too() -> None:
    """Somebody whom a guard would refuse does not get past it through a delegate whom it would let in."""

    class Owned(Statechart):
        review = State(initial=True, ask=Ask("user", deadline="5d", delegate="anyone"))
        done = Final()
        confirm = review.to(done, when=its_owner)
        expire = review.on_deadline.to(done)

    owner, other = person("ann", "user"), person("mal", "user")
    for by, goes in ((other, False), (owner, True)):
        journey = Journey(Owned, context={"owner": "ann"})
        journey.send(delegate(journey, "dan", by))
        answer = journey.attempt(Owned.confirm(by=dan))
        assert getattr(answer, "code", None) == (None if goes else "guard")
