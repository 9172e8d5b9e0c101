"""Guards and actions that misbehave: refused, with nothing changed."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Event, No, Refusal, Step, View, start, step
from headway.errors import InputError, UnboundError
from headway.statechart import model
from headway.statechart.chart import Chart

pytestmark = pytest.mark.mission("ENG-2")

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Awkward:
    """Fails when it is asked whether it is."""

    def __bool__(self) -> bool:
        raise ValueError("neither")


def raises(_view: View) -> bool:
    """Always fails."""
    raise RuntimeError("out of order")


def recurses(view: View) -> bool:
    """Never comes back."""
    return recurses(view)


def writes_context(view: View) -> Any:
    """Forbidden: writes what it may only read."""
    view.context["n"] = 99
    return True


def writes_inside(view: View) -> Any:
    """Forbidden too: writes into a value of the context."""
    view.context["inner"]["list"].append(99)
    view.context["inner"]["more"] = 99
    return {}


def writes_facts(view: View) -> Any:
    """Forbidden: writes the facts."""
    view.facts["limit"] = 0  # type: ignore[index]  # the point of it
    return True


def writes_view(view: View) -> Any:
    """Forbidden: writes the view itself."""
    view.context = {}  # type: ignore[misc]  # the point of it
    return True


def answers_awkward(_view: View) -> Any:
    """Answers with something that fails when it is looked at."""
    return Awkward()


def answers_no_with_a_number(_view: View) -> Any:
    """A reason that is no text."""
    return No(5)  # type: ignore[arg-type]  # the point of it


def answers_number(_view: View) -> Any:
    """No action answers with a number."""
    return 7


def answers_keys(_view: View) -> Any:
    """Keys that are no names."""
    return {1: 2}


def answers_list(_view: View) -> Any:
    """A list of things that are no actions."""
    return [Event("go")]


def answers_unstorable(_view: View) -> Any:
    """A value that no store can keep."""
    return {"n": object()}


GUARDS = [
    raises,
    recurses,
    writes_context,
    writes_facts,
    writes_view,
    answers_awkward,
    answers_no_with_a_number,
]
ACTIONS = [*GUARDS, answers_number, answers_keys, answers_list, answers_unstorable]


def hostile(function: Callable[[View], Any], *, guards: bool) -> Chart:
    """A chart with one function that misbehaves, as guard or as action."""
    row = model.Transition(
        name="go",
        source="one",
        events=("go",),
        targets=("two",),
        when=(model.Named(name="it"),) if guards else (),
        actions=(model.Put(values={"put": 1}), *(() if guards else (model.Call(name="it"),))),
    )
    whole = model.Model(
        name="Hostile", states=(model.State(id="one"), model.State(id="two")), transitions=(row,)
    )
    return Chart(whole, {"it": function})


CASES = [(function, True) for function in GUARDS] + [(function, False) for function in ACTIONS]


@pytest.mark.parametrize(("function", "guards"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_functions_that_misbehave_are_refused_with_nothing_changed(
    function: Callable[[View], Any],
    guards: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """A guard or action that fails, answers nonsense or writes what it may only read moves nothing."""
    chart = hostile(function, guards=guards)
    context, given_facts = {"n": 1, "inner": {"list": [1]}}, {"limit": 9}
    first = start(chart, now=NOW, context=context)
    assert isinstance(first, Step)
    before = copy.deepcopy(first.snapshot)
    answer = step(chart, first.snapshot, Event("go"), NOW, facts=given_facts)
    assert isinstance(answer, Refusal)
    assert answer.code == ("guard" if guards and function is answers_no_with_a_number else "fault")
    assert answer.message
    assert (first.snapshot, given_facts) == (before, {"limit": 9})


@pytest.mark.parametrize("guards", [True, False])
def test_what_a_function_writes_into_a_value_is_lost(guards: bool) -> None:  # noqa: FBT001 - a column
    """Values inside the context are copies for whoever looks: the snapshot keeps its own."""
    chart = hostile(writes_inside, guards=guards)
    first = start(chart, now=NOW, context={"n": 1, "inner": {"list": [1]}})
    assert isinstance(first, Step)
    step(chart, first.snapshot, Event("go"), NOW)
    assert first.snapshot.context == {"n": 1, "inner": {"list": [1]}}


@pytest.mark.parametrize(
    "value", [object(), {"deep": [object()]}, print], ids=["object", "inside", "function"]
)
def test_a_value_that_cannot_be_stored_does_not_enter_the_context(value: object) -> None:
    """What an event carries is written only when a store could keep it."""
    row = model.Transition(
        name="go",
        source="one",
        events=("go",),
        actions=(model.Assign(location="kept", expr="_event.data"),),
    )
    chart = Chart(model.Model(name="Keeping", states=(model.State(id="one"),), transitions=(row,)))
    first = start(chart, now=NOW)
    assert isinstance(first, Step)
    with pytest.raises(InputError, match="not JSON"):
        step(chart, first.snapshot, Event("go", value), NOW)


def test_a_chart_whose_functions_are_missing_says_which() -> None:
    """Not bound, a chart runs nothing and names what it lacks."""
    chart = Chart(hostile(raises, guards=True).model)
    with pytest.raises(UnboundError, match="it"):
        start(chart, now=NOW)
