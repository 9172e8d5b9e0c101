"""Random walks through a chart, for property tests with hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from headway.codec import replace
from headway.statechart.chart import Charted, chart_of
from headway.statechart.explore.events import Happening, Happenings, People
from headway.statechart.explore.facts import RuleFacts
from headway.statechart.snapshot import Event
from headway.testing.journey import Journey

Payloads = Mapping[str, st.SearchStrategy[Any]]


@st.composite
def walks(
    draw: st.DrawFn,
    chart: Charted,
    *,
    context: object = None,
    facts: Mapping[str, Any] | None = None,
    payloads: Payloads | None = None,
    longest: int = 20,
) -> Journey:
    """Journeys after a random walk: people act and answer, timers fire, work ends or fails, children change.

    `context` is the first context or a strategy for it. `payloads` are strategies by event name, for
    events whose data is not of a type the chart declares; data of a declared type is made by itself.
    What the chart refuses on the way changes nothing and is no part of the walk.
    """
    first = draw(context) if isinstance(context, st.SearchStrategy) else context
    journey = Journey(chart, context=first, facts=facts)
    options = _Options(chart, payloads or {})
    for _ in range(draw(st.integers(0, longest))):
        possible = list(options.of(journey))
        if not possible:
            break
        draw(st.sampled_from(possible))(draw, journey)
    return journey


JSON = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9) | st.lists(st.booleans(), max_size=2)
)
Option = Callable[[st.DrawFn, Journey], object]


class _Options:
    """What could happen next to a journey."""

    def __init__(self, chart: Charted, payloads: Payloads) -> None:
        self.chart = chart_of(chart)
        self.payloads = payloads
        self.happenings = Happenings(self.chart, People(self.chart), RuleFacts(self.chart))

    def of(self, journey: Journey) -> Iterator[Option]:
        if journey.snapshot.ended:
            return
        if journey.snapshot.timers:
            yield _until_the_next_timer
        found = self.happenings.after(journey.snapshot, journey.clock.now())
        # In one order, whatever order sets have in this process: a seed is to lead to the same walk.
        for happening in sorted(found, key=_order):
            if happening.kind != "timer":
                yield self._option(happening)

    def _option(self, happening: Happening) -> Option:
        def take(draw: st.DrawFn, journey: Journey) -> None:
            journey.advance_to(_ready(journey, happening.event))
            try:
                data = self._data(draw, journey, happening)
            except ValueError:
                return  # a type may ask for more than its fields tell, and refuse what was made
            journey.attempt(replace(happening.event, data=data))

        return take

    def _data(self, draw: st.DrawFn, journey: Journey, happening: Happening) -> Any:
        event = happening.event
        if event.name in self.payloads:
            return draw(self.payloads[event.name])
        if happening.kind != "sent":
            return event.data
        kind = self.chart.types.get(self._declared(journey, event) or "")
        return None if kind is None else kind.dump(draw(_values(kind.kind)))

    def _declared(self, journey: Journey, event: Event) -> str | None:
        """The name of the type that an event's data, or the form of an ask, has."""
        for state, ask in journey.snapshot.asks.items():
            declared = self.chart.nodes[state].model.ask
            if ask.id == event.ref and declared is not None:
                return declared.form
        rows = (row for row in self.chart.model.transitions if event.name in row.events)
        return next((row.takes for row in rows if row.takes), None)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type; what may be anything, also within, is some JSON."""
    if kind is Any:
        return JSON
    if not _is_free(kind):
        return st.from_type(kind)
    made = CONTAINERS.get(get_origin(kind))
    if made is not None:
        return made(*map(_values, get_args(kind)))
    free = {name: _values(hint) for name, hint in _fields(kind) if _is_free(hint, (kind,))}
    return st.builds(kind, **free)


def _is_free(kind: Any, within: tuple[Any, ...] = ()) -> bool:
    """Whether a type, one of its parts or one of its fields may be anything; `within` are those it is in."""
    if kind in within:
        return False
    parts = get_args(kind) or [hint for _, hint in _fields(kind)]
    return kind is Any or any(_is_free(part, (*within, kind)) for part in parts)


def _fields(kind: Any) -> list[tuple[str, Any]]:
    """What values of a class are made of."""
    if not isinstance(kind, type) or not hasattr(kind, "__annotations__"):
        return []
    wanted = signature(kind).parameters
    return [(name, hint) for name, hint in get_type_hints(kind).items() if name in wanted]


CONTAINERS: dict[Any, Callable[..., st.SearchStrategy[Any]]] = {
    list: st.lists,
    dict: st.dictionaries,
    Sequence: st.lists,
    Mapping: st.dictionaries,
    Union: st.one_of,
    UnionType: st.one_of,
}


def _order(happening: Happening) -> tuple[str, ...]:
    event = happening.event
    return happening.kind, event.name, event.by.id, event.ref or "", str(event.attempt), repr(event.data)


def _ready(journey: Journey, event: Event) -> Any:
    """When an event can come: a retry of work not before its delay is over."""
    dues = [work.due for work in journey.snapshot.work.values() if work.id == event.ref and work.due]
    return max([journey.clock.now(), *dues])


def _until_the_next_timer(_draw: st.DrawFn, journey: Journey) -> None:
    journey.advance_to(min(timer.due for timer in journey.snapshot.timers.values()))
