"""What an upgrade would do to an instance, and to the events in its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from headway.codec import Value
from headway.errors import HeadwayError, InputError
from headway.statechart.chart import Chart
from headway.statechart.effects import RenewedAsk
from headway.statechart.explain import explain
from headway.statechart.expressions.expressions import EvaluationError, Expression, PlainScope, truthy
from headway.statechart.snapshot import SYSTEM, Actor, OpenAsk, Snapshot, Timer
from headway.statechart.step.draft import NOTHING
from headway.statechart.step.step import Step
from headway.statechart.tree import Arc, StateNode
from headway.statechart.upgrade.instance import UpgradeGap, upgrade_snapshot
from headway.statechart.upgrade.renaming import Renaming
from headway.statechart.validation.contents import TAKEN

Fitness = Literal["same", "mapped", "rule", "stranded"]
ReplayResult = Literal["same", "refused", "elsewhere"]
MOST_KEPT = 4_096
MANY = ", "
"""Separates the transitions of one line."""


def hopeless_guards(chart: Chart, snapshot: Snapshot) -> tuple[str, ...]:
    """The guards because of which an instance can never leave its states; none when it may.

    An expression is decided when it has no names, or names only fields of the context that nothing can change
    any more. What a function answers, or an expression says of the event, is not known.
    """
    if chart.computed:
        return ()  # its status follows from facts, and whatever happens may change these
    arcs = list(_arcs(chart, snapshot))
    exits = [arc for arc in arcs if arc.model.targets]
    blocked = {arc.index: _no(arc, snapshot, settled=False) for arc in arcs}
    if all(arc.model.targets or blocked[arc.index] or not arc.model.actions for arc in arcs):
        # Nothing changes the context while it stays, so what it says now holds for ever.
        blocked = {arc.index: _no(arc, snapshot, settled=_is_alone(snapshot)) for arc in arcs}
    found = [blocked[arc.index] for arc in exits]
    return tuple(dict.fromkeys(filter(None, found))) if all(found) else ()


def _arcs(chart: Chart, snapshot: Snapshot) -> Iterator[Arc]:
    """The transitions that the chart has for the states an instance is in."""
    active = chart.configuration(snapshot.states)
    names = {node.id for node in active}
    for node in (chart.root, *active):
        found = {arc.index: arc for arcs in (*node.arcs.values(), node.always) for arc in arcs}
        yield from (arc for arc in found.values() if not arc.excludes & names)


def _is_alone(snapshot: Snapshot) -> bool:
    """Whether no work can report progress, and so change the context."""
    return not snapshot.work


def _no(arc: Arc, snapshot: Snapshot, *, settled: bool) -> str | None:
    """The guard that never lets a transition be taken; with `settled` the context stays as it is."""
    known = snapshot.context.keys() - TAKEN if settled else frozenset()
    for name, guard in arc.guards:
        if isinstance(guard, Expression) and guard.error is None and guard.names <= known:
            try:
                if not truthy(guard.evaluate(_Here(snapshot.context))):
                    return name
            except EvaluationError:
                continue
    return None


class _Here(PlainScope):
    """The context; which states are active is not asked, for it may change in other regions."""

    def in_state(self, name: str) -> bool:
        """Raises EvaluationError: not known."""
        raise EvaluationError(f"whether {name} will be active is not known")


class Outlook(Value):
    """What an upgrade would make of an instance: the step and what changes, or what is in its way."""

    fitness: Fitness
    step: Step | None = None
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether the instance can be upgraded."""
        return self.fitness in {"same", "mapped"}


def outlook(
    old: Chart,
    new: Chart,
    snapshot: Snapshot,
    now: datetime,
    *,
    born: datetime | None = None,
    facts: Mapping[str, Any] = NOTHING,
    acted: Mapping[str, tuple[str, ...]] = NOTHING,
    by: Actor = SYSTEM,
    reason: str | None = None,
) -> Outlook:
    """Try an upgrade; what could move before and could not afterwards would be stranded."""
    moved = upgrade_snapshot(
        old, new, snapshot, now, born=born, facts=facts, acted=acted, by=by, reason=reason
    )
    if isinstance(moved, UpgradeGap):
        return Outlook("rule", problems=moved.problems)
    after = moved.snapshot
    if _is_stuck(new, after, now, facts) and not _is_stuck(old, snapshot, now, facts):
        where = " + ".join(after.states)
        waits = "nothing it could wait for leads on: no event, timer, work, question or child"
        return Outlook("stranded", moved, problems=(f"in {where} {waits}",))
    if (guards := hopeless_guards(new, after)) and not hopeless_guards(old, snapshot) and not after.ended:
        where, said = " + ".join(after.states), ", ".join(guards)
        problem = f"{where} could never be left: the guards of all that leads on never hold: {said}"
        return Outlook("stranded", moved, problems=(problem,))
    changes = tuple(changes_of(snapshot, after)) or tuple(_in_other_words(moved))
    return Outlook("mapped" if changes else "same", moved, changes)


def _in_other_words(moved: Step) -> Iterator[str]:
    """Questions that stay as they are, but for their form or what can be answered."""
    for effect in moved.effects:
        if isinstance(effect, RenewedAsk):
            yield f"ask {effect.state}: put in other words"


def _is_stuck(chart: Chart, snapshot: Snapshot, now: datetime, facts: Mapping[str, Any]) -> bool:
    if snapshot.ended or chart.unbound:
        return False
    try:
        return explain(chart, snapshot, now, facts=facts).stuck
    except HeadwayError:
        return False


def changes_of(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What changes for an instance, in words that are the same for all to which the same happens."""
    if before.states != after.states:
        yield f"{before.state} → {after.state}"
    if before.context != after.context:
        fields = before.context.keys() | after.context.keys()
        other = [name for name in sorted(fields) if before.context.get(name) != after.context.get(name)]
        yield f"context: {', '.join(other) or 'fields'}"
    yield from _timers(before.timers, after.timers)
    yield from _asks(before, after)
    yield from _work(before, after)
    if before.votes != after.votes:
        yield "votes: given back" if len(before.votes) > len(after.votes) else "votes: renamed"
    if before.acted != after.acted:
        yield "duties: who acted is known by the new names"
    if before.memory != after.memory:
        yield "history: remembers the new states"
    if before.children != after.children or before.counters != after.counters:
        yield "counters: moved"


def _timers(before: Mapping[str, Timer], after: Mapping[str, Timer]) -> Iterator[str]:
    for key, timer in after.items():
        was = before.get(key)
        if was is None:
            yield f"timer {timer.event}: new"
        elif was.due != timer.due:
            yield f"timer {timer.event}: {'later' if timer.due > was.due else 'earlier'}"
        elif was != timer:
            yield f"timer {was.event}: renamed"
    for key, timer in before.items():
        if key not in after:
            yield f"timer {timer.event}: gone"


def _asks(before: Snapshot, after: Snapshot) -> Iterator[str]:
    held = {ask.id: ask for ask in before.asks.values()}
    for state, ask in after.asks.items():
        was = held.pop(ask.id, None)
        if was is None:
            yield f"ask {state}: put"
        elif words := _ask_words(was, ask):
            yield f"ask {state}: {' and '.join(words)}"
    for state, ask in before.asks.items():
        if ask.id in held:
            yield f"ask {state}: closed"


def _ask_words(was: OpenAsk, ask: OpenAsk) -> list[str]:
    words = []
    if was.roles != ask.roles:
        words.append(f"for {', '.join(ask.roles)}")
    if was.deadline != ask.deadline:
        words.append("another deadline" if ask.deadline else "no deadline")
    if was.claimed_by != ask.claimed_by:
        words.append("claim given back")
    return words


def _work(before: Snapshot, after: Snapshot) -> Iterator[str]:
    held = {work.id: work for work in before.work.values()}
    for state, work in after.work.items():
        was = held.pop(work.id, None)
        if was is None:
            yield f"work {state}: begun"
        elif was.attempt != work.attempt:
            yield f"work {state}: restarted"
    for state, work in before.work.items():
        if work.id in held:
            yield f"work {state}: cancelled"


class Turn(Value):
    """A line of history: the event and the way it went, in the names of one version of its chart."""

    event: str
    transition: str
    before: str
    after: str

    def renamed(self, renaming: Renaming) -> Turn | None:
        """The same in the names of another version; None when that depends on the instance at that time."""
        before, after = renaming.states(self.before), renaming.states(self.after)
        if before is None or after is None:
            return None
        names = map(renaming.transition, self.transition.split(MANY))
        return Turn(renaming.event(self.event), MANY.join(names), before, after)


class HistoryReplay:
    """Judges the turns of an older version by a newer chart; equal turns only once.

    The context of that time is not stored, so guards are not evaluated: a turn is judged by whether the event
    had a transition where the instance was, and whether one leads where it went.
    """

    def __init__(self, old: Chart, new: Chart) -> None:
        self._new = new
        self._renaming = Renaming(old, new)
        self._known: dict[Turn, ReplayResult | None] = {}

    def result(self, turn: Turn) -> ReplayResult | None:
        """What would happen to a turn; None when that depends on the instance at that time."""
        if turn not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[turn] = self._judge(turn.renamed(self._renaming))
        return self._known[turn]

    def _judge(self, turn: Turn | None) -> ReplayResult | None:
        if turn is None:
            return None
        try:
            active = self._new.configuration(tuple(turn.before.split("+")))
        except InputError:
            return "refused"
        arcs = list(self._arcs(active, turn.event))
        if not arcs:
            return "refused"
        leads = [_leads(arc, active) for arc in arcs]
        after = tuple(turn.after.split("+"))
        same = MANY in turn.transition or any(lead is None or lead == after for lead in leads)
        return "same" if same or self._new.computed else "elsewhere"

    def _arcs(self, active: tuple[StateNode, ...], event: str) -> Iterator[Arc]:
        inside = {node.id for node in active}
        for node in (*reversed(active), self._new.root):
            for arc in (*node.matching(event), *node.always):
                if not arc.excludes & inside:
                    yield arc


def _leads(arc: Arc, active: tuple[StateNode, ...]) -> tuple[str, ...] | None:
    """The atomic states after an arc; None when that depends on what the instance remembers."""
    if arc.domain is None:
        return tuple(node.id for node in active if node.atomic)
    if arc.entry is None:
        return None
    domain = arc.domain
    nodes = {node.index: node for node in active if node.atomic and not domain.holds(node)}
    nodes |= {node.index: node for node in arc.entry if node.atomic}
    return tuple(nodes[index].id for index in sorted(nodes))
