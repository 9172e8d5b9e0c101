"""Whatever comes in: a step, a refusal or an error of Headway's own, and the snapshot stays as it was."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from headway import (
    Actor,
    Ask,
    Event,
    Final,
    History,
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
    person,
    start,
    step,
)
from headway.actions import assign, count, put, spawn
from headway.codec import decode, encode, replace
from headway.errors import HeadwayError, InputError, InternalError
from headway.statechart import model
from headway.statechart.snapshot import OpenAsk, OpenWork, Timer

pytestmark = pytest.mark.mission("ENG-2")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ann = person("ann", "worker", "boss")


class Form(BaseModel):
    """What is asked."""

    amount: int


def enough(view: View) -> bool:
    """There is enough."""
    return bool(view.facts["limit"] > view.payload.amount)


def doubled(view: View) -> dict[str, object]:
    """Trusts what it gets."""
    return {"twice": view.payload["n"] * 2, "seen": view.event.data}


class Everything(Statechart, facts=("limit",), max_children=3):
    """A chart with everything that input can reach."""

    a1, a2 = State(), State()
    a = State(a1, a2)
    b1 = State(
        run=Run("work", retry=(Retry(2, on="busy"), Retry(1)), timeout="1m"), progress=(0, 50), says="{n}"
    )
    b2 = Final()
    b = State(b1, b2)
    both = Parallel(a, b)
    past = History(deep=True)
    main = State(both, past, initial=True)
    asking = State(ask=Ask("boss", form=Form, deadline="1d", remind="1h", escalate={"chief": "2h"}))
    over = Final()

    swap = a1.to(a2) | a2.to(a1)
    write = a.stay(do=(doubled, count("writes"), assign(kept="_event.data.n")))
    pay = a.to(asking, takes=Form, when=enough, by=("worker", "boss"))
    grow = a.stay(do=spawn("Other", x=1))
    heard = a.on("child.changed").stay(do=assign(last="_event.data.to"))
    later = a.stay(do=model.Send(event="swap", delay=1_000))
    late = a.after("1h").to(asking)
    done = b1.on_done.to(b2)
    broken = b1.on_error.to(b2, do=put(broken=True))
    back = asking.to(past, by="boss", quorum=2)
    sign = asking.to(over, by="worker", countersign="boss", distinct_from="pay", no_agent=True)
    told = asking.on_answer.to(over)
    expire = asking.on_deadline.to(over)
    cancel = any_live.to(over, by="worker")


class Derived(Statechart, computed="first", context=Form):
    """A status by rules, over a context with a type."""

    high = State(where="amount > 10")
    low = State(where="true", initial=True)

    set_amount = any_live.computes(high, low, do=assign(amount="_event.data"))


def begun(chart: type[Statechart], **given_: Any) -> Snapshot:
    """A snapshot at the beginning."""
    answer = start(chart, now=NOW, **given_)
    assert isinstance(answer, Step), answer
    return answer.snapshot


def stepped(snapshot: Snapshot, *events: Event) -> Snapshot:
    """A snapshot some events later."""
    for event in events:
        answer = step(Everything, snapshot, event, NOW, facts={"limit": 9})
        assert isinstance(answer, Step), answer
        snapshot = answer.snapshot
    return snapshot


FIRST = begun(Everything, context={"n": 1, "inner": {"list": [1, 2]}})
ASKED = stepped(FIRST, Event("later"), Event("grow"), Event("pay", {"amount": 3}, ann))
VOTED = stepped(ASKED, Event("back", by=ann))
AGAIN = stepped(VOTED, Event("back", by=person("bob", "boss")))
ENDED = stepped(ASKED, Event("cancel", by=ann))
PLACES = [FIRST, ASKED, VOTED, AGAIN, ENDED]


class Awkward:
    """Fails when it is compared, or asked whether it is."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("like nothing else")

    def __bool__(self) -> bool:
        raise ValueError("neither")

    __hash__ = None  # type: ignore[assignment]  # the point of it


class Unspeakable(Awkward):
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no words for it")


def nested(depth: int) -> Any:
    """Lists in lists, deeper than any stack."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
weird = st.sampled_from(
    [
        object(),
        Awkward(),
        float("nan"),
        float("inf"),
        10**400,
        b"bytes",
        {1, 2},
        {1: 2},
        {("a",): None},
        print,
        Form,
        Form(amount=1),
        NOW,
        timedelta.max,
        "\ud800",
        "\x00",
        [Awkward()],
        Event("go"),
        FIRST,
    ]
)
anything = json | weird
pointed = st.sampled_from(
    [
        {"code": "busy"},
        {"cause": "lost"},
        {"cause": ["lost"]},
        {"lasts": 3_600_000},
        {"lasts": "2026-01-01"},
        {"to": "eve"},
        {"code": "x.y"},
        {"code": ""},
        {"amount": 3},
        {"amount": "3"},
        {"n": 2},
        {"n": "ab"},
        {"n": None},
        {"fraction": 0.5},
        {"fraction": float("nan")},
        {"fraction": 0.5, "counters": {"writes": 2}},
        {"fraction": 1, "counters": {"writes": None}},
        {"fraction": 1, "counters": {1: 1}},
        {"from": None, "to": "done"},
        {"from": "new", "to": ["x"]},
        {"from": None, "to": None, "errors": -1},
        {"from": None, "to": "x", "errors": 10**30},
        3,
    ]
)
known = sorted(
    Everything.chart.events
    | {"timer", "work.done", "work.failed", "work.progress", "answer"}
    | {"ask.claim", "ask.release", "ask.delegate"}
)
references = sorted({r for s in PLACES for r in (*s.timers, *(w.id for w in s.work.values()))})
references += sorted({ask.id for snapshot in PLACES for ask in snapshot.asks.values()})

actors = st.sampled_from(
    [ann, person("bob", "boss"), person("eve"), Actor("bot", "agent", frozenset({"worker", "boss"}))]
) | st.builds(Actor, id=anything, kind=anything, roles=anything)
events = st.builds(
    Event,
    name=st.sampled_from(known) | st.text(max_size=12) | anything,
    data=pointed | anything,
    by=actors | anything,
    ref=st.none() | st.sampled_from(references) | anything,
    attempt=st.integers(-1, 3) | anything,
    reason=st.none() | anything,
)
sensible_events = st.builds(
    Event,
    name=st.sampled_from(known),
    data=pointed,
    by=actors,
    ref=st.none() | st.sampled_from(references),
    attempt=st.integers(0, 2),
)
times = st.sampled_from(
    [
        NOW,
        NOW + timedelta(days=1),
        NOW.replace(tzinfo=timezone(timedelta(hours=5))),
        datetime(2026, 1, 1),  # noqa: DTZ001 - a time that does not say where
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        "2026-01-01",
        None,
        0,
    ]
)
facts = st.sampled_from([{"limit": 9}, {}, {"limit": "x"}, {"limit": Awkward()}, None, 3, [("limit", 3)]])


def judged(call: Callable[[], object]) -> object:
    """What a call answers: a Step or a Refusal; or the error that says what is wrong with the input."""
    try:
        answer = call()
    except InternalError:
        raise
    except HeadwayError as error:
        answer = error
    assert isinstance(answer, (Step, Refusal, HeadwayError))
    assert isinstance(answer, Step) or str(answer)
    return answer


def image(snapshot: object) -> object:
    """All that a snapshot holds, in a form that a later look can be compared with."""
    with contextlib.suppress(InputError):
        return encode(snapshot)
    return repr(snapshot)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PLACES), events | sensible_events, times | st.just(NOW), facts)
def test_any_event_gets_an_answer_and_changes_nothing_given(
    snapshot: Snapshot, event: Event, now: Any, given_facts: Any
) -> None:
    """A step that can be stored, a refusal with a reason, or an InputError; nothing given is changed."""
    before = image(snapshot)
    answer = judged(lambda: step(Everything, snapshot, event, now, facts=given_facts))
    assert image(snapshot) == before
    if isinstance(answer, Refusal):
        assert answer.message
        assert answer.states == snapshot.states
    if isinstance(answer, Step):
        assert decode(Snapshot, encode(answer.snapshot)).states == answer.snapshot.states


@settings(max_examples=150, deadline=None)
@given(anything, anything, anything, anything)
def test_arguments_that_are_none_of_it_are_named(chart: Any, snapshot: Any, event: Any, now: Any) -> None:
    """What is not a chart, a snapshot, an event or a time is an InputError."""
    for arguments in (
        (chart, FIRST, Event("swap"), NOW),
        (Everything, snapshot, Event("swap"), NOW),
        (Everything, FIRST, event, NOW),
        (Everything, FIRST, Event("swap"), now),
    ):
        judged(partial(step, *arguments))
    judged(lambda: start(chart, now=now))
    judged(lambda: start(Everything, now=NOW, context=snapshot))
    judged(lambda: start(Derived, now=NOW, context=snapshot))
    judged(lambda: start(Everything, event, now=NOW, by=chart, seed=now, parent=event, depth=snapshot))


@pytest.mark.parametrize(
    "value", [nested(20_000), Unspeakable(), [Unspeakable()]], ids=["deep", "mute", "inside"]
)
@pytest.mark.parametrize("field", ["name", "data", "by", "ref", "attempt", "reason"])
def test_values_that_cannot_be_shown_or_walked_through_get_an_answer(field: str, value: Any) -> None:
    """Deeper than the stack, or failing at every look: still a step, a refusal or a clear error."""
    for name in ("write", "pay", "work.progress", "work.failed", "answer", "fly"):
        fields = {
            "name": name,
            "data": {"fraction": 0.5, "n": value, "code": value},
            "by": ann,
            "ref": references[0],
        }
        event = Event(**{**fields, field: value})
        for snapshot in PLACES:
            judged(partial(step, Everything, snapshot, event, NOW))
    for arguments in ((value, FIRST, Event("swap"), NOW), (Everything, value, Event("swap"), NOW)):
        judged(partial(step, *arguments))
    judged(lambda: start(Everything, now=NOW, context=value))
    judged(lambda: start(Everything, now=NOW, context={"n": value}))


FIELDS = {name: getattr(FIRST, name) for name in Snapshot.__struct_fields__}
states = st.lists(st.sampled_from([*Everything.chart.nodes, "*", "nowhere", ""]), max_size=4).map(tuple)
ids = st.sampled_from([*references, "x"])
policies = st.integers(0, 3) | st.text(max_size=2)
places = st.sampled_from([*Everything.chart.nodes, "nowhere"])
plausible: dict[str, st.SearchStrategy[Any]] = {
    "chart": st.sampled_from(["Everything", "Derived", ""]),
    "version": st.integers(0, 2),
    "states": states,
    "timers": st.dictionaries(
        ids,
        st.builds(
            Timer,
            due=times,
            event=st.sampled_from([*known, "remind.asking", "escalate.asking", "remind.a1", "escalate.x"]),
            state=st.none() | places,
            data=st.integers(-3, 3) | anything,
        ),
        max_size=3,
    ),
    "work": st.dictionaries(
        places,
        st.builds(
            OpenWork, id=ids, attempt=st.integers(0, 3), failures=st.dictionaries(policies, json, max_size=2)
        ),
        max_size=2,
    ),
    "asks": st.dictionaries(
        places,
        st.builds(
            OpenAsk,
            id=ids,
            roles=states,
            deadline=times,
            claimed_by=st.none() | ids,
            claimed_until=st.none() | times,
            delegated_to=st.none() | ids,
        ),
        max_size=2,
    ),
    "memory": st.dictionaries(places, states, max_size=2),
    "acted": st.dictionaries(st.sampled_from(known), states, max_size=2),
    "votes": st.dictionaries(st.sampled_from(["asking/back", "asking/sign", "x"]), json, max_size=2),
    "counters": st.dictionaries(st.sampled_from(["writes", "errors"]), json, max_size=2),
    "children": st.dictionaries(st.sampled_from(["new", "done"]), json, max_size=2),
    "ended": st.booleans(),
}


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A real snapshot with one to three fields that are not what they were."""
    base = draw(st.sampled_from(PLACES))
    changed = draw(st.lists(st.sampled_from([*FIELDS]), min_size=1, max_size=3, unique=True))
    plausibly = draw(st.booleans())
    values = {
        name: draw(plausible[name] if plausibly and name in plausible else anything) for name in changed
    }
    return replace(base, **values)


@settings(max_examples=600, deadline=None)
@given(snapshots(), sensible_events)
def test_any_snapshot_gets_an_answer_and_stays_as_it_was(snapshot: Snapshot, event: Event) -> None:
    """A snapshot that no step made is refused with an error that says so, or stepped; never a crash."""
    before = image(snapshot) if _can_be_shown(snapshot) else None
    judged(lambda: step(Everything, snapshot, event, NOW + timedelta(days=2), facts={"limit": 9}))
    if before is not None:
        assert image(snapshot) == before


def _can_be_shown(snapshot: Snapshot) -> bool:
    try:
        image(snapshot)
    except (ValueError, RecursionError):
        return False
    return True


@settings(max_examples=150, deadline=None)
@given(anything)
def test_any_value_for_a_typed_context_fits_or_is_refused(value: Any) -> None:
    """A computed chart with a typed context takes what fits its type, and refuses the rest."""
    snapshot = begun(Derived, context={"amount": 1})
    answer = judged(lambda: step(Derived, snapshot, Event("set_amount", value), NOW))
    assert snapshot.context == {"amount": 1}
    if isinstance(answer, Step):
        assert type(answer.snapshot.context["amount"]) is int
