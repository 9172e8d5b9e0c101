"""A new version that changes nothing changes nothing: for random charts and for every lifecycle."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.cli.explorer.charts import example
from headway.cli.lifecycles import NamedChart, load_registered
from headway.codec import decode, encode, replace
from headway.statechart.chart import Chart
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Snapshot, timer_fired
from headway.statechart.step.step import Step, start, step
from headway.statechart.upgrade.assessment import outlook
from headway.statechart.upgrade.diff import differences
from headway.statechart.upgrade.instance import UpgradeRecord, restore_snapshot
from headway.testing.strategies import walks
from tests.statechart.random_charts import cases, chart_of_model, random_case

pytestmark = pytest.mark.mission("ENG-19")

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CHARTS = {each.name: each.chart for each in load_registered() if isinstance(each, NamedChart)}


def next_version(chart: Chart) -> Chart:
    """The same chart under the next version."""
    whole = replace(chart.model, version=chart.version + 1)
    return Chart(whole, chart.functions, chart.types)


def check(chart: Chart, snapshot: Snapshot, now: datetime) -> Snapshot:
    """Upgrade by identity: only the version and the seq change; taken back, nothing has."""
    new = next_version(chart)
    view = outlook(chart, new, snapshot, now, born=BEGIN)
    assert view.step is not None, view.problems
    after = view.step.snapshot
    assert replace(after, version=chart.version, seq=snapshot.seq) == snapshot
    assert (after.version, after.seq) == (chart.version + 1, snapshot.seq + 1)
    assert view.step.effects == ()
    assert view.fitness == "same"
    record = decode(UpgradeRecord, encode(view.step.history[0].data))
    assert record.before == {}
    back = restore_snapshot(chart, new, after, now, record=record)
    assert replace(back.snapshot, seq=snapshot.seq) == snapshot
    return after


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases)
def test_a_random_chart_upgraded_to_itself_goes_on_as_if_nothing_had_happened(case: Any) -> None:
    """After each step: nothing but the version changes, and the next step is the same as without."""
    whole, context, events = case
    chart = chart_of_model(whole)
    new = next_version(chart)
    begun = start(chart, "it", now=BEGIN, context=context)
    if isinstance(begun, Refusal):
        return
    snapshot, now = begun.snapshot, BEGIN
    for happening in events:
        if snapshot.ended:
            return
        now += timedelta(milliseconds=15)
        after = check(chart, snapshot, now)
        event = _event(happening, snapshot)
        if event is None:
            continue
        answer = step(chart, snapshot, event, max(now, _due(snapshot, event)))
        again = step(new, after, event, max(now, _due(snapshot, event)))
        assert isinstance(again, Step) == isinstance(answer, Step)
        if isinstance(answer, Step) and isinstance(again, Step):
            assert again.snapshot.states == answer.snapshot.states
            assert [row.transition for row in again.history] == [row.transition for row in answer.history]
            snapshot = answer.snapshot


def _event(happening: str | int, snapshot: Snapshot) -> Event | None:
    if isinstance(happening, str):
        return Event(happening)
    key = min(snapshot.timers, key=lambda each: snapshot.timers[each].due, default=None)
    return None if key is None else timer_fired(key)


def _due(snapshot: Snapshot, event: Event) -> datetime:
    return snapshot.timers[event.ref].due if event.ref in snapshot.timers else BEGIN


@pytest.mark.parametrize("name", CHARTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_lifecycle_upgraded_to_itself_stays_as_it_is(name: str, data: st.DataObject) -> None:
    """Wherever a random walk has led, and whatever is open there."""
    chart = CHARTS[name]
    facts = {fact.name: fact.example for fact in chart.model.facts}
    journey = data.draw(walks(chart, context=_first(chart), facts=facts, longest=8))
    if journey.snapshot.ended:
        return
    new = next_version(chart)
    view = outlook(chart, new, journey.snapshot, journey.clock.now(), born=BEGIN, facts=facts)
    assert view.step is not None, view.problems
    assert view.fitness == "same"
    assert replace(view.step.snapshot, version=chart.version, seq=journey.snapshot.seq) == journey.snapshot


def _first(chart: Chart) -> Any:
    kind = chart.context_type
    return example(kind.schema()) if kind is not None else {}


def test_a_chart_does_not_differ_from_itself() -> None:
    """No difference is made up."""
    for seed in range(50):
        chart = chart_of_model(random_case(Random(seed))[0])
        assert differences(chart, next_version(chart)) == []
    for chart in CHARTS.values():
        assert differences(chart, next_version(chart)) == []
