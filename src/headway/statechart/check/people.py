"""Waits for people and their duties: each wait can end, and there are enough people for each duty."""

from __future__ import annotations

from collections.abc import Iterator

from headway.statechart.chart import Chart
from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.explore.events import from_outside, takers
from headway.statechart.model import ROOT
from headway.statechart.people import is_person, part, spelled
from headway.statechart.snapshot import SYSTEM
from headway.statechart.tree import Arc, StateNode
from headway.statechart.validation.validate import suggestion


def deadlines(analysis: Analysis) -> Iterator[Finding]:
    """Waits that can last for ever: for the answer to an ask an error, for an event of a person a warning."""
    for node in analysis.reached:
        asks = node.model.ask is not None
        if not (asks or _waits_for_person(analysis, node)) or _unheard_deadline(node):
            continue
        staying = analysis.stays_by_itself(node)
        if staying is None:
            continue
        tell = error if asks else warning
        yield tell(
            "wait-without-deadline",
            f"{node.id} waits for {_awaited(analysis, node)} and no timer ends the wait: "
            "when nobody acts, the instance stays there for ever",
            state=node.id,
            path=analysis.explored.path(staying.index),
        )


def _waits_for_person(analysis: Analysis, node: StateNode) -> bool:
    """Whether a state is left only by events that people send."""
    if not node.atomic or node.kind == "final" or node.model.run is not None:
        return False
    rows = list(analysis.leaving(node))
    return bool(rows) and all(_is_personal(arc) for arc in rows)


def _is_personal(arc: Arc) -> bool:
    sent = arc.model.events and all(map(from_outside, arc.model.events))
    return bool(sent and arc.by and not arc.by & SYSTEM.roles)


def _awaited(analysis: Analysis, node: StateNode) -> str:
    ask = node.model.ask
    roles = (
        ask.roles if ask is not None else sorted({role for arc in analysis.leaving(node) for role in arc.by})
    )
    return spelled(roles, " or ") or "a person"


def ways_out(analysis: Analysis) -> Iterator[Finding]:
    """Asks whose deadline leads nowhere, and asks that nobody who is asked can answer."""
    for node in analysis.reached:
        if _unheard_deadline(node):
            yield error(
                "wait-without-way-out",
                f"the deadline of {node.id} leads nowhere: add {node.id}.on_deadline.to(...)",
                state=node.id,
                path=analysis.path(node.id),
            )
        if node.model.ask is not None and not any(_can_answer(node, arc) for arc in _answering(node)):
            yield error(
                "wait-without-way-out",
                f"{node.id} asks {spelled(node.model.ask.roles, ' or ') or 'nobody'}, "
                "and no transition takes an answer from them",
                state=node.id,
                path=analysis.path(node.id),
            )


def _unheard_deadline(node: StateNode) -> bool:
    ask = node.model.ask
    return ask is not None and ask.deadline is not None and not takers(node, f"deadline.{node.id}")


def _answering(node: StateNode) -> list[Arc]:
    return [arc for event in node.answers for arc in takers(node, event)]


def _can_answer(node: StateNode, arc: Arc) -> bool:
    ask = node.model.ask
    assert ask is not None
    asked = {*ask.roles, *(role for step in ask.escalate for role in step.roles)}
    return not arc.by or bool(arc.by & asked) or bool(asked.intersection(arc.model.countersign))


def deadlocks(analysis: Analysis) -> Iterator[Finding]:
    """Duties the declared staff cannot fulfil, and duties that need several people nobody has counted."""
    for arc in analysis.chart.arcs:
        if not arc.duties or not (arc.source.id == ROOT or analysis.is_reached(arc.source.id)):
            continue
        counted = _roles(arc) & analysis.chart.model.staff.keys()
        if counted or any(map(is_person, _roles(arc))):
            yield from _with_staff(analysis, arc)
        else:
            yield from _without_staff(analysis, arc)


def _roles(arc: Arc) -> set[str]:
    return {*arc.by, *arc.model.countersign}


def _with_staff(analysis: Analysis, arc: Arc) -> Iterator[Finding]:
    """With exactly the people there are the row never fires, or an instance is left stuck before it."""
    stuck = [each.index for each in analysis.stuck if arc.source.id in analysis.explored.active(each.index)]
    if not analysis.can_fire(arc):
        demand = _demand(analysis.chart, arc)
        message = f"{arc.name} can never happen: it needs {demand}, and {_available(analysis, arc)}"
        path = analysis.path(arc.source.id)
    elif stuck:
        message = f"nobody is left who may send {arc.name}: {_available(analysis, arc)}"
        path = analysis.explored.path(stuck[0])
    else:
        return
    yield error("duty-deadlock", message, state=_place(arc), transition=arc.name, path=path)


def _place(arc: Arc) -> str:
    return "" if arc.source.id == ROOT else arc.source.id


def _available(analysis: Analysis, arc: Arc) -> str:
    """All actors: the declared staff, and the people that the row names."""
    staff = ", ".join(f"{number} {role}" for role, number in analysis.chart.model.staff.items())
    named = " and ".join(part(entry) for entry in sorted(_roles(arc)) if is_person(entry))
    return " and ".join([f"the staff is {staff}"] * bool(staff) + [f"it is for {named}"] * bool(named))


def _without_staff(analysis: Analysis, arc: Arc) -> Iterator[Finding]:
    needed = people_needed(analysis.chart, arc)
    if needed < 2 or arc.source.id == ROOT or _another_way(analysis, arc):  # noqa: PLR2004 - one can act alone
        return
    (role,) = arc.by
    yield warning(
        "duty-deadlock",
        f"{arc.name} needs {needed} different people with the role {role}, "
        f"and {arc.source.id} has no other way out: "
        f'add a deadline, or declare staff={{"{role}": {needed}}}',
        state=arc.source.id,
        transition=arc.name,
        path=analysis.path(arc.source.id),
    )


def _demand(chart: Chart, arc: Arc) -> str:
    row = arc.model
    demands = [f"a quorum of {row.quorum}"] * (row.quorum > 1)
    demands += [f"a countersignature of {spelled((role,))}" for role in row.countersign]
    demands += [f"someone who did not {name}" for name in row.distinct_from]
    demands += ["no agent"] * row.no_agent
    needed = people_needed(chart, arc)
    named = any(map(is_person, arc.by))
    people = f" ({needed} people with the role {', '.join(arc.by)})" if needed > 1 and not named else ""
    return f"{' and '.join(demands)}{people}"


def people_needed(chart: Chart, arc: Arc) -> int:
    """How many different people of the one role that may fire a row it takes; 0 when several roles may."""
    if len(arc.by) != 1:
        return 0
    earlier = sum(1 for name in arc.model.distinct_from if _only_by(chart, name, arc.by))
    return arc.model.quorum + earlier + len(arc.by.intersection(arc.model.countersign))


def _only_by(chart: Chart, name: str, roles: frozenset[str]) -> bool:
    """Whether the same role alone can have done an earlier transition."""
    rows = [row for row in chart.model.transitions if name in {row.name, *row.events}]
    return bool(rows) and all(frozenset(row.by) == roles for row in rows)


def _another_way(analysis: Analysis, arc: Arc) -> bool:
    """Whether the state can be left without this row: by itself, or by a row that one person can fire."""
    others = [other for other in analysis.leaving(arc.source) if other.source.id != ROOT and other is not arc]
    alone = any(people_needed(analysis.chart, other) < 2 and other.model.quorum < 2 for other in others)  # noqa: PLR2004 - one can act alone
    return alone or analysis.stays_by_itself(arc.source) is None


def roles(analysis: Analysis) -> Iterator[Finding]:
    """Roles that are named once and almost like another one, or that the declared staff does not have."""
    places: dict[str, list[tuple[str, str]]] = {}
    for arc in analysis.chart.arcs:
        for role in (*arc.model.by, *arc.model.countersign):
            places.setdefault(role, []).append((_place(arc), arc.name))
    for node in analysis.chart.order:
        ask = node.model.ask
        for role in () if ask is None else (*ask.roles, *(r for each in ask.escalate for r in each.roles)):
            places.setdefault(role, []).append((node.id, ""))
    staff = analysis.chart.model.staff
    for role, ((state, transition), *more) in places.items():
        if is_person(role):
            continue
        others = sorted((places.keys() | staff.keys()) - {role})
        hint = suggestion(role, others, cutoff=0.8)
        if (hint and not more) or (staff and role not in staff and role != "system"):
            message = f"the role {role} is {'not among the staff' if staff else 'named nowhere else'}{hint}"
            yield warning("unknown-role", message, state=state, transition=transition)
