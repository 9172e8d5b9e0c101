"""Definitions: what a class body becomes, and that every mistake is found at once, with its line."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

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
    person,
)
from headway.actions import count, put, topic
from headway.errors import DefinitionError, InputError
from headway.statechart import model
from headway.statechart.authoring import Transition

pytestmark = pytest.mark.mission("ENG-1")


def always(_view: View) -> bool:
    """It always holds."""
    return True


def bump(_view: View) -> dict[str, int]:
    """Writes a number."""
    return {"n": 1}


def blind() -> bool:
    """Takes nothing, so it can judge nothing."""
    return True


WRONG: Any = 7
"""A value of no type that fits."""

MISTYPED: Any = {"quorom": 2}
NOW = datetime(2026, 3, 2, tzinfo=UTC)


class Verdict(BaseModel):
    """What a manager says."""

    comment: str


@dataclass
class Claim:
    """What an expense claim holds."""

    amount: int = 0


def definition_problems(define: Callable[[], object]) -> list[tuple[int, str]]:
    """The problems of a definition, with lines counted from its `def`."""
    first = inspect.getsourcelines(define)[1]
    with pytest.raises(DefinitionError) as caught:
        define()
    return [(problem.line - first, problem.message) for problem in caught.value.problems]


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


def test_all_mistakes_are_found_at_once_with_their_lines() -> None:
    """One error tells every mistake of a definition, in order, each with the line it stands on."""

    def define() -> object:
        class Wrong(Statechart):
            a = State(initial=True, timeout="5m")
            b = State(ask=Ask(deadline="2 fortnights", late="maybe"))
            c = Final()
            go = a.to(b, when=lambda _view: True)
            stop = a.to(c, distinct_from="goo", quorum=0)
            out = c.to(a)

        return Wrong

    assert definition_problems(define) == [
        (2, "a has timeout= but no run= (for a time limit write .after(...))"),
        (3, "not a duration: '2 fortnights' (write 500ms, 90s, 5m, 2h, 1d 12h)"),
        (3, "b asks nobody: name a role"),
        (3, 'b has late=\'maybe\': it is "refuse" or "record"'),
        (5, "a guard or action needs a name: write a function, not a lambda"),
        (6, "stop is distinct_from 'goo', which does not exist (did you mean go?)"),
        (6, "stop has a quorum of 0: it is at least 1"),
        (7, "out leaves c, which is final"),
    ]


def body(**attributes: object) -> Callable[[], object]:
    """A definition made of the given attributes."""

    def define() -> object:
        return type("Made", (Statechart,), dict(attributes))

    return define


def two(**more: object) -> dict[str, object]:
    """Two states, the first initial."""
    return {"a": State(initial=True), "b": State(), **more}


def states_and(make: Callable[[State, State], dict[str, object]]) -> dict[str, object]:
    """Two states and what is made of them."""
    a, b = State(initial=True), State()
    return {"a": a, "b": b, **make(a, b)}


MISTAKES: list[tuple[dict[str, object], str]] = [
    ({}, "has no states"),
    ({"a": State()}, "no outermost state says initial=True"),
    ({"a": State(initial=True), "b": State(initial=True)}, "several states say initial=True"),
    ({"a": State(State(), initial=True)}, "a child of a has no name"),
    (two(p=Parallel()), "p is parallel and has no children"),
    (two(h=History()), "h is a history state and needs a state around it"),
    (two(c=State(progress=(50, 20))), "it is a range within 0 to 100"),
    (two(c=State(run="x", retry=Retry(-1))), "retries -1 times"),
    (two(c=State(run="x", retry=Retry(jitter=2))), "jitter outside 0 to 1"),
    (two(c=State(run="x", retry=(Retry(1), Retry(2, on="busy")))), "they never apply"),
    (two(c=State(run="x", errors="a.b")), "is no error code"),
    (two(c=State(run=Run("x", lease="5s"))), "a lease that ends before the next heartbeat"),
    (two(c=State(run=Run("x"), timeout="1s")), "put them into it"),
    (two(c=State(ask=Ask("m", deadline="1h", remind="2h"))), "remind only after its deadline"),
    (two(c=State(where="x")), "which is for outermost states of charts with computed="),
    (states_and(lambda a, _b: {"go": a.to()}), "go goes nowhere"),
    (states_and(lambda a, _b: {"go": a.to(State())}), "is not an attribute of Made"),
    (states_and(lambda a, b: {"go": a.to(b, when=WRONG)}), "not a guard: 7"),
    (states_and(lambda a, b: {"go": a.to(b, do=WRONG)}), "not an action: 7"),
    (states_and(lambda a, b: {"go": a.to(b, when="1 +")}), "is no expression"),
    (states_and(lambda a, b: {"go": a.to(b, by=WRONG)}), "not a name, nor several: 7"),
    (states_and(lambda a, b: {"go": a.to(b, takes=open)}), "does not describe JSON data"),
    (states_and(lambda a, b: {"go": a.to(b, event="a b")}), "is no name for an event"),
    (states_and(lambda a, b: {"go": a.to(b, event="timer")}), "the event timer is the engine's own"),
    (states_and(lambda a, b: {"go": a.on("done.work.a").to(b)}), "which never comes"),
    (states_and(lambda a, b: {"go": a.on_deadline.to(b)}), "a has no ask with a deadline"),
    (states_and(lambda a, b: {"go": a.on_answer.to(b)}), "a has no ask"),
    (states_and(lambda a, b: {"go": a.on_error.to(b)}), "its state has no run="),
    (states_and(lambda a, b: {"go": a.always.to(b, event="x")}), "names an event beside a trigger"),
    (states_and(lambda a, b: {"go": a.to(b, but=(b,))}), "which goes with any_live only"),
    (states_and(lambda a, b: {"go": a.computes(b)}), "which is for charts with computed="),
    (states_and(lambda a, b: {"go": a.to(a, b)}), "which cannot be active together"),
    (states_and(lambda a, b: {"go": a.after("soon").to(b)}), "not a duration: 'soon'"),
    (states_and(lambda a, b: {"go": (a.to(b), 1)[1]}), "has no name, or its name was assigned again"),
    (
        states_and(lambda a, b: {"go": a.to(b, **MISTYPED)}),
        "quorom=, which says nothing (did you mean quorum?)",
    ),
    (states_and(lambda a, b: {"go": a.to(b, when=blind)}), "blind must take one argument, the view"),
    (two(c=State(run=WRONG)), "run= names a handler or is a Run(...), not 7"),
    (two(c=State(run="x", retry=WRONG)), "retry= is a Retry(...) or several, not 7"),
    (two(c=State(ask=WRONG)), "ask= is an Ask(...), not 7"),
    (two(c=State(ask=Ask("m", deadline="5d", escalate=WRONG))), "escalate= says who may answer too"),
    (states_and(lambda a, b: {"go": a.to(b, do=put(at=NOW))}), "put() takes JSON values"),
    (states_and(lambda a, b: {"go": a.every("0s").to(b)}), "too soon or too late"),
]


@pytest.mark.parametrize(("attributes", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_each_mistake_has_its_message(attributes: dict[str, object], message: str) -> None:
    """A mistake is named when the class is created."""
    assert message in "\n".join(text for _, text in definition_problems(body(**attributes)))


def test_two_functions_of_one_name_are_a_mistake() -> None:
    """Functions are known by name, so a name means one function."""

    def twin() -> Callable[[View], bool]:
        def always(_view: View) -> bool:
            return False

        return always

    def define() -> object:
        a, b = State(initial=True), State()
        rows = {"go": a.to(b, when=always), "back": b.to(a, when=twin())}
        return type("Made", (Statechart,), {"a": a, "b": b, **rows})

    assert "two different functions are called always" in str(definition_problems(define))


def test_a_computed_chart_assigns_no_status() -> None:
    """Where the status is computed, every outermost state has a rule and no row names one as its target."""

    def define() -> object:
        class Wrong(Statechart, computed="first"):
            started = State(where="started_at")
            waiting = State()
            go = waiting.to(started)

        return Wrong

    assert [message for _, message in definition_problems(define)] == [
        "waiting needs where=: the status of Wrong is computed",
        "go assigns the status started; it is computed: write .computes(started)",
    ]


def test_one_mistake_is_told_once() -> None:
    """A bad duration is one problem: what hangs on it is not complained about too."""

    def define() -> object:
        class Wrong(Statechart):
            a = State(initial=True, ask=Ask("manager", deadline="soon"))
            b = Final()
            expire = a.on_deadline.to(b)
            late = a.after("later").to(b)

        return Wrong

    assert [message.partition(" (")[0] for _, message in definition_problems(define)] == [
        "not a duration: 'soon'",
        "not a duration: 'later'",
    ]


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
    with pytest.raises(TypeError, match="says what it promises"):
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
