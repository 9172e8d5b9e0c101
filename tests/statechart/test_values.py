"""Values that come and go: payloads, contexts, times, progress, and what explain says about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headway import (
    Ask,
    Event,
    Final,
    Parallel,
    Retry,
    State,
    Statechart,
    Step,
    View,
    explain,
    person,
    start,
    step,
)
from headway.actions import assign, count, live, spawn, topic
from headway.codec import decode, encode
from headway.errors import InputError
from headway.statechart.snapshot import Snapshot, work_failed, work_progress

pytestmark = pytest.mark.mission("ENG-1", "ENG-9", "ENG-11")
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Amount(TypedDict):
    """A payload as a typed dictionary."""

    amount: int


@dataclass
class Name:
    """A payload as a dataclass."""

    name: str = "nobody"


class Aliased(BaseModel):
    """A context whose field has another name outside."""

    amount: int = Field(default=0, alias="Amount")


def keep_kind(view: View) -> Mapping[str, Any]:
    """Notes of what type the payload is."""
    return {"kinds": [*view.context.get("kinds", []), type(view.payload).__name__]}


def keep_odd(_view: View) -> Mapping[str, Any]:
    """Values that JSON spells differently."""
    return {"pair": (1, 2), "moment": NOW, "keys": {1: "one"}}


def keep_infinite(_view: View) -> Mapping[str, Any]:
    """A number that JSON cannot spell."""
    return {"deep": [float("inf")]}


class Payloads(Statechart):
    """Takes payloads of several types."""

    first = State(initial=True)
    last = Final()
    count = first.stay(takes=Amount, do=keep_kind)
    either = first.stay(takes=Amount, by="clerk", do=keep_kind) | first.stay(event="either", do=keep_kind)
    odd = first.stay(do=keep_odd)
    infinite = first.stay(do=keep_infinite)
    end = first.to(last)


def after(chart: type[Statechart], *events: Event) -> Snapshot:
    """A life after some events that go through."""
    snapshot = start(chart, now=NOW).unwrap().snapshot
    for event in events:
        snapshot = step(chart, snapshot, event, NOW).unwrap().snapshot
    return snapshot


def test_a_typed_dictionary_is_a_payload_type() -> None:
    """Plain data that fits a TypedDict is taken, other data is not."""
    assert after(Payloads, Payloads.count({"amount": 3})).context["kinds"] == ["dict"]
    answer = step(Payloads, after(Payloads), Payloads.count({"amount": "3"}), NOW)
    assert answer.code == "payload"  # type: ignore[union-attr]  # it is refused


def test_each_row_sees_the_payload_of_its_own_type() -> None:
    """A row gets what its own type makes of the data, whatever another row made of it."""

    class Regions(Statechart):
        a, b = State(), State()
        left, right = State(a), State(b)
        both = Parallel(left, right, initial=True)
        go = a.stay(takes=Name, do=keep_kind) | b.stay(takes=Amount, do=keep_kind)

    snapshot = after(Regions, Event("go", {"name": "x", "amount": 1}))
    assert snapshot.context["kinds"] == ["Name", "dict"]
    assert after(Payloads, Event("either", {"amount": 1})).context["kinds"] == ["dict"]


def test_a_context_is_the_same_before_and_after_a_store() -> None:
    """What actions write is kept as JSON brings it back; what JSON cannot hold is refused."""
    snapshot = after(Payloads, Payloads.odd())
    assert snapshot.context == {"pair": [1, 2], "moment": "2026-03-02T09:00:00Z", "keys": {"1": "one"}}
    assert decode(Snapshot, encode(snapshot)) == snapshot
    answer = step(Payloads, snapshot, Payloads.infinite(), NOW)
    assert answer.code == "fault"  # type: ignore[union-attr]  # it is refused


def test_a_context_with_aliases_keeps_its_values() -> None:
    """A field that has another name outside is written and read under that name."""

    class Aliases(Statechart, context=Aliased):
        first = State(initial=True)
        note = first.stay(sets="noted")

    begun = start(Aliases, now=NOW, context={"Amount": 5}).unwrap().snapshot
    assert begun.context == {"Amount": 5}


def tell_all(_view: View) -> list[object]:
    """Answers with words of every kind."""
    return [count("n"), assign(kept="counters.n"), topic("told", "kept"), spawn("Child", part=1)]


def tell_one(_view: View) -> object:
    """Answers with a single word."""
    return live("seen", "kept")


def test_a_function_answers_with_the_same_words_that_a_row_uses() -> None:
    """One action or several, messages and children included, are run as if the row had named them."""

    class Telling(Statechart):
        first = State(initial=True)
        all_ = first.stay(do=(tell_all, tell_one))

    answer = step(Telling, after(Telling), Telling.all_(), NOW)
    assert isinstance(answer, Step)
    assert [type(effect).__name__ for effect in answer.effects] == [
        "PublishMessage",
        "SpawnChild",
        "PublishMessage",
    ]
    assert answer.snapshot.context == {"kept": 1}


@pytest.mark.parametrize("name", ["x" + ".a" * 20_000, "a\nb", "g.\ud800", ""])
def test_a_name_that_is_none_is_an_input_error(name: str) -> None:
    """Names of events are short and printable, so that no name costs more than it says."""
    with pytest.raises(InputError):
        step(Payloads, after(Payloads), Event(name), NOW)


def test_hours_are_hours_when_the_clocks_change() -> None:
    """A timer set across the end of summer time is due after the time it says, not by the wall clock."""

    class Waiting(Statechart):
        waiting, over = State(initial=True), Final()
        late = waiting.after("45m").to(over)

    night = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    (timer,) = start(Waiting, now=night).unwrap().snapshot.timers.values()
    assert timer.due - night.astimezone(UTC) == timedelta(minutes=45)


def test_endless_retries_stay_within_the_calendar() -> None:
    """However often work has failed, the next attempt has a date."""

    class Stubborn(Statechart):
        running, over = State(initial=True, run="x", retry=Retry(None, factor=10)), Final()
        done = running.on_done.to(over)
        broken = running.on_error.to(over)

    snapshot = after(Stubborn)
    for attempt in range(1, 60):
        failed = work_failed(snapshot.work["running"].id, attempt, "busy")
        snapshot = step(Stubborn, snapshot, failed, NOW).unwrap().snapshot
    assert snapshot.work["running"].attempt == 60


class Phases(Statechart):
    """Work inside a phase that has a range of progress, and a limit of errors."""

    page, upload = State(run="page"), State(run="upload")
    filling = State(page, upload, initial=True, progress=(25, 65), says="{name} of {total}")
    given_up, over = Final(), Final()
    turned = page.on_done.to(upload)
    done = upload.on_done.to(over)
    enough = filling.always.to(given_up, when="counters.errors > 2")
    broken = filling.on_error.to(given_up)


def test_work_moves_in_the_range_of_the_phase_around_it() -> None:
    """Progress never falls back below where the phase began, and names the phase; texts are filled once."""
    snapshot = after(Phases)
    answer = step(
        Phases, snapshot, work_progress(snapshot.work["page"].id, 1, 0.5, name="{total}", total=9), NOW
    )
    assert isinstance(answer, Step)
    assert answer.effects[0].data == {  # type: ignore[union-attr]  # a message
        "instance": "it",
        "step": "filling",
        "pct": 45.0,
        "message": "{total} of 9",
        "attempt": 1,
        "fraction": 0.5,
        "eta_seconds": None,
        "counters": {},
    }


def test_counters_that_move_set_in_motion_what_depends_on_them() -> None:
    """A limit on a counter that work reports is reached when it is reached, not at the next event."""
    snapshot = after(Phases)
    report = work_progress(snapshot.work["page"].id, 1, 0.1, counters={"errors": 3})
    assert step(Phases, snapshot, report, NOW).unwrap().snapshot.states == ("given_up",)


def is_ann(view: View) -> bool:
    """Looks at who asks."""
    return view.actor.id == "ann"


def large(view: View) -> bool:
    """Looks at what comes."""
    return bool(view.payload["amount"] > 5)


class Choosy(Statechart):
    """Every way out depends on the event itself."""

    first, over = State(initial=True), Final()
    mine = first.to(over, when=is_ann)
    much = first.to(over, when=large)


def test_an_instance_whose_guards_wait_for_the_event_is_not_stuck() -> None:
    """A guard that looks at the sender or the data can still say yes: explain does not speak for it."""
    why = explain(Choosy, after(Choosy), NOW)
    assert not why.stuck
    assert [(way.open, way.depends_on_event) for way in why.ways] == [(True, True), (True, True)]


class Form(Statechart):
    """Answered by its form."""

    asked, over = State(initial=True, ask=Ask("manager", form=Name, deadline="1d")), Final()
    verdict = asked.on_answer.to(over)
    expire = asked.on_deadline.to(over)


def test_a_form_is_answered_by_whom_it_asks() -> None:
    """Explain and refusals tell that the asked may answer; the transition makes that very event."""
    snapshot = after(Form)
    (way,) = explain(Form, snapshot, NOW).ways
    assert (way.events, way.by) == (("answer",), ("manager",))
    event = Form.verdict(by=person("b", "manager"), ref=snapshot.asks["asked"].id)
    assert step(Form, snapshot, event, NOW).unwrap().snapshot.ended
