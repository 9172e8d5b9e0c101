"""Which argument made a step stumble: found out only when it did, so that good input pays nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from headway.codec import from_data, to_data
from headway.errors import HeadwayError, InputError, InternalError, shown
from headway.statechart.chart import Chart
from headway.statechart.sensitive import told_error
from headway.statechart.snapshot import Event, OpenAsk, Snapshot, Timer
from headway.statechart.tree import HISTORY


def bad_input(
    error: Exception, chart: Chart, snapshot: object, event: object, *, now: object, facts: object
) -> HeadwayError:
    """The InputError that names what is wrong; an InternalError when nothing is."""
    for wrong in _wrong(chart, snapshot, event, now=now, facts=facts):
        return InputError(wrong)
    if isinstance(error, OverflowError):
        return InputError(f"a time or a number is too large: {error}")
    return InternalError(told_error(error, hides=chart.secrets is not None))


def _wrong(chart: Chart, snapshot: object, event: object, *, now: object, facts: object) -> Iterator[str]:
    if not isinstance(now, datetime):
        yield f"now must be a datetime, not {shown(now)}"
    if not isinstance(facts, Mapping):
        yield f"facts must map names to values, not {shown(facts)}"
    for value, kind in ((event, Event), (snapshot, Snapshot)):
        if not isinstance(value, kind):
            yield f"not a {kind.__name__}: {shown(value)}"
        try:
            clean = from_data(kind, to_data(value))
        except InputError as wrong:
            yield str(wrong)
        else:
            for field in clean.__struct_fields__:
                if type(getattr(clean, field)) is not type(getattr(value, field)):
                    yield f"not a {kind.__name__}: {field} is {shown(getattr(value, field))}"
    assert isinstance(snapshot, Snapshot)
    for part in _foreign(chart, snapshot):
        yield f"the snapshot does not fit {chart.name}: {part}"


def _foreign(chart: Chart, snapshot: Snapshot) -> Iterator[str]:
    """What a snapshot holds that does not belong to its states."""
    if snapshot.seq and not snapshot.states:
        yield "no state"
    active = {node.id: node.model for node in chart.configuration(snapshot.states)} if snapshot.states else {}
    yield from (f"work in {state}" for state in snapshot.work if state not in active or not active[state].run)
    for state, ask in snapshot.asks.items():
        if state not in active or not active[state].ask or not _has_zones(ask):
            yield f"an ask in {state}"
    for timer in snapshot.timers.values():
        left = timer.state not in {None, chart.root.id, *active}
        if left or timer.due.tzinfo is None or not _belongs_to_its_ask(chart, snapshot, timer):
            yield f"a timer {timer.event} of {timer.state}, due at {timer.due}"
    for history, states in snapshot.memory.items():
        node = chart.nodes.get(history)
        if node is None or node.kind not in HISTORY or not chart.nodes.keys() >= set(states):
            yield f"a memory of {history}"


def _has_zones(ask: OpenAsk) -> bool:
    return all(time is None or time.tzinfo is not None for time in (ask.deadline, ask.claimed_until))


def _belongs_to_its_ask(chart: Chart, snapshot: Snapshot, timer: Timer) -> bool:
    kind = timer.event.partition(".")[0]
    if timer.state is None or kind not in {"remind", "escalate"}:
        return True
    ask = chart.nodes[timer.state].model.ask
    if ask is None or timer.state not in snapshot.asks:
        return False
    if kind == "remind":
        return ask.remind is not None
    return type(timer.data) is int and 0 <= timer.data < len(ask.escalate)
