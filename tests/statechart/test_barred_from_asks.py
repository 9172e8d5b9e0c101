"""Whoever cannot answer a question cannot claim it, nor delegate it, nor get it answered by a delegate."""

from datetime import timedelta

import pytest

from headway import Actor, Ask, Event, Final, State, Statechart, agent, person
from headway.codec import replace
from headway.statechart.snapshot import SYSTEM, OpenAsk, claim_ask, delegate_ask, release_ask
from headway.testing import Journey

pytestmark = pytest.mark.mission("ENG-1", "ENG-8")

ann = person("ann", "manager", "employee")
bob, cid = person("bob", "manager"), person("cid", "manager")
dan = person("dan")
dee = person("dee", "director")
fay = person("fay", "finance")
bot = agent("bot", "manager")
HOUR, DAY = timedelta(hours=1), timedelta(hours=24)


class Review(Statechart):
    """Four eyes and people only on every answer."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="5d", escalate={"director": "3d"}))
    paid, rejected = Final(), Final()

    submit = draft.to(review, by="employee")
    approve = review.to(paid, by="manager", distinct_from="submit", no_agent=True)
    reject = review.to(rejected, by="manager", distinct_from="submit", no_agent=True)
    expire = review.on_deadline.to(rejected)


class Board(Statechart):
    """Three managers must agree."""

    review = State(initial=True, ask=Ask("manager", deadline="5d", escalate={"director": "3d"}))
    agreed, over = Final(), Final()

    agree = review.to(agreed, by="manager", quorum=3)
    expire = review.on_deadline.to(over)


def asked() -> Journey:
    """A claim that ann, who is a manager too, has submitted."""
    journey = Journey(Review)
    journey.send(Review.submit(by=ann))
    return journey


def ask_of(journey: Journey) -> OpenAsk:
    """The question as it stands."""
    return journey.snapshot.asks["review"]


def claim(journey: Journey, by: Actor) -> Event:
    """Claim the question for an hour."""
    return claim_ask(ask_of(journey).id, HOUR, by)


def delegate(journey: Journey, to: str, by: Actor) -> Event:
    """Delegate the question."""
    return delegate_ask(ask_of(journey).id, to, by)


@pytest.mark.parametrize("barred", [ann, bot], ids=["the submitter", "an agent"])
def test_who_is_barred_from_every_answer_neither_claims_nor_delegates(barred: Actor) -> None:
    """Four eyes and people only bind a claim and a delegation like an answer, and say why."""
    journey = asked()
    for event in (claim(journey, barred), delegate(journey, "cid", barred)):
        refusal = journey.refused(event)
        assert refusal.code == "duty"
        assert refusal.message.startswith(f"{barred.id} cannot answer review: ")
    assert ask_of(journey).claimed_by is None
    journey.send(Review.approve(by=bob))


def test_a_delegate_needs_the_role() -> None:
    """What is delegated to somebody without the role is answered by nobody, and can be released."""
    journey = asked()
    journey.send(delegate(journey, "dan", bob))
    ask = ask_of(journey).id
    for event in (
        Review.approve(by=dan),
        Review.reject(by=dan, ref=ask),
        claim(journey, dan),
        delegate(journey, "ed", dan),
    ):
        assert journey.refused(event).code == "actor"
    assert "does not have the role" in journey.refused(claim(journey, dan)).message
    journey.send(release_ask(ask, dan))
    journey.send(Review.approve(by=cid))


def test_a_form_is_not_answered_by_a_delegate_without_the_role() -> None:
    """The event `answer` asks for the role as every other answer does."""

    class Form(Statechart):
        review = State(initial=True, ask=Ask("manager", deadline="5d"))
        done = Final()
        said = review.on_answer.to(done)
        expire = review.on_deadline.to(done)

    journey = Journey(Form)
    journey.send(delegate(journey, "dan", bob))
    answer = Event("answer", {}, dan, ref=ask_of(journey).id)
    assert journey.refused(answer).code == "actor"
    journey.send(replace(answer, by=person("dan", "manager")))


def test_a_delegation_gives_no_other_role_of_the_same_question() -> None:
    """A delegate who is asked in one role does not get the answers that are for another one."""

    class Two(Statechart):
        review = State(initial=True, ask=Ask("manager", "finance", deadline="5d"))
        paid, rejected = Final(), Final()
        approve = review.to(paid, by="manager")
        reject = review.to(rejected, by="finance")
        expire = review.on_deadline.to(rejected)

    journey = Journey(Two)
    journey.send(delegate(journey, "fay", bob))
    assert journey.refused(Two.approve(by=fay)).code == "actor"
    journey.send(Two.reject(by=fay))


def test_a_delegate_with_the_role_answers() -> None:
    """A delegation names the one of the asked who is to answer."""
    journey = asked()
    journey.send(delegate(journey, "cid", bob))
    assert journey.refused(Review.approve(by=bob)).code == "actor"
    journey.send(Review.approve(by=cid))
    assert journey.states == ("paid",)


@pytest.mark.parametrize("to", ["ann", "ann ", "ann\u200b", "\uff41nn", "ann\n"], ids=ascii)
def test_nothing_is_delegated_to_who_is_barred_from_it(to: str) -> None:
    """Not to the submitter, nor under an id that looks like the submitter's."""
    journey = asked()
    assert journey.refused(delegate(journey, to, bob)).code == ("duty" if to == "ann" else "payload")


@pytest.mark.parametrize("id_", ["ann ", " ann", "ann\u200b", "\uff41nn", "ann\n", "a\u00adnn"], ids=ascii)
def test_an_id_that_looks_like_the_submitters_is_the_submitters(id_: str) -> None:
    """Four eyes compare ids in one form, so that ids stored before are covered too."""
    journey = asked()
    twin = Actor(id_, "person", frozenset({"manager"}))
    assert journey.refused(Review.approve(by=twin)).code == "duty"
    assert journey.refused(claim(journey, twin)).code == "duty"


def test_one_person_has_one_vote_under_all_forms_of_an_id() -> None:
    """A quorum is not filled by one person whose id comes in three forms."""
    journey = Journey(Board)
    journey.send(Board.agree(by=bob))
    for twin in ("bob ", "b\u200bob"):
        refusal = journey.refused(Board.agree(by=Actor(twin, "person", frozenset({"manager"}))))
        assert refusal.code == "duty"


def test_one_person_does_not_fill_a_quorum_by_delegating() -> None:
    """Whoever has voted has nothing left to delegate, and votes of people without the role do not count."""
    journey = Journey(Board)
    journey.send(delegate(journey, "dan", bob))
    assert journey.refused(Board.agree(by=dan)).code == "actor"
    journey.send(release_ask(ask_of(journey).id, dan))
    journey.send(Board.agree(by=bob))
    for event in (claim(journey, bob), delegate(journey, "dan", bob), Board.agree(by=bob)):
        refusal = journey.refused(event)
        assert (refusal.code, "voted" in refusal.message) == ("duty", True)


def test_nothing_is_delegated_to_who_has_voted() -> None:
    """A voter who can give no other answer gets no second vote from a colleague."""
    journey = Journey(Board)
    journey.send(Board.agree(by=bob))
    assert journey.refused(delegate(journey, "bob", cid)).code == "duty"


def test_three_people_of_whom_one_delegates_are_three_votes() -> None:
    """A delegate with the role votes in their own right, and so does who delegated."""
    journey = Journey(Board)
    journey.send(delegate(journey, "bob", cid))
    journey.send(Board.agree(by=bob))
    journey.send(Board.agree(by=cid))
    assert journey.states == ("review",)
    journey.send(Board.agree(by=ann))
    assert journey.states == ("agreed",)


def test_a_claim_that_runs_out_can_be_claimed_again_only_by_who_could_answer() -> None:
    """The end of a claim gives no rights: who has voted meanwhile cannot claim again."""
    journey = Journey(Board)
    journey.send(claim(journey, bob))
    journey.advance("1h")
    journey.send(claim(journey, bob))
    journey.send(Board.agree(by=bob))
    assert ask_of(journey).claimed_by is None
    assert journey.refused(claim(journey, bob)).code == "duty"


def test_an_escalation_adds_people_and_no_rights() -> None:
    """The director, asked after three days, is bound by the same duties; the barred stay barred."""
    journey = Journey(Review)
    chief = person("dee", "director", "employee")
    journey.send(Review.submit(by=chief))
    assert journey.refused(claim(journey, chief)).code == "actor"
    journey.advance("3d")
    for event in (claim(journey, chief), delegate(journey, "bob", chief), Review.approve(by=chief)):
        assert journey.refused(event).code == "duty"
    assert journey.refused(claim(journey, agent("bot", "director"))).code == "duty"
    assert journey.refused(claim(journey, dan)).code == "actor"
    other = person("di", "director")
    journey.send(claim(journey, other))
    journey.send(Review.approve(by=other))


def test_the_system_claims_and_delegates_nothing() -> None:
    """It may only give a question back to all."""
    journey = asked()
    for event in (claim(journey, SYSTEM), delegate(journey, "cid", SYSTEM)):
        assert journey.refused(event).code == "actor"
    impostor = Actor("clock", "system", frozenset({"manager"}))
    assert journey.refused(claim(journey, impostor)).code == "duty"
    journey.send(claim(journey, bob))
    journey.send(release_ask(ask_of(journey).id, SYSTEM))


def test_an_agent_gets_a_question_for_people_from_nobody() -> None:
    """A person cannot delegate to an agent what only people may decide; the agent may give it back."""
    journey = asked()
    journey.send(delegate(journey, "bot", bob))
    for event in (Review.approve(by=bot), claim(journey, bot), delegate(journey, "cid", bot)):
        assert journey.refused(event).code == "duty"
    journey.send(release_ask(ask_of(journey).id, bot))
    journey.send(Review.approve(by=cid))


@pytest.mark.parametrize("sender", [ann, cid, dan, dee], ids=lambda actor: actor.id)
def test_a_claim_is_released_by_nobody_else(sender: Actor) -> None:
    """Neither a colleague nor who is barred takes it from its holder."""
    journey = asked()
    journey.send(claim(journey, bob))
    assert journey.refused(release_ask(ask_of(journey).id, sender)).code == "claimed"
    assert ask_of(journey).claimed_by == "bob"


def test_one_answer_that_is_open_is_enough_to_claim() -> None:
    """Who may reject but not approve their own claim may take it on, and still not approve it."""

    class Mild(Statechart):
        draft = State(initial=True)
        review = State(ask=Ask("manager", deadline="5d"))
        paid, rejected = Final(), Final()
        submit = draft.to(review, by="employee")
        approve = review.to(paid, by="manager", distinct_from="submit")
        reject = review.to(rejected, by="manager")
        expire = review.on_deadline.to(rejected)

    journey = Journey(Mild)
    journey.send(Mild.submit(by=ann))
    journey.send(claim(journey, ann))
    assert journey.refused(Mild.approve(by=ann)).code == "duty"
    journey.send(delegate(journey, "cid", ann))
    journey.send(Mild.approve(by=cid))
