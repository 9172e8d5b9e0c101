"""Ownership: what is for an instance's owner, its creator, a person in a field, or the sender of an event."""

from datetime import UTC, datetime, timedelta

import pytest

from headway import (
    Actor,
    Ask,
    Event,
    Final,
    No,
    Refusal,
    Snapshot,
    State,
    Statechart,
    View,
    any_live,
    check,
    explain,
    person,
    start,
    step,
)
from headway.codec import replace
from headway.errors import DefinitionError, InputError
from headway.statechart.effects import ChangedAsk, OpenedAsk, RemindAsk
from headway.statechart.explain import answers_open_to
from headway.statechart.people import audience
from headway.statechart.snapshot import claim_ask, delegate_ask, timer_fired

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
ann, bob, eve = person("ann", "customer"), person("bob", "customer"), person("eve", "customer")
sue = person("sue", "support")
pytestmark = pytest.mark.mission("ENG-20")


class Refund(Statechart, owner="{creator}"):
    """A refund that a customer asks for, and answers questions about."""

    pending = State(initial=True, ask=Ask("{owner}", "support", remind="1d"))
    checked = State()
    closed = Final()
    withdraw = pending.to(closed, by="{owner}")
    check = pending.to(checked, by="support")
    reopen = checked.to(pending, by="{check.by}")
    drop = any_live.to(closed, by=("{owner}", "{contact}", "admin"))


def begun(chart: type[Statechart] = Refund, by: Actor = ann, **context: object) -> Snapshot:
    """A new instance."""
    return start(chart, "r1", now=NOW, by=by, context=context).unwrap().snapshot


def sent(snapshot: Snapshot, event: Event, chart: type[Statechart] = Refund) -> Snapshot:
    """The snapshot after an event that must go through."""
    return step(chart, snapshot, event, NOW).unwrap().snapshot


def refused(snapshot: Snapshot, event: Event, chart: type[Statechart] = Refund) -> Refusal:
    """The refusal of an event."""
    answer = step(chart, snapshot, event, NOW)
    assert isinstance(answer, Refusal)
    return answer


def test_an_event_for_the_owner_is_refused_to_everybody_else() -> None:
    """The same role is not enough: the refusal names the owner, and who may act is in `allowed`."""
    snapshot = begun()
    assert snapshot.owner == "ann"
    refusal = refused(snapshot, Refund.withdraw(by=bob))
    assert refusal.code == "actor"
    assert (
        refusal.message == "withdraw is refused in pending: withdraw is for ann (the owner); bob has customer"
    )
    allowed = {each.event: (each.by, each.people) for each in refusal.allowed}
    assert allowed["withdraw"] == ((), ("ann",))
    assert allowed["drop"] == (("admin",), ("ann",))
    assert sent(snapshot, Refund.withdraw(by=ann)).ended


def test_a_person_needs_no_role() -> None:
    """Who is named acts by name, whatever their roles; a role of that name does not help others."""
    assert sent(begun(), Refund.withdraw(by=person("ann"))).ended
    forged = Actor("bob", "person", frozenset({"owner", "creator", "ann", "@ann"}))
    assert refused(begun(), Refund.withdraw(by=forged)).code == "actor"


@pytest.mark.parametrize("role", ["{owner}", "{", "@ann"])
def test_no_actor_gets_a_role_that_stands_for_a_person(role: str) -> None:
    """Roles from outside cannot begin with a brace or an @."""
    with pytest.raises(InputError, match="stands for a person"):
        person("bob", role)


def test_a_field_names_one_person_or_several() -> None:
    """The field is read at each event: another value names another person, a list names all in it."""
    snapshot = begun(contact="eve")
    assert sent(snapshot, Refund.drop(by=eve)).ended
    assert refused(snapshot, Refund.drop(by=bob)).code == "actor"
    several = replace(snapshot, context={"contact": ["bob", "eve"]})
    assert sent(several, Refund.drop(by=bob)).ended
    assert sent(several, Refund.drop(by=eve)).ended


@pytest.mark.parametrize("nobody", [None, "", [], {}, True, ["", None], 3.5, "x" * 201])
def test_an_empty_field_names_nobody(nobody: object) -> None:
    """Nothing in the field is nobody, and not everybody."""
    refusal = refused(begun(contact=nobody), Refund.drop(by=bob))
    assert "the contact, which is nobody" in refusal.message


def test_a_number_is_an_id() -> None:
    """Ids from other systems are often numbers."""
    assert sent(begun(contact=42), Refund.drop(by=person("42"))).ended


def test_the_sender_of_an_event_is_who_sent_it_last() -> None:
    """`{check.by}` follows the last sender, also when an earlier one sends it again."""
    tom = person("tom", "support")
    snapshot = sent(begun(), Refund.check(by=sue))
    assert refused(snapshot, Refund.reopen(by=tom)).code == "actor"
    snapshot = sent(sent(snapshot, Refund.reopen(by=sue)), Refund.check(by=tom))
    assert refused(snapshot, Refund.reopen(by=sue)).code == "actor"
    snapshot = sent(sent(snapshot, Refund.reopen(by=tom)), Refund.check(by=sue))
    assert sent(snapshot, Refund.reopen(by=sue)).states == ("pending",)


def test_an_ask_is_for_people_and_roles() -> None:
    """Its audience has roles and people; the owner may claim and answer it, another customer may not."""
    outcome = start(Refund, "r1", now=NOW, by=ann).unwrap()
    (opened,) = (each for each in outcome.effects if isinstance(each, OpenedAsk))
    assert opened.roles == ("@ann", "support")
    ask = outcome.snapshot.asks["pending"].id
    assert answers_open_to(Refund.chart, outcome.snapshot, ask, ann) == ("withdraw", "drop")
    assert answers_open_to(Refund.chart, outcome.snapshot, ask, sue) == ("check",)
    assert answers_open_to(Refund.chart, outcome.snapshot, ask, bob) == ()
    refusal = refused(outcome.snapshot, claim_ask(ask, timedelta(minutes=5), bob))
    assert refusal.message == "pending asks support or ann (the owner), not bob"
    assert (
        sent(outcome.snapshot, claim_ask(ask, timedelta(minutes=5), ann)).asks["pending"].claimed_by == "ann"
    )


def test_a_reminder_reaches_the_people_who_are_asked() -> None:
    """The effect of a reminder names them as the ask does."""
    snapshot = begun()
    (timer,) = snapshot.timers
    outcome = step(Refund, snapshot, timer_fired(timer), NOW + timedelta(days=1)).unwrap()
    (reminder,) = (each for each in outcome.effects if isinstance(each, RemindAsk))
    assert reminder.roles == ("@ann", "support")


def assigned(view: View) -> dict[str, object]:
    """Whom the event names."""
    return {"contact": view.event.data}


class Handover(Statechart, owner="{creator}"):
    """A question that follows the person in a field."""

    pending = State(initial=True, ask=Ask("{contact}", delegate="anyone"))
    done = Final()
    answer = pending.to(done)
    assign = any_live.stay(by="support", do=assigned)


def test_an_open_ask_follows_the_field() -> None:
    """When the person changes, the inbox changes in the same step."""
    snapshot = begun(Handover, contact="bob")
    outcome = step(Handover, snapshot, Handover.assign("eve", by=sue), NOW).unwrap()
    (changed,) = (each for each in outcome.effects if isinstance(each, ChangedAsk))
    assert changed.roles == ("@eve",)
    ask = outcome.snapshot.asks["pending"].id
    answer = Event("answer", by=bob, ref=ask)
    assert refused(outcome.snapshot, answer, Handover).code == "actor"
    assert sent(outcome.snapshot, replace(answer, by=eve), Handover).ended


def test_a_delegate_answers_in_the_place_of_a_named_person() -> None:
    """Delegation lends the right of who was asked by name, where the chart allows it."""
    snapshot = begun(Handover, contact="bob")
    ask = snapshot.asks["pending"].id
    snapshot = sent(snapshot, delegate_ask(ask, "eve", bob), Handover)
    assert refused(snapshot, Event("answer", by=bob, ref=ask), Handover).code == "actor"
    assert sent(snapshot, Event("answer", by=eve, ref=ask), Handover).ended


def test_what_is_for_one_person_is_not_delegated_to_somebody_it_does_not_name() -> None:
    """Without `delegate="anyone"` a delegate must be asked too: else the ask would be stuck."""

    class Strict(Statechart):
        pending = State(initial=True, ask=Ask("{contact}"))
        done = Final()
        answer = pending.to(done)

    snapshot = begun(Strict, contact="bob")
    refusal = refused(snapshot, delegate_ask(snapshot.asks["pending"].id, "eve", bob), Strict)
    assert "eve cannot answer pending" in refusal.message


def test_a_guard_sees_who_stands_in_for_whom() -> None:
    """`view.in_place_of` holds those who delegated."""
    seen = []

    def note(view: View) -> bool | No:
        seen.append((view.actor.id, [each.id for each in view.in_place_of], view.owner, view.creator))
        return True

    class Noted(Statechart, owner="{contact}"):
        pending = State(initial=True, ask=Ask("{owner}", delegate="anyone"))
        done = Final()
        answer = pending.to(done, when=note)

    snapshot = begun(Noted, by=sue, contact="bob")
    ask = snapshot.asks["pending"].id
    snapshot = sent(snapshot, delegate_ask(ask, "eve", bob), Noted)
    sent(snapshot, Event("answer", by=eve, ref=ask), Noted)
    assert seen[0] == ("eve", ["bob"], "bob", "sue")
    assert ("bob", [], "bob", "sue") in seen


def test_why_names_the_people() -> None:
    """The explanation says who can act by id, and whom a question asks."""
    why = explain(Refund, begun(), NOW)
    assert why.waits[0].what == "an answer from support or ann (the owner)"
    ways = {way.transition: way for way in why.ways}
    assert (ways["withdraw"].by, ways["withdraw"].people) == ((), ("ann",))
    assert "ann can withdraw." in str(why)


def test_an_own_actor_reaches_only_what_is_theirs() -> None:
    """With `own`, roles do not open other people's instances; the refusal tells nothing about them."""
    stranger = replace(person("mallory", "support", "admin"), own=True)
    for event in (Refund.check(by=stranger), Refund.drop(by=stranger), Event("nonsense", by=stranger)):
        refusal = refused(begun(), event)
        assert (refusal.code, refusal.states, refusal.allowed) == ("owner", (), ())
    assert sent(begun(), Refund.withdraw(by=replace(ann, own=True))).ended
    assert sent(begun(contact="bob"), Refund.drop(by=replace(bob, own=True))).ended
    ended = sent(begun(), Refund.withdraw(by=ann))
    assert refused(ended, Refund.withdraw(by=stranger)).code == "owner"


def test_an_own_actor_creates_only_for_themselves() -> None:
    """An instance that would be another person's is not created."""

    class Claim(Statechart, owner="{who}"):
        pending = State(initial=True)
        done = Final()
        end = pending.to(done)

    own = replace(bob, own=True)
    refusal = start(Claim, "c1", now=NOW, by=own, context={"who": "ann"})
    assert isinstance(refusal, Refusal)
    assert refusal.code == "owner"
    assert start(Claim, "c1", now=NOW, by=own, context={"who": "bob"}).unwrap().snapshot.owner == "bob"


def test_duties_bind_the_people_who_are_named() -> None:
    """Four eyes bar the owner who has sent the event before."""

    class Claim(Statechart, owner="{creator}"):
        pending = State(initial=True)
        sent_in = State()
        done = Final()
        submit = pending.to(sent_in, by="{owner}")
        approve = sent_in.to(done, by=("{owner}", "manager"), distinct_from="submit")

    snapshot = sent(begun(Claim), Claim.submit(by=ann), Claim)
    assert refused(snapshot, Claim.approve(by=ann), Claim).code == "duty"
    assert sent(snapshot, Claim.approve(by=person("max", "manager")), Claim).ended


MISTAKES = [
    ("{owner}", "", 'needs an owner: declare owner="{creator}"'),
    ("{submit.by}", "", "the chart has no event submit"),
    ("{a b}", "", "names nobody"),
    ("{}", "", "names nobody"),
    ("{owner", "{creator}", "names nobody"),
    ("@ann", "", "must not begin with @"),
]


@pytest.mark.parametrize(("entry", "owner", "message"), MISTAKES)
def test_an_entry_that_can_name_nobody_is_a_mistake(entry: str, owner: str, message: str) -> None:
    """The definition says what to write."""
    with pytest.raises(DefinitionError, match=message.replace("{", r"\{")):

        class _Wrong(Statechart, owner=owner):
            pending = State(initial=True)
            done = Final()
            end = pending.to(done, by=entry)


def test_reads_are_for_roles_and_the_owner() -> None:
    """`read_by` knows no other people: a list could not be filtered by them."""
    with pytest.raises(DefinitionError, match="read_by= takes roles and"):

        class _Wrong(Statechart, owner="{creator}", read_by="{contact}"):
            pending = State(initial=True)
            done = Final()
            end = pending.to(done)


def test_the_checker_finds_a_duty_that_the_one_named_person_cannot_fulfil() -> None:
    """A person is one person: nobody else can be the second pair of eyes."""

    class Alone(Statechart, owner="{creator}"):
        pending = State(initial=True)
        sent_in = State()
        done = Final()
        submit = pending.to(sent_in, by="{owner}")
        approve = sent_in.to(done, by="{owner}", distinct_from="submit")

    findings = [each for each in check(Alone).findings if each.id == "duty-deadlock"]
    assert [(each.severity, each.transition) for each in findings] == [("error", "approve")]


class Order(Statechart, owner="{customer}", read_by="auditor"):
    """An order for a customer; the clerk who takes it in helps, and auditors look on."""

    pending = State(initial=True, ask=Ask("{owner}"))
    closed = Final()
    accept = pending.to(closed, by="{owner}")
    remind = pending.stay(by=("{creator}", "{contact}", "clerk"))


@pytest.mark.parametrize("context", [{"customer": "bob"}, {"customer": "bob", "contact": "ann"}])
def test_who_reaches_only_their_own_creates_nothing_for_somebody_else(context: dict[str, str]) -> None:
    """That another entry names the creator does not make the instance theirs."""
    mine = replace(ann, own=True)
    refusal = start(Order, "o1", now=NOW, by=mine, context=context)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "owner"
    assert start(Order, "o1", now=NOW, by=mine, context={"customer": "ann"}).unwrap().snapshot.owner == "ann"


@pytest.mark.parametrize("event", ["remind", "accept", "nonsense"])
def test_a_refusal_tells_nothing_to_who_may_not_even_read(event: str) -> None:
    """Others than the readers of a chart and those it names learn neither its state nor its events."""
    snapshot = begun(Order, by=person("cleo", "clerk"), customer="bob")
    stranger = refused(snapshot, Event(event, by=person("eve", "customer")), Order)
    assert (stranger.code, stranger.states, stranger.allowed, stranger.objections) == ("owner", (), (), ())
    assert "pending" not in stranger.message
    for known in (person("otto", "auditor"), person("carl", "clerk"), bob):
        answer = step(Order, snapshot, Event(event, by=known), NOW)
        assert not isinstance(answer, Refusal) or answer.states == ("pending",), known


def test_audience_without_anybody() -> None:
    """An entry that names nobody leaves the roles."""
    assert audience(("{contact}", "support"), begun()) == ("support",)


def chosen(view: View) -> dict[str, object]:
    """The reviewers that the event names."""
    return {"reviewers": view.event.data}


class Reviewed(Statechart):
    """A document that reviewers approve; the boss may choose others."""

    asked = State(initial=True, ask=Ask("{reviewers}", "manager", delegate="anyone"))
    done = Final()
    approve = asked.to(done, by=("{reviewers}", "manager"))
    choose = asked.stay(by="boss", do=chosen)


@pytest.mark.parametrize(
    ("held", "now", "kept"),
    [
        (claim_ask("r1:0:0", timedelta(hours=1), ann), ["bob"], False),
        (claim_ask("r1:0:0", timedelta(hours=1), ann), ["ann", "eve"], True),
        (claim_ask("r1:0:0", timedelta(hours=1), person("mia", "manager")), ["bob"], True),
        (delegate_ask("r1:0:0", "eve", ann), ["bob"], False),
        (delegate_ask("r1:0:0", "bob", ann), ["ann"], False),
        (delegate_ask("r1:0:0", "eve", person("mia", "manager")), ["bob"], True),
    ],
)
def test_an_ask_is_given_back_when_its_holder_is_named_no_longer(
    held: Event, now: list[str], *, kept: bool
) -> None:
    """A claim or a delegation by somebody ends with their part in the ask; those by others stay."""
    snapshot = begun(Reviewed, reviewers=["ann", "bob"])
    ask = snapshot.asks["asked"].id
    snapshot = sent(snapshot, replace(held, ref=ask), Reviewed)
    boss = person("boss", "boss")
    done = step(Reviewed, snapshot, Event("choose", now, by=boss), NOW).unwrap()
    ask_now = done.snapshot.asks["asked"]
    assert ((ask_now.claimed_by or ask_now.delegated_to) is not None) == kept
    [change] = [effect for effect in done.effects if isinstance(effect, ChangedAsk)]
    assert ((change.claimed_by or change.delegated_to) is not None) == kept
    if not kept:
        assert sent(done.snapshot, Event("approve", by=person(now[0]), ref=ask), Reviewed).ended
