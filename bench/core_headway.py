"""The charts of the core suite in Headway."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import new_class
from typing import Any

from bench.core_course import LIMIT, NESTED, PARALLEL, Course, ring
from bench.harness import WrongResult
from headway import Event, History, Parallel, State, Statechart, Step, start, step

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def below_limit(view: Any) -> bool:
    """The guard of every chart."""
    return bool(view.context["n"] < LIMIT)


def bump(view: Any) -> dict[str, Any]:
    """The action of every chart."""
    return {"n": view.context["n"] + 1}


class Nested(Statechart, version=1):
    """Three levels: leafs of different compounds, and events that an ancestor handles."""

    a1, a2 = State(), State()
    b1, b2 = State(), State()
    c1 = State()
    a, b, c = State(a1, a2), State(b1, b2), State(c1)
    work, away = State(a, b, initial=True), State(c)

    next_a = a1.to(a2, event="next")
    next_b = b1.to(b2, event="next")
    cross = a2.to(b1, when=below_limit)
    up = b.to(a)
    leave = work.to(away)
    back = c1.to(a1, do=bump)


class Regions(Statechart, version=1):
    """Two regions, left for a state outside and entered again through a deep history."""

    l1, l2 = State(), State()
    r1, r2 = State(), State()
    left, right = State(l1, l2), State(r1, r2)
    regions = Parallel(left, right)
    h = History(deep=True)
    both, out = State(regions, h, initial=True), State()

    flip = l1.to(l2)
    unflip = l2.to(l1, event="flip")
    flop = r1.to(r2, when=below_limit)
    unflop = r2.to(r1, event="flop")
    leave = both.to(out, do=bump)
    back = out.to(h)


class HeadwayMachine:
    """A chart driven through `step`, each time with a new event, from snapshot to snapshot."""

    def __init__(self, chart: type[Statechart], course: Course) -> None:
        self._chart = chart
        self._names = frozenset[str]().union(*course.path)
        self._step = _taken(start(chart, instance="bench", context={"n": 0}, now=_NOW))

    def run(self, events: Sequence[str], cycles: int) -> None:
        """Send the events in order, that many times over."""
        chart, result = self._chart, self._step
        for _ in range(cycles):
            for event in events:
                outcome = step(chart, result.snapshot, Event(event), _NOW)
                result = outcome if isinstance(outcome, Step) else _taken(outcome)
        self._step = result

    def leafs(self) -> frozenset[str]:
        """The names of the active states, without those of compound and parallel ones."""
        return self._names.intersection(self._step.snapshot.states)

    def count(self) -> int:
        """The counter in the context of the snapshot."""
        return int(self._step.snapshot.context["n"])


def flat() -> HeadwayMachine:
    """The ring of six."""
    return flat_ring(6)


def nested() -> HeadwayMachine:
    """Three levels."""
    return HeadwayMachine(Nested, NESTED)


def parallel() -> HeadwayMachine:
    """Two regions with a deep history."""
    return HeadwayMachine(Regions, PARALLEL)


def flat_ring(size: int) -> HeadwayMachine:
    """The ring of that many states."""
    return HeadwayMachine(_ring_chart(size), ring(size))


def _ring_chart(size: int) -> type[Statechart]:
    states = [State(initial=number == 0) for number in range(size)]
    body: dict[str, Any] = {f"s{number}": state for number, state in enumerate(states)}
    rules: dict[int, dict[str, Any]] = {0: {"when": below_limit}, 1: {"do": bump}}
    for number, state in enumerate(states):
        target = states[(number + 1) % size]
        body[f"go{number}"] = state.to(target, event="go", **rules.get(number, {}))
    body["__module__"] = __name__
    return new_class(f"Ring{size}", (Statechart,), {"version": 1}, lambda namespace: namespace.update(body))


def _taken(outcome: object) -> Step:
    if not isinstance(outcome, Step):
        raise WrongResult(f"refused: {outcome}")
    return outcome
