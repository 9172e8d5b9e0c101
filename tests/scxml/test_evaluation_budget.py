"""What the expressions of one step evaluate is counted: charts from outside cannot take minutes."""

from datetime import UTC, datetime

import pytest

from headway import Event, Final, Refusal, State, Statechart, Step, start, step
from headway.statechart.chart import Chart
from headway.statechart.expressions import budget
from headway.statechart.expressions.expressions import PlainScope, parse
from headway.statechart.scxml.document import from_scxml

pytestmark = pytest.mark.mission("ENG-2")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = f"[{','.join('1' for _ in range(1_000))}]"
LONG = " + ".join(["n"] * 900)
GROWN = "l.concat(l, l, l, l, l, l, l, l, l)"


def scxml(body: str = "", inside: str = "", **data: str) -> Chart:
    """A chart that does something on `go`, and something by itself after it."""
    known = {"l": ITEMS, "n": "0", "x": "0", **data}
    model = "".join(f'<data id="{name}" expr="{value}"/>' for name, value in known.items())
    return from_scxml(
        '<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" datamodel="ecmascript" initial="a">'
        f"<datamodel>{model}</datamodel>"
        f'<state id="a"><transition event="go" target="b">{body}</transition></state>'
        f'<state id="b">{inside}</state></scxml>'
    )


def loop(body: str) -> str:
    """Do something for each item of the list."""
    return f'<foreach array="l" item="i">{body}</foreach>'


def assign(place: str, value: str) -> str:
    """Assign a value."""
    return f'<assign location="{place}" expr="{value}"/>'


GUARDS = "".join(f'<transition cond="{LONG} == -{number}" target="a"/>' for number in range(1, 20))
SLOW = {
    "long expressions in a loop": scxml(loop(assign("x", LONG))),
    "a loop in a loop": scxml(loop(f'<foreach array="l" item="j">{assign("x", "n + n + n")}</foreach>')),
    "large lists joined in a loop": scxml(assign("x", GROWN) + loop(assign("n", "x.concat(x, x, x)"))),
    "large lists compared in a loop": scxml(
        assign("x", GROWN) + assign("n", GROWN) + loop('<if cond="x == n"/>')
    ),
    "large lists searched in a loop": scxml(assign("x", GROWN) + loop('<if cond="2 in x"/>' * 10)),
    "large values written out in a loop": scxml(
        assign("x", GROWN) + loop(assign("n", "JSON.stringify(x).length"))
    ),
    "places inside large values": scxml(assign("x", GROWN) + loop(assign("x[0]", "i"))),
    "guards of a loop without events": scxml(
        inside=GUARDS + f'<transition cond="n &lt; 900" target="b">{assign("n", "n + 1")}</transition>'
    ),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small budget, which is exhausted soon."""
    monkeypatch.setattr(budget, "MOST_EVALUATED", 40_000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("chart", SLOW.values(), ids=SLOW)
def test_a_step_that_evaluates_too_much_is_refused(chart: Chart) -> None:
    """It is refused as a runaway, always at the same operation, and nothing is changed."""
    begun = start(chart, now=NOW)
    assert isinstance(begun, Step)
    before = begun.snapshot
    answer = step(chart, before, Event("go"), NOW)
    assert isinstance(answer, Refusal)
    assert (answer.code, "operations" in answer.message) == ("runaway", True)
    assert before == begun.snapshot


def test_a_start_is_bounded_too() -> None:
    """A life whose first step evaluates too much does not begin."""
    text = '<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" datamodel="ecmascript">'
    text += (
        f'<datamodel><data id="l" expr="{ITEMS}"/><data id="n" expr="0"/><data id="x" expr="0"/></datamodel>'
    )
    text += f'<state id="a"><onentry>{loop(assign("x", LONG))}</onentry></state></scxml>'
    answer = start(from_scxml(text), now=NOW)
    assert isinstance(answer, Refusal)
    assert answer.code == "runaway"


@pytest.mark.usefixtures("small")
def test_each_step_has_a_budget_of_its_own() -> None:
    """What one step has evaluated does not count for the next, nor for what is evaluated outside steps."""
    chart = scxml(loop(assign("x", "n + n + n")))
    before = start(chart, now=NOW).unwrap().snapshot
    for _ in range(10):
        assert isinstance(step(chart, before, Event("go"), NOW), Step)
    expression = parse(LONG)
    for _ in range(budget.MOST_EVALUATED // expression.nodes + 1):
        expression.evaluate(PlainScope({"n": 0}))


class Plain(Statechart):
    """Has no expressions."""

    here, there = State(initial=True), Final()
    go = here.to(there)


def test_a_chart_without_expressions_is_not_counted() -> None:
    """Only charts with expressions pay for the counting."""
    assert not Plain.chart.evaluates
    assert SLOW["a loop in a loop"].evaluates
