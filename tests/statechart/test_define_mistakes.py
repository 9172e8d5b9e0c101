"""Mistakes in definitions: each is found when the class is created, all at once, with its line."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Ask, AtMost, Final, History, Parallel, Retry, Run, State, Statechart, View, any_live
from headway.actions import assign, count, log, put, spawn, tell
from headway.codec import replace
from headway.statechart import model
from headway.statechart.validation.validate import problems_of
from tests.statechart.definitions import body, definition_problems

pytestmark = pytest.mark.mission("ENG-1")


def always(_view: View) -> bool:
    """It always holds."""
    return True


def blind() -> bool:
    """Takes nothing, so it can judge nothing."""
    return True


async def later(_view: View) -> bool:
    """Answers too late to be heard."""
    return False


def bit_by_bit(_view: View) -> Iterator[bool]:
    """Answers with a generator, which counts as true."""
    yield False


WRONG: Any = 7
"""A value of no type that fits."""

TEXT: Any = "x"
"""A text where none belongs."""

MISTYPED: Any = {"quorom": 2}
NOW = datetime(2026, 3, 2, tzinfo=UTC)


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
        (3, 'late= must be "refuse" or "record", not \'maybe\''),
        (3, "not a duration: '2 fortnights' (write 500ms, 90s, 5m, 2h, 1d 12h)"),
        (3, "b asks nobody: name a role"),
        (5, "a guard or action needs a name: write a function, not a lambda"),
        (6, "stop is distinct_from 'goo', which does not exist (did you mean go?)"),
        (6, "stop has a quorum of 0: it must be between 1 and 100"),
        (7, "out leaves c, which is final"),
    ]


def two(**more: object) -> dict[str, object]:
    """Two states, the first initial."""
    return {"a": State(initial=True), "b": State(), **more}


def states_and(make: Callable[[State, State], dict[str, object]]) -> dict[str, object]:
    """Two states and what is made of them."""
    a, b = State(initial=True), State()
    return {"a": a, "b": b, **make(a, b)}


DEEP = model.If(
    branches=(
        model.Branch(
            when="true",
            actions=(model.ForEach(array="[1]", item="n", index=None, actions=(model.Log(expr="1 +"),)),),
        ),
    )
)
"""A mistake inside an If and a ForEach."""

MISTAKES: list[tuple[dict[str, object], str]] = [
    ({}, "has no states"),
    ({"a": State()}, "no outermost state has initial=True"),
    ({"a": State(initial=True), "b": State(initial=True)}, "several outermost states have initial=True"),
    ({"a": State(State(), initial=True)}, "a child of a has no name"),
    (two(p=Parallel()), "p is parallel and has no children"),
    (two(h=History()), "h is a history state and needs a state around it"),
    (two(c=State(progress=(50, 20))), "it must be a range within 0 to 100"),
    (two(c=State(run="x", retry=Retry(-1))), "retries -1 times"),
    (two(c=State(run="x", retry=Retry(jitter=2))), "jitter outside 0 to 1"),
    (two(c=State(run="x", retry=(Retry(1), Retry(2, on="busy")))), "they never apply"),
    (two(c=State(run="x", errors="a.b")), "is not an error code"),
    (two(c=State(run=Run("x", lease="5s"))), "a lease that ends before the next heartbeat"),
    (two(c=State(run=Run("x"), timeout="1s")), "put them into the Run"),
    (two(c=State(ask=Ask("m", deadline="1h", remind="2h"))), "remind only after its deadline"),
    (two(c=State(where="x")), "which is for outermost states of charts with computed="),
    (states_and(lambda a, _b: {"go": a.to()}), "go has no target"),
    (states_and(lambda a, _b: {"go": a.to(State())}), "is not an attribute of Made"),
    (
        states_and(lambda a, b: {"go": a.to(b, when=WRONG)}),
        "not a guard: 7; write a function of the view, or an expression",
    ),
    (
        states_and(lambda a, b: {"go": a.to(b, do=WRONG)}),
        "not an action: 7; write a function of the view, or put(...), spawn",
    ),
    (states_and(lambda a, b: {"go": a.to(b, when="1 +")}), "is not an expression"),
    (
        states_and(lambda a, b: {"go": a.to(b, by=WRONG)}),
        'neither a name nor a list of names: 7; write "name" or ("one", "another")',
    ),
    (states_and(lambda a, b: {"go": a.to(b, takes=open)}), "does not describe JSON data"),
    (states_and(lambda a, b: {"go": a.to(b, event="a b")}), "is not a valid name for an event"),
    (states_and(lambda a, b: {"go": a.to(b, event="timer")}), "the event timer is reserved for the engine"),
    (states_and(lambda a, b: {"go": a.on("done.work.a").to(b)}), "which never comes"),
    (
        states_and(lambda a, b: {"go": a.on("ask.claim").to(b)}),
        "names that begin with ask. are reserved for the engine",
    ),
    (states_and(lambda a, b: {"go": a.on_deadline.to(b)}), "a has no ask with a deadline"),
    (states_and(lambda a, b: {"go": a.on_answer.to(b)}), "a has no ask"),
    (states_and(lambda a, b: {"go": a.on_error.to(b)}), "its state has no run="),
    (states_and(lambda a, b: {"go": a.always.to(b, event="x")}), "has an event and a trigger"),
    (states_and(lambda a, b: {"go": a.to(b, but=(b,))}), "which only any_live takes"),
    (states_and(lambda a, b: {"go": a.computes(b)}), "which is for charts with computed="),
    (states_and(lambda a, b: {"go": a.to(a, b)}), "which cannot be active together"),
    (states_and(lambda a, b: {"go": a.after("soon").to(b)}), "not a duration: 'soon'"),
    (states_and(lambda a, b: {"go": (a.to(b), 1)[1]}), "has no name, or its name was assigned again"),
    (
        states_and(lambda a, b: {"go": a.to(b, **MISTYPED)}),
        "has no option quorom= (did you mean quorum?)",
    ),
    (states_and(lambda a, b: {"go": a.to(b, when=blind)}), "blind must take one argument, the view"),
    (two(c=State(run=WRONG)), "run= must be the name of a handler or a Run(...), not 7"),
    (two(c=State(run="x", retry=WRONG)), "retry= must be a Retry(...) or a list of them, not 7"),
    (two(c=State(ask=WRONG)), "ask= must be an Ask(...), not 7"),
    (two(c=State(ask=Ask("m", deadline="5d", escalate=WRONG))), "escalate= maps roles to durations"),
    (states_and(lambda a, b: {"go": a.to(b, do=put(at=NOW))}), "put() takes JSON values"),
    (states_and(lambda a, b: {"go": a.every("0s").to(b)}), "too short or too long"),
    (states_and(lambda a, b: {"go": a.on().to(b)}), "go waits for no event: name one, or write .always"),
    (states_and(lambda _a, b: {"go": any_live.on().to(b)}), "go waits for no event"),
    (states_and(lambda a, b: {"go": (a | b).on().to(b)}), "go waits for no event"),
    (states_and(lambda a, _b: {"c": (c := State(run="x")), "go": c.on_error().to(a)}), "waits for no event"),
    (states_and(lambda a, b: {"c": (c := State(b)), "go": c.on_error.to(a)}), "nothing runs in c"),
    (states_and(lambda a, b: {"c": (c := State(b)), "go": c.on_error("X").to(a)}), "nothing runs in c"),
    (states_and(lambda a, b: {"go": a.on(WRONG).to(b)}), "neither a name nor a list of names: (7,)"),
    (states_and(lambda a, b: {"go": a.on_error(WRONG).to(b)}), "neither a name nor a list of names: (7,)"),
    (states_and(lambda a, b: {"go": a.after("1m").to(b, event="x")}), "has an event and a trigger"),
    (states_and(lambda _a, b: {"go": any_live.to(b, but=WRONG)}), "not a state: 7"),
    (
        states_and(lambda a, b: {"go": a.to(b, emit=WRONG)}),
        "not an action: 7; write a function of the view, or put(...)",
    ),
    (states_and(lambda a, b: {"go": a.to(b, meaning=WRONG)}), "go: meaning must be of type `str`, not `int`"),
    (states_and(lambda a, b: {"go": a.to(b, quorum=TEXT)}), "go: quorum must be of type `int`, not `str`"),
    (states_and(lambda a, b: {"go": a.to(b, do=spawn("X", v=NOW))}), "spawn() takes JSON values"),
    (two(c=State(TEXT)), "a child of c is not a state: 'x'"),
    (two(c=State(where=WRONG)), "where must be of type"),
    (two(c=State(progress=TEXT)), "progress must be of type"),
    (two(c=State(timeout=0)), "c has timeout= but no run="),
    (two(c=State(run=Run(WRONG))), "run.handler must be of type"),
    (two(c=State(run="x", retry=Retry(factor=TEXT))), "run.retry[0].factor must be of type"),
    (two(c=State(run="x", retry=Retry(jitter=TEXT))), "run.retry[0].jitter must be of type"),
    (two(c=State(ask=Ask("m", late=WRONG))), 'late= must be "refuse" or "record", not 7'),
    (two(h=(h := History(otherwise=TEXT)), c=(c := State()), d=State(c, h)), "not a state: 'x'"),
    (two(c=State(entry=assign(x="1 +"))), "'1 +' is not an expression"),
    (two(c=State(exit=assign(**{"a b": "1"}))), "'a b' cannot be assigned to"),
    (states_and(lambda a, b: {"go": a.to(b, do=log("x", "1 +"))}), "'1 +' is not an expression"),
    (states_and(lambda a, b: {"go": a.to(b, do=count("x", "1 +"))}), "'1 +' is not an expression"),
    (states_and(lambda a, b: {"go": a.to(b, do=tell("an (expr", "x"))}), "'an (expr' is not an expression"),
    (states_and(lambda a, b: {"go": a.to(b, do=DEEP)}), "'1 +' is not an expression"),
    (states_and(lambda a, b: {"go": a.to(b, when=later)}), "later must be a plain function"),
    (states_and(lambda a, b: {"go": a.to(b, do=later)}), "later must be a plain function"),
    (states_and(lambda a, b: {"go": a.to(b, when=bit_by_bit)}), "bit_by_bit must be a plain function"),
]


@pytest.mark.parametrize(("attributes", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_each_mistake_has_its_message(attributes: dict[str, object], message: str) -> None:
    """A mistake is named when the class is created."""
    assert message in "\n".join(text for _, text in definition_problems(body(**attributes)))


def misspelt(kind: Callable[..., Any], *given: object, **words: object) -> Any:
    """Something written with words that a type checker would not let through."""
    return kind(*given, **words)


MISSPELT: list[tuple[dict[str, object], str]] = [
    ({"c": misspelt(State, runn="pay")}, "c has no option runn= (did you mean run?)"),
    ({"c": misspelt(Final, meanin="x")}, "c has no option meanin= (did you mean meaning?)"),
    (
        {"d": (d := State()), "c": misspelt(Parallel, d, inital=True)},
        "c has no option inital= (did you mean initial?)",
    ),
    (
        {"d": (d := State()), "h": (h := misspelt(History, deeep=True)), "c": State(d, h)},
        "h has no option deeep= (did you mean deep?)",
    ),
    (
        {"c": State(ask=misspelt(Ask, "manager", deadlin="2d"))},
        "Ask(...) has no option deadlin= (did you mean deadline?)",
    ),
    ({"c": State(run=misspelt(Run, "x", zzz=1))}, "Run(...) has no option zzz="),
    (
        {"c": State(run=Run("x", retry=misspelt(Retry, 2, facto=1)))},
        "Retry(...) has no option facto= (did you mean factor?)",
    ),
    (
        {"c": State(run=Run("x", rate=misspelt(AtMost, 2, of="k", pr="1m")))},
        "AtMost(...) has no option pr= (did you mean per?)",
    ),
]


@pytest.mark.parametrize(("attributes", "message"), MISSPELT, ids=[message for _, message in MISSPELT])
def test_a_word_that_says_nothing_is_a_mistake(attributes: dict[str, object], message: str) -> None:
    """A keyword that no part of the language knows is named with its line, and the one that was meant."""
    everything: dict[str, object] = {"a": State(initial=True), **attributes}
    found = [problem for problem in definition_problems(body(**everything)) if "has no option" in problem[1]]
    assert [text for _, text in found] == [message]


def test_unknown_words_have_their_lines() -> None:
    """Of a class setting, a state and a row each is told where it stands, all at once."""

    def define() -> object:
        class Wrong(Statechart, versoin=2):  # type: ignore[arg-type]  # the mistake
            a = State(
                initial=True,
                runn="pay",  # type: ignore[arg-type]  # the mistake
            )
            b = Final()
            go = a.to(b, wen="x")  # type: ignore[call-arg]  # the mistake

        return Wrong

    assert definition_problems(define) == [
        (2, "Wrong has no option versoin= (did you mean version?)"),
        (2, "a has no option runn= (did you mean run?)"),
        (7, "go has no option wen= (did you mean when?)"),
    ]


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


def test_a_row_of_any_live_without_a_name_is_missed() -> None:
    """A row that starts in any state and is assigned to nothing is a mistake, like any other."""

    def define() -> object:
        class Wrong(Statechart):
            a, b = State(initial=True), Final()
            any_live.to(b)
            any_live.on("stop").to(b)

        return Wrong

    message = "a transition from any_live has no name, or its name was assigned again"
    assert definition_problems(define) == [(3, message), (4, message)]


def test_a_mistake_in_one_chart_is_none_of_its_sibling() -> None:
    """A row without a name in a subclass is told there, and not in other subclasses of the same chart."""

    class Base(Statechart):
        draft, sent = State(initial=True), Final()
        submit = draft.to(sent)

    def define() -> object:
        class Wrong(Base):
            Base.draft.to(Base.sent)

        return Wrong

    class Right(Base):
        pass

    problems = definition_problems(define)
    assert problems == [(2, "a transition from draft has no name, or its name was assigned again")]
    assert type("Later", (Base,), {}).chart.model.transitions == Right.chart.model.transitions  # type: ignore[attr-defined]


def test_two_timers_of_a_document_need_two_events() -> None:
    """A document whose timers share an event is refused: each would fire the rows of both."""

    class Timed(Statechart):
        a, b = State(initial=True), Final()
        first = a.after("1m").to(b)
        second = a.after("5m").to(b)

    whole = Timed.chart.model
    rows = tuple(replace(row, events=("after.a.x",)) for row in whole.transitions)
    problems = problems_of(replace(whole, transitions=rows), {})
    assert [problem.message for problem in problems] == ["two timers of a send after.a.x"]
