"""Definitions: what a class body becomes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headway import (
    Ask,
    Final,
    History,
    No,
    Parallel,
    Refusal,
    Retry,
    Run,
    Snapshot,
    State,
    Statechart,
    Step,
    View,
    any_live,
    invariant,
    person,
    start,
    step,
)
from headway.actions import count, put, topic
from headway.errors import InputError
from headway.statechart import model
from headway.statechart.authoring.states import Transition
from headway.statechart.snapshot import timer_fired

pytestmark = pytest.mark.mission("ENG-1")


def always(_view: View) -> bool:
    """It always holds."""
    return True


def bump(_view: View) -> dict[str, int]:
    """Writes a number."""
    return {"n": 1}


NOW = datetime(2026, 3, 2, tzinfo=UTC)


def started(chart: type[Statechart], context: dict[str, object]) -> Snapshot:
    """A new instance."""
    begun = start(chart, "it", now=NOW, context=context)
    assert isinstance(begun, Step)
    return begun.snapshot


class Judge:
    """Somebody whose method is a guard."""

    def agrees(self, _view: View) -> bool:
        """It does."""
        return True


class Verdict(BaseModel):
    """What a manager says."""

    comment: str


@dataclass
class Claim:
    """What an expense claim holds."""

    amount: int = 0


def test_a_class_body_becomes_a_model() -> None:
    """States, rows, work, asks, types and functions of the class body stand in the model as declared."""

    class Expense(Statechart, version=3, context=Claim, facts=("limit",), cancel="withdraw"):
        """An expense claim."""

        draft = State(initial=True, meaning="being written")
        review = State(ask=Ask("manager", form=Verdict, deadline="2d", remind="1d", escalate={"cfo": "36h"}))
        paying = State(run=Run("pay", timeout="60s", retry=Retry(5, base="2s", cap="1m", on="busy")))
        paid, failed = Final(), Final()

        submit = draft.to(review, by=("employee", "clerk"), when=(always, "amount > 0"), do=(bump, put(x=1)))
        approve = review.to(paying, by="manager", takes=Verdict, emit=topic("approved", "amount"), quorum=2)
        done = paying.on_done.to(paid, webhook="paid")
        broken = paying.on_error("busy", "declined").to(failed)
        expire = review.on_deadline.to(failed, counts="expired")
        withdraw = any_live.to(failed, but=(paying,))

    whole = Expense.chart.model
    states = {state.id: state for state in whole.states}
    rows = {row.name: row for row in whole.transitions}
    assert (whole.name, whole.version, whole.meaning) == ("Expense", 3, "An expense claim.")
    assert (whole.initial, whole.context, whole.cancel) == (("draft",), "Claim", "withdraw")
    assert set(whole.schemas) == {"Claim", "Verdict"}
    assert states["draft"].meaning == "being written"
    assert states["review"].ask == model.Ask(
        roles=("manager",),
        form="Verdict",
        deadline=172_800_000,
        remind=86_400_000,
        escalate=(model.Escalation(after=129_600_000, roles=("cfo",)),),
    )
    assert states["paying"].run == model.Run(
        handler="pay", timeout=60_000, retry=(model.Retry(on=("busy",), times=5, base=2_000, cap=60_000),)
    )
    assert [state.id for state in whole.states if state.kind == "final"] == ["paid", "failed"]
    assert rows["submit"].by == ("employee", "clerk")
    assert rows["submit"].when == (model.Named(name="always"), model.Formula(text="amount > 0"))
    assert rows["submit"].actions == (model.Call(name="bump"), model.Put(values={"x": 1}))
    assert rows["approve"].actions == (model.Publish(kind="topic", name="approved", fields=("amount",)),)
    assert (rows["approve"].takes, rows["approve"].quorum) == ("Verdict", 2)
    assert rows["done"].events == ("done.work.paying",)
    assert rows["broken"].events == ("error.work.paying.busy", "error.work.paying.declined")
    assert rows["expire"].events == ("deadline.review",)
    assert rows["expire"].actions == (model.Count(name="expired"),)
    assert (rows["withdraw"].source, rows["withdraw"].excludes) == (model.ROOT, ("paying",))
    assert Expense.chart.functions == {"always": always, "bump": bump}


def test_children_follow_their_parent_in_document_order() -> None:
    """Children are given to their parent; the first is initial unless another says so."""

    class Nested(Statechart):
        one, two = State(), State(initial=True)
        left, right = State(), State()
        before = History(deep=True, otherwise=one)
        inner = State(one, two, before)
        both = Parallel(left, right)
        outer = State(inner, both, initial=True)

    states = Nested.chart.model.states
    assert [(state.id, state.kind, state.parent) for state in states] == [
        ("outer", "compound", None),
        ("inner", "compound", "outer"),
        ("one", "atomic", "inner"),
        ("two", "atomic", "inner"),
        ("before", "deep", "inner"),
        ("both", "parallel", "outer"),
        ("left", "atomic", "both"),
        ("right", "atomic", "both"),
    ]
    initial = {state.id: state.initial for state in states if state.initial}
    assert initial == {"outer": ("inner",), "inner": ("two",), "before": ("one",)}


def test_rows_can_share_a_name_and_states_can_share_a_row() -> None:
    """`|` joins rows under one name, and states under one row."""

    class Shared(Statechart):
        a, b, c = State(initial=True), State(), State()
        go = a.to(b) | b.to(c)
        back = (b | c).to(a, event="return")

    rows = [(row.name, row.source, row.targets, row.events) for row in Shared.chart.model.transitions]
    assert rows == [
        ("go", "a", ("b",), ("go",)),
        ("go", "b", ("c",), ("go",)),
        ("back", "b", ("a",), ("return",)),
        ("back", "c", ("a",), ("return",)),
    ]


def test_an_editor_knows_a_charts_attributes() -> None:
    """Transitions and states are plain attributes; a transition called makes the event that fires it."""

    class Light(Statechart):
        red, green = State(initial=True), State()
        go = red.to(green, event="switch")

    assert isinstance(Light.go, Transition)
    assert isinstance(Light.red, State)
    assert Light.go({"why": "empty"}).name == "switch"
    assert Light.go({"why": "empty"}).data == {"why": "empty"}


def test_a_chart_inherits_from_another() -> None:
    """A subclass of a chart has its states and transitions, and its own beside them."""

    class Base(Statechart):
        a, b = State(initial=True), State()
        go = a.to(b)

    class Longer(Base):
        c = Final()
        end = Base.b.to(c)

    assert set(Longer.chart.nodes) == {"a", "b", "c"}
    assert set(Base.chart.nodes) == {"a", "b"}


def test_charts_that_inherit_from_one_do_not_know_each_other() -> None:
    """Each subclass adds its own rows to the states they share, and may replace a row by its name."""

    class Base(Statechart):
        draft, review, sent = State(initial=True), State(), Final()
        submit = draft.to(sent)

    class Careful(Base):
        submit = Base.draft.to(Base.review)
        approve = Base.review.to(Base.sent)

    class Hasty(Base):
        skip = any_live.to(Base.sent)

    rows = {cls: [(row.name, row.targets) for row in cls.chart.model.transitions] for cls in (Careful, Hasty)}
    assert rows[Careful] == [("submit", ("review",)), ("approve", ("sent",))]
    assert rows[Hasty] == [("submit", ("sent",)), ("skip", ("sent",))]


def test_a_second_name_for_a_transition_makes_no_second_row() -> None:
    """An alias is the same transition."""

    class Light(Statechart):
        red, green = State(initial=True), State()
        go = switch = red.to(green)

    assert [row.name for row in Light.chart.model.transitions] == ["go"]
    assert Light.switch().name == "go"


def test_each_timer_has_its_own_event() -> None:
    """Timers under one name fire each its own row, and none is a prefix of another."""

    class Timed(Statechart):
        a, life, c = State(initial=True), Final(), Final()
        x = a.after("1m").to(life, when="urgent") | a.after("5m").to(c) | a.every("9m").stay()
        y = any_live.after("7m").to(c) | any_live.after("8m").to(c)

    assert [row.events for row in Timed.chart.model.transitions] == [
        ("after.a.x",),
        ("after.a.x-2",),
        ("after.a.x-3",),
        ("after.life.y",),
        ("after.life.y-2",),
    ]
    begun = started(Timed, {"urgent": False})
    first = min(begun.timers, key=lambda timer: begun.timers[timer].due)
    after = step(Timed, begun, timer_fired(first), NOW + timedelta(minutes=1))
    assert isinstance(after, Step)
    assert (after.snapshot.states, len(after.snapshot.timers)) == (("a",), 4)


def test_names_of_a_set_stand_in_order() -> None:
    """A chart is the same in every process, whatever order a set has there."""
    roles = {f"role{number}" for number in range(9)}

    class Shared(Statechart):
        a, b = State(initial=True, run="x", errors=roles), Final()
        go = a.to(b, by=roles, countersign=roles, event=roles)

    (row,) = Shared.chart.model.transitions
    run = Shared.chart.model.states[0].run
    assert run is not None
    assert row.by == row.countersign == row.events == run.errors == tuple(sorted(roles))
    assert Shared.go().name == "role0"


def test_one_stands_for_several() -> None:
    """A lone fact, a lone exception and several roles for one escalation are understood."""

    class Lone(Statechart, facts="limit"):
        a = State(initial=True, ask=Ask("m", deadline="2d", escalate={("cfo", "ceo"): "1d"}))
        b = Final()
        stop = any_live.to(b, but=a)

    whole = Lone.chart.model
    ask = whole.states[0].ask
    assert ask is not None
    assert ask.escalate == (model.Escalation(after=86_400_000, roles=("cfo", "ceo")),)
    assert whole.facts == (model.Fact(name="limit"),)
    assert whole.transitions[0].excludes == ("a",)


def test_a_type_or_method_may_be_used_twice() -> None:
    """What is equal is one type, or one function, though it is another object each time it is written."""
    judge = Judge()

    class Twice(Statechart):
        a, b = State(initial=True), State()
        go = a.to(b, takes=list[int], when=judge.agrees)
        back = b.to(a, takes=list[int], when=judge.agrees)
        again = b.stay(takes=int | None)
        still = a.stay(takes=int | None)

    assert set(Twice.chart.functions) == {"agrees"}


def test_who_is_asked_may_answer_and_nobody_else() -> None:
    """A row that people fire from an asking state, and that says no `by`, is for the roles that are asked."""

    class Asked(Statechart):
        asking = State(
            initial=True, run="x", ask=Ask("manager", "owner", deadline="1d", escalate={"cfo": "1h"})
        )
        b = Final()
        approve = asking.to(b)
        veto = asking.to(b, by="auditor")
        answered = asking.on_answer.to(b)
        expire = asking.on_deadline.to(b)
        worked = asking.on_done.to(b)
        tired = asking.after("9d").to(b)
        left = asking.always.to(b, when="gone")

    assert {row.name: row.by for row in Asked.chart.model.transitions} == {
        "approve": ("manager", "owner"),
        "veto": ("auditor",),
        "answered": ("manager", "owner"),
        "expire": (),
        "worked": (),
        "tired": (),
        "left": (),
    }
    begun = started(Asked, {"gone": False})
    assert isinstance(step(Asked, begun, Asked.approve(by=person("mallory")), NOW), Refusal)
    assert isinstance(step(Asked, begun, Asked.approve(by=person("ann", "owner")), NOW), Step)


def test_events_are_taken_as_they_are_written() -> None:
    """Braces mean nothing in the name of an event or an error code."""

    class Braces(Statechart):
        a, b = State(initial=True, run="x"), Final()
        go = a.on("x{state}", "{").to(b)
        bad = a.on_error("A{").to(b)
        done = a.on_done.to(b)

    assert [row.events for row in Braces.chart.model.transitions] == [
        ("x{state}", "{"),
        ("error.work.a.A{",),
        ("done.work.a",),
    ]
    assert Braces.bad().name == "error.work.a.A{"


def test_an_invariant_may_be_a_static_method_and_says_what_it_promises() -> None:
    """The order of the decorators does not matter; a promise without words is refused."""

    class Light(Statechart):
        red, green = State(initial=True), State()
        go = red.to(green)

        @invariant("one way")
        @staticmethod
        def one(_view: object) -> bool:
            return True

        @staticmethod
        @invariant("or the other")
        def other(_view: object) -> bool:
            return True

    assert {each.name for each in Light.chart.model.invariants} == {"one", "other"}
    bare: Any = invariant
    with pytest.raises(TypeError, match="needs a description"):
        bare(lambda _view: True)


def test_an_actor_is_no_data() -> None:
    """Whoever forgets `by=` hears of it."""

    class Light(Statechart):
        red, green = State(initial=True), State()
        go = red.to(green)

    with pytest.raises(InputError, match="write by=ann"):
        Light.go(person("ann"))
    assert repr(Light.go) == "<Transition go to green>"


def test_a_no_is_false_and_keeps_its_reason() -> None:
    """A guard's No counts as false and says why."""
    assert not No("attach a receipt first")
    assert No("attach a receipt first").reason == "attach a receipt first"
    assert count("n", "1 + 1") == model.Count(name="n", expr="1 + 1")


@pytest.mark.parametrize("typed", [Verdict(comment="fine"), Claim(amount=7), {"comment": "fine"}])
def test_a_typed_payload_becomes_plain_data(typed: object) -> None:
    """An event made from a pydantic model or a dataclass carries plain data that a store can keep."""

    class Light(Statechart):
        red, green = State(initial=True), State()
        go = red.to(green)

    assert Light.go(typed, reason="because").data in ({"comment": "fine"}, {"amount": 7})
    assert Light.go(typed, reason="because").reason == "because"
