"""Paths through a chart: the one a test expects, and the few that take every transition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headway.statechart.chart import Charted
from headway.statechart.explore.explore import Edge, Exploration, explore
from headway.statechart.refusal import Allowed, Refusal
from headway.statechart.snapshot import Event
from headway.testing.clock import FakeClock
from headway.testing.journey import Journey

Happening = Event | str | Callable[[Journey], object]


class Leg(NamedTuple):
    """One part of a path: what happens, which transitions that takes, and where it ends."""

    label: str
    transitions: tuple[str, ...]
    ends_in: str


def assert_path(
    chart: Charted,
    happenings: Sequence[Happening],
    *,
    ends_in: str,
    context: object = None,
    clock: FakeClock | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Journey:
    """Run events and other happenings in order, check the final state, and return the journey.

    A happening is an event, the name of one, or a function of the journey (`lambda it: it.work_done()`).
    `ends_in` names an active state, or all atomic ones joined by "+". Raises AssertionError with
    the path so far, the refusal with its reason, and the events that were allowed.
    """
    journey = Journey(chart, context=context, clock=clock, facts=facts)
    told = [f"  start → {journey.snapshot.state}"]
    for number, happening in enumerate(happenings, 1):
        told.append(f"  {number}. {_happen(journey, happening, told)} → {journey.snapshot.state}")
    if journey.snapshot.state != ends_in and not (ends_in in journey.chart.nodes and journey.is_in(ends_in)):
        raise AssertionError(_story(journey, told, f"ends in {journey.snapshot.state}, not in {ends_in}"))
    return journey


def _happen(journey: Journey, happening: Happening, told: list[str]) -> str:
    name = _spelled(happening)
    try:
        answer = journey.attempt(happening) if isinstance(happening, (Event, str)) else happening(journey)
    except AssertionError as error:
        raise AssertionError(_story(journey, told, f"breaks at {name}: {error}")) from error
    if not isinstance(answer, Refusal):
        return name
    end = f"breaks at {name} ({answer.code}): {answer.message}"
    raise AssertionError(_story(journey, told, end, answer.allowed))


def _spelled(happening: Happening) -> str:
    if isinstance(happening, str):
        return happening
    if isinstance(happening, Event):
        return f"{happening.name} by {happening.by.id}"
    return getattr(happening, "__name__", repr(happening))


def _story(journey: Journey, told: list[str], end: str, allowed: Iterable[Allowed] = ()) -> str:
    possible = ", ".join(f"{each.event} ({' or '.join(each.by) or 'anyone'})" for each in allowed)
    lines = [f"the path of {journey.chart.name} {end}", *told]
    return "\n".join([*lines, f"  possible in {journey.snapshot.state}: {possible}"] if possible else lines)


def covering_paths(chart: Charted, *, limit: int = 20_000) -> list[list[Leg]]:
    """Few and short paths that together take every transition that can be taken.

    What can happen is explored exhaustively, with guards going each way they could; a transition that
    no path takes is one the checker reports. `limit` bounds the configurations looked at.
    """
    found = explore(chart, limit=limit)
    missing = set(found.fired)
    walks = []
    while missing:
        walks.append(_longest_walk(found, missing))
    return [_legs(found, walk) for walk in _shortened(found, walks)]


def _shortened(found: Exploration, walks: list[list[Edge]]) -> list[list[Edge]]:
    """Each walk made as short as it can be, given what all others take; one without need is gone."""
    kept = list(walks)
    for walk in walks:
        kept.remove(walk)
        needed = _taken(walk) - {row for other in kept for row in _taken(other)}
        missing = set(needed)
        shorter = _longest_walk(found, missing)
        kept += [shorter if not missing and len(shorter) < len(walk) else walk] if needed else []
    return kept


def _taken(walk: list[Edge]) -> set[int]:
    return {row for edge in walk for row in edge.fired}


def _longest_walk(found: Exploration, missing: set[int]) -> list[Edge]:
    """Go from one transition that is still missing to the next, as long as there is one ahead."""
    walked: list[Edge] = []
    places = [node.index for node in found.nodes if node.parent is None]
    while stretch := _nearest(found, places, missing):
        walked += stretch
        for edge in stretch:
            missing.difference_update(edge.fired)
        places = [stretch[-1].target]
    return walked


def _nearest(found: Exploration, places: list[int], missing: set[int]) -> list[Edge]:
    """The shortest way over a missing transition, rather over one after which more are ahead."""
    before: dict[int, Edge | None] = dict.fromkeys(places)
    queue = deque(places)
    last_resort: Edge | None = None
    goes_on = _places_with_more_ahead(found, missing)
    while queue:
        for edge in found.outgoing[queue.popleft()]:
            if missing.intersection(edge.fired):
                if edge.target in goes_on:
                    return _way(before, edge)
                last_resort = last_resort or edge
            if edge.target not in before:
                before[edge.target] = edge
                queue.append(edge.target)
    return _way(before, last_resort) if last_resort else []


def _places_with_more_ahead(found: Exploration, missing: set[int]) -> set[int]:
    incoming: dict[int, list[int]] = {}
    for edge in found.edges:
        incoming.setdefault(edge.target, []).append(edge.source)
    seen = {edge.source for edge in found.edges if missing.intersection(edge.fired)}
    pending = list(seen)
    while pending:
        for source in incoming.get(pending.pop(), ()):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return seen


def _way(before: Mapping[int, Edge | None], last: Edge) -> list[Edge]:
    way = [last]
    while (edge := before[way[-1].source]) is not None:
        way.append(edge)
    return way[::-1]


def _legs(found: Exploration, edges: list[Edge]) -> list[Leg]:
    rows = found.chart.model.transitions
    first = found.nodes[edges[0].source]
    begun = [] if first.label == "start" else [Leg(first.label, (), first.snapshot.state)]
    return begun + [
        Leg(edge.label, tuple(rows[row].name for row in edge.fired), found.nodes[edge.target].snapshot.state)
        for edge in edges
    ]
