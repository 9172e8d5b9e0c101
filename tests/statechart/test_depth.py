"""How deep JSON may be nested: the same number for all that a step takes and for all that it makes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from headway import Event, Refusal, State, Statechart, Step, View, start, step
from headway.codec import DEEPEST, as_json
from headway.errors import InputError
from headway.statechart.chart import Charted

pytestmark = pytest.mark.mission("ENG-2")
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
TOO_DEEP = f"more than {DEEPEST} levels"


def nested(levels: int) -> Any:
    """A value in so many lists and objects."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def wrap(view: View) -> dict[str, Any]:
    """The context's value in one more list."""
    return {"value": [view.context["value"]]}


def keep(view: View) -> dict[str, Any]:
    """The payload, as it came."""
    return {"value": view.payload}


def keep_wrapped(view: View) -> dict[str, Any]:
    """The payload in more lists."""
    return {"value": [[view.payload]]}


class Growing(Statechart):
    """Each event nests the context one level deeper."""

    on = State(initial=True)
    grow = on.to(on, do=wrap)
    put = on.to(on, do=keep)
    put_wrapped = on.to(on, do=keep_wrapped)


class Box(BaseModel):
    """A context with a type."""

    value: Any = None


def wrap_typed(view: View) -> dict[str, Any]:
    """The context's value in one more list."""
    return {"value": [view.context.value]}


class Typed(Statechart, context=Box):
    """The same with a typed context."""

    on = State(initial=True)
    grow = on.to(on, do=wrap_typed)


SCXML = """<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" datamodel="headway">
  <datamodel><data id="value" expr="[]"/></datamodel>
  <state id="on">
    <transition event="grow"><assign location="value" expr="[value]"/></transition>
    <transition event="pass"><send event="passed" delay="1h"><param name="value" expr="_event.data"/></send>
    </transition>
    <transition event="error.execution" target="failed"/>
  </state>
  <final id="failed"/>
</scxml>"""


def grown(chart: Charted) -> tuple[Step, Refusal]:
    """The last step that was taken, and the refusal of the next."""
    last = start(chart, context={"value": []}, now=NOW).unwrap()
    for _ in range(DEEPEST):
        answer = step(chart, last.snapshot, Event("grow"), NOW)
        if isinstance(answer, Refusal):
            return last, answer
        last = answer
    raise AssertionError("it grew without end")


@pytest.mark.parametrize("chart", [Growing, Typed, Statechart.from_scxml(SCXML)])
def test_a_context_that_grows_deeper_is_refused_at_the_limit(chart: Charted) -> None:
    """A chart that nests its context deeper with each event is refused with the reason, unchanged."""
    last, refusal = grown(chart)
    assert refusal.code == "context"
    assert TOO_DEEP in refusal.message
    assert last.snapshot.context["value"] == nested_lists(DEEPEST - 1)


def nested_lists(levels: int) -> Any:
    """An empty list in lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_a_message_that_is_too_deep_is_not_sent() -> None:
    """An event that a chart sends later carries no more levels than one that comes in."""
    chart = Statechart.from_scxml(SCXML)
    begun = start(chart, now=NOW).unwrap().snapshot
    taken = step(chart, begun, Event("pass", nested(DEEPEST - 1)), NOW).unwrap().snapshot
    assert (taken.states, len(taken.timers)) == (("on",), 1)
    failed = step(chart, begun, Event("pass", nested(DEEPEST)), NOW).unwrap().snapshot
    assert (failed.states, failed.timers) == (("failed",), {})


def test_what_comes_in_has_the_limit() -> None:
    """A context and a payload are taken at the limit and refused one level beyond it."""
    begun = start(Growing, context=nested(DEEPEST - 1), now=NOW)
    assert isinstance(begun, Refusal) or begun.snapshot.context
    with pytest.raises(InputError, match=TOO_DEEP):
        start(Growing, context={"in": nested(DEEPEST)}, now=NOW)
    with pytest.raises(InputError, match=TOO_DEEP):
        start(Typed, context={"value": nested(DEEPEST)}, now=NOW)
    snapshot = start(Growing, context={"value": 1}, now=NOW).unwrap().snapshot
    with pytest.raises(InputError, match=TOO_DEEP):
        step(Growing, snapshot, Event("put", nested(DEEPEST + 1)), NOW)
    assert isinstance(step(Growing, snapshot, Event("put", nested(DEEPEST - 1)), NOW), Step)
    refused = step(Growing, snapshot, Event("put", nested(DEEPEST)), NOW)
    assert isinstance(refused, Refusal)
    assert TOO_DEEP in refused.message
    wrapped = step(Growing, snapshot, Event("put_wrapped", nested(DEEPEST)), NOW)
    assert isinstance(wrapped, Refusal)
    assert wrapped.code == "context"


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1, 5_000])
def test_as_json_has_the_limit(levels: int) -> None:
    """What is stored for work, checkpoints and records has the limit too."""
    if levels == DEEPEST:
        assert as_json(nested(levels)) == nested(levels)
    else:
        with pytest.raises(InputError, match=r"nested|recursion"):
            as_json(nested(levels))
