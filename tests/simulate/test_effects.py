"""The effects that the simulator expects of history lines: all that are certain, and no others."""

import pytest

from headway import Ask, Final, History, State, Statechart, View
from headway.actions import add, log, record, tell, topic
from headway.engine import commit
from headway.statechart import effects
from headway.statechart.step import asks
from headway.testing.simulate import GuaranteeError, simulate
from tests.simulate.bugs import nothing

pytestmark = pytest.mark.mission("ENG-3", "ENG-5", "ENG-7")


def perhaps(view: View) -> list[object]:
    """Tell of it, or do not."""
    return [topic("bill.seen")] if view.seed % 2 else []


class Bill(Statechart):
    """Needs votes, says things as it comes and goes, and remembers where it was."""

    proposed = State(
        initial=True, ask=Ask("member", deadline="5s"), entry=log("begun"), exit=record("bill", "{instance}")
    )
    debated = State(entry=topic("bill.debated.{user}"))
    amended = State(exit=tell("children", "stop"))
    last = History(otherwise=debated)
    floor = State(debated, amended, last)
    tabled = State(entry=topic("bill.tabled"), exit=topic("bill.back"))
    law, dropped = Final(exit=topic("bill.over")), Final()

    second = proposed.to(debated, by="member", quorum=2, emit="bill.seconded")
    reading = proposed.stay(by="member", quorum=2, emit="bill.read")
    amend = debated.to(amended, by="member", do=(perhaps, add("amended")))
    again = debated.to(debated, by="member")
    table = floor.to(tabled, by="member")
    resume = tabled.to(last, by="member")
    passed = amended.to(law, by="member", distinct_from="amend", webhook="bill.passed")
    lapse = proposed.on_deadline.to(dropped)
    drop = tabled.to(dropped, live="bill.dropped")


def test_what_a_chart_leaves_open_is_not_held_against_the_engine() -> None:
    """Votes that decide nothing, functions, names from the context, states entered anew, and memory."""
    assert simulate(Bill, seeds=range(30), calls=25) == 30


class Petition(Statechart, cancel="drop"):
    """Whoever submits it does not decide on it."""

    draft = State(initial=True)
    review = State(ask=Ask("clerk", deadline="9s"))
    granted, refused, dropped = Final(), Final(), Final()

    submit = draft.to(review, by="clerk")
    grant = review.to(granted, by="clerk", distinct_from="submit")
    refuse = review.to(refused, by="clerk", distinct_from="submit")
    lapse = review.on_deadline.to(refused)
    drop = draft.to(dropped)


def test_an_ask_delegated_by_an_excluded_actor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The submitter may not delegate the decision; the simulator finds an engine that allows it."""
    assert simulate(Petition, seeds=range(20), calls=25) == 20
    monkeypatch.setattr(asks, "kept_from_all", lambda *_, **__: None)
    with pytest.raises(GuaranteeError, match=r"has no answer in review: ask\.delegate"):
        simulate(Petition, seeds=range(60), calls=25)


@pytest.mark.parametrize(
    "effect", [effects.PublishMessage, effects.WriteLog, effects.StoreRecord, effects.Deliver]
)
def test_a_missing_effect_of_an_entry_or_exit_is_found(effect: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry and exit actions have effects too, and the simulator expects them."""
    monkeypatch.setitem(commit.WRITERS, effect, nothing)
    with pytest.raises(GuaranteeError, match="is missing: the chart declares it"):
        simulate(Bill, seeds=range(30), calls=25)
