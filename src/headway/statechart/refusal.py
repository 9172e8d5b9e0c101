"""What an event gets that changes nothing: why, where the instance stands, and what it could do now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, NoReturn

from headway.codec import Value
from headway.errors import RefusedError
from headway.statechart.chart import Chart
from headway.statechart.identity import same_id
from headway.statechart.people import Involved, may_read, split
from headway.statechart.snapshot import SYSTEM, Actor, Event, OpenAsk, Snapshot
from headway.statechart.tree import Arc, StateNode, comes_from_engine, descriptor, names_matching
from headway.statechart.validation.validate import suggestion

Code = Literal[
    "illegal",
    "already",
    "terminal",
    "unknown_event",
    "reserved",
    "owner",
    "actor",
    "duty",
    "payload",
    "guard",
    "claimed",
    "late",
    "stale",
    "early",
    "depth",
    "children",
    "context",
    "landing",
    "fault",
    "runaway",
]


class Veto(Exception):  # noqa: N818 - it is no error of anybody: a step says no from deep inside
    """Raised inside a step to refuse it whole."""

    def __init__(self, code: Code, message: str) -> None:
        self.code: Code = code
        self.message = message
        super().__init__(message)


class No:
    """A guard's "no", with the reason: `return No("attach a receipt first")`."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        """False: a No is a no."""
        return False

    def __repr__(self) -> str:
        """As it is written."""
        return f"No({self.reason!r})"


class Obstacle(NamedTuple):
    """Why somebody may not do something now: a guard, a duty, a role or a claim is in the way."""

    code: Code
    reason: str


class Objection(Value):
    """Why one transition did not take the event."""

    transition: str
    code: Code
    reason: str
    guard: str = ""


class Allowed(Value):
    """An event the instance would accept now, its senders (roles, and people by id), and its target."""

    event: str
    by: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def is_for(self, actor: Actor) -> bool:
        """Whether somebody may send it, by a role or by name."""
        named = any(same_id(each, actor.id) for each in self.people)
        return named or not actor.roles.isdisjoint(self.by) or not (self.by or self.people)


class Refusal(Value):
    """The answer to an event that changed nothing."""

    code: Code
    message: str
    event: str
    states: tuple[str, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    objections: tuple[Objection, ...] = ()

    def __bool__(self) -> bool:
        """False, so that `if step(...)` asks whether it went through."""
        return False

    def __str__(self) -> str:
        """The message."""
        return self.message

    def unwrap(self) -> NoReturn:
        """Raises RefusedError: for callers who know that the event must go through."""
        raise RefusedError(self.message, self)


PRECEDENCE: tuple[Code, ...] = ("fault", "guard", "duty", "payload", "claimed", "late", "actor")
"""Of several objections, the one that came furthest names the refusal."""


def roles_now(chart: Chart, arc: Arc, asks: Mapping[str, OpenAsk]) -> tuple[str, ...]:
    """Who may fire a transition: its own roles, its countersigners, and the roles of an escalation."""
    roles = [*arc.model.by, *arc.model.countersign]
    if not roles:
        ask = asks.get(arc.source.id)
        answers = any(event.startswith("answer.") for event in arc.model.events)
        return ask.roles if ask is not None and answers else ()
    for state, ask in asks.items():
        node = chart.nodes[state]
        asked = node.model.ask
        concerns = arc.source is node or arc.source.holds(node)
        if asked is not None and concerns and arc.by.intersection(asked.roles):
            roles += [role for role in ask.roles if role not in asked.roles]
    return tuple(dict.fromkeys(roles))


def spoken(event: str) -> str | None:
    """The name under which somebody outside can send an event; None when nobody can."""
    if event.startswith("answer."):
        return "answer"
    return None if comes_from_engine(event) else event


def allowed_now(chart: Chart, active: Sequence[StateNode], instance: Involved) -> tuple[Allowed, ...]:
    """The events that some transition of the active states waits for, and that somebody outside may send.

    The role of the system is the engine's own: what is for nobody else is left out, and so is the role.
    """
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Allowed] = {}
    active_ids = {node.id for node in active}
    for node in _upward(active):
        for arcs in node.arcs.values():
            for arc in arcs:
                for event in arc.model.events:
                    name = spoken(event)
                    if name is None or arc.excludes & active_ids:
                        continue
                    entries, targets = (
                        roles_now(chart, arc, instance.asks),
                        arc.model.targets or arc.model.lands,
                    )
                    roles, people = split(entries, instance)
                    by = tuple(role for role in roles if role not in SYSTEM.roles)
                    if by or people or not entries:
                        allowed = Allowed(event=name, by=by, people=people, targets=targets)
                        found.setdefault((name, by, people), allowed)
    return tuple(found.values())


def _upward(active: Sequence[StateNode]) -> list[StateNode]:
    ordered = sorted(active, key=lambda node: node.index, reverse=True)
    return [*ordered, ordered[0].upward[-1]] if ordered else []


def refuse(
    chart: Chart, snapshot: Snapshot, event: Event, veto: Veto, *, objections: Iterable[Objection] = ()
) -> Refusal:
    """A refusal that says where the instance stands and what it could do.

    An actor who may not see the instance learns neither.
    """
    if veto.code == "owner" or is_hidden(chart, snapshot, event.by):
        return Refusal(code="owner", message=not_theirs(snapshot, event.by), event=event.name)
    active = () if snapshot.ended or not snapshot.states else chart.configuration(snapshot.states)
    return Refusal(
        code=veto.code,
        message=veto.message,
        event=event.name,
        states=snapshot.states,
        allowed=allowed_now(chart, active, snapshot),
        objections=tuple(objections),
    )


def is_hidden(chart: Chart, snapshot: Snapshot, actor: Actor) -> bool:
    """Whether somebody must not learn of an instance: they may not read it, and have no part in it."""
    if not (actor.own or chart.model.read_by) or actor.kind == "system":
        return False
    if may_read(chart.model, chart.people, snapshot, actor):
        return False
    return actor.own or actor.roles.isdisjoint(chart.named | SYSTEM.roles)


def not_theirs(snapshot: Snapshot, actor: Actor) -> str:
    """The reason for somebody who must not learn more."""
    return f"{snapshot.instance} does not belong to {actor.id}"


def objected(chart: Chart, snapshot: Snapshot, event: Event, objections: list[Objection]) -> Refusal:
    """The refusal of an event that transitions wait for, but none would take."""
    codes = {objection.code for objection in objections}
    code = next(code for code in PRECEDENCE if code in codes)
    reasons = "; ".join(dict.fromkeys(o.reason for o in objections if o.code == code))
    message = f"{event.name} is refused in {snapshot.state}: {reasons}"
    return refuse(chart, snapshot, event, Veto(code, message), objections=objections)


def not_now(chart: Chart, snapshot: Snapshot, event: Event) -> Refusal:
    """The refusal of an event that no transition of the active states waits for."""
    arcs = _everywhere(chart, event.name)
    active = {node.id for node in chart.configuration(snapshot.states)}
    if not arcs:
        hint = suggestion(event.name, chart.spoken)
        message = f"{chart.name} has no event {event.name!r}{hint}"
        return refuse(chart, snapshot, event, Veto("unknown_event", message))
    reached = [arc for arc in arcs if active & {*arc.model.targets, *arc.model.lands}]
    if reached:
        return refuse(chart, snapshot, event, Veto("already", f"already in {snapshot.state}"))
    if snapshot.ended:
        message = f"{event.name} is no longer possible: {snapshot.state} is final"
        return refuse(chart, snapshot, event, Veto("terminal", message))
    allowed = allowed_now(chart, chart.configuration(snapshot.states), snapshot)
    names = ", ".join(dict.fromkeys(each.event for each in allowed))
    message = f"{event.name} is not possible in {snapshot.state}; possible: {names or 'nothing'}"
    return refuse(chart, snapshot, event, Veto("illegal", message))


def _everywhere(chart: Chart, event: str) -> list[Arc]:
    names = {*names_matching(event), "*"}
    return [arc for arc in chart.arcs if any(descriptor(each) in names for each in arc.model.events)]
