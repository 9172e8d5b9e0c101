"""What a line of history says was done: the actions of its chart, and the effects that these call for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from headway.codec import decode
from headway.statechart.chart import Chart
from headway.statechart.model import Action, Call, Count, ForEach, If, Log, Publish, PutRecord, Send, Tell
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.duties import needs_votes
from headway.statechart.tree import Arc
from headway.store.rows import HistoryRow, MessageRow
from headway.store.unit import Changes

UPGRADE, UNDO = "chart.upgrade", "chart.undo"
KNOWN = 4_000
Charts = Mapping[tuple[str, int], Chart]
"""By name and version."""
HERE = frozenset({None, "", "#_internal"})
"""Targets of what an instance sends to itself."""
Effect = tuple[str, str]
"""A kind of message, or the word `record`, and a name."""
Owed = tuple[str, str, Effect]
"""A tenant, an instance, and what it has called for; no instance stands behind a record."""
RECORD = "record"
PROGRESS: Effect = ("live", "progress")
REMINDERS: dict[str, Effect] = {"remind": ("live", "ask.reminded"), "escalate": ("live", "ask.escalated")}
FILLED = ""
"""The name of what is named after the context."""
CASCADE = ":cancel"
"""How the id ends of a message that no line calls for: a cancellation on its way to the children."""


@dataclass(frozen=True, eq=False)
class Acts:
    """Actions that were run, those that may have been, and whether there may have been others."""

    sure: tuple[Action, ...] = ()
    perhaps: tuple[Action, ...] = ()
    others: bool = False

    @cached_property
    def errors(self) -> int | None:
        """How many errors they have counted; None when the chart alone does not say."""
        counts = [each for each in self.sure if isinstance(each, Count) and each.name == "errors"]
        perhaps = any(isinstance(each, Count) and each.name == "errors" for each in self.perhaps)
        if self.others or perhaps or any(each.expr is not None for each in counts):
            return None
        return sum(each.by for each in counts)


NONE = Acts()


def acts_of(chart: Chart, line: HistoryRow) -> Acts:
    """What was done in a step, by the line it has left; `chart` is of the line's version."""
    if line.transition in {UPGRADE, UNDO} or (line.event, line.transition) == ("work.failed", "retry"):
        return NONE
    return _acts(chart, line.before, line.transition, line.after)


@lru_cache(KNOWN)
def active(chart: Chart, states: str) -> frozenset[str]:
    """All states that are active when these are."""
    if not states:
        return frozenset()
    return frozenset(node.id for node in chart.configuration(tuple(states.split("+"))))


@lru_cache(KNOWN)
def arcs_from(chart: Chart, before: str) -> dict[str, list[Arc]]:
    """The transitions that a chart has somewhere, by name."""
    places = active(chart, before)
    found: dict[str, list[Arc]] = {}
    for arc in chart.arcs:
        source = arc.model.source
        if not source or source in places or source not in chart.nodes:
            found.setdefault(arc.name, []).append(arc)
    return found


@lru_cache(KNOWN)
def _acts(chart: Chart, before: str, transition: str, after: str) -> Acts:
    if chart.scripted:
        return Acts(others=True)  # an action that fails ends its block there, and the step goes on
    sure: list[Action] = [] if before else [*chart.model.initial_actions]
    perhaps = _by_default(chart)
    for name in transition.split(", ") if before else ():
        arcs = arcs_from(chart, before).get(name, [])
        (sure if _is_certain(arcs, before == after) else perhaps).extend(_actions(arcs))
    was, now = active(chart, before), active(chart, after)
    for node in chart.order:
        entry, leaving = node.model.entry, node.model.exit
        if node.id in now:
            # A state in which it was already may have been entered anew, and at the end all are left.
            (perhaps if node.id in was else sure).extend(_flat(entry))
            perhaps += _flat(leaving)
        elif node.id in was:
            sure += _flat(leaving)
    return Acts(tuple(sure), tuple(perhaps), any(map(_says_little, (*sure, *perhaps))))


def _is_certain(arcs: list[Arc], stays: bool) -> bool:  # noqa: FBT001 - one of two places of a line
    """Whether there is one way to take a transition; where a step stays it may have been a mere vote."""
    alike = all(arc.model.actions == arcs[0].model.actions for arc in arcs)
    return alike and not (stays and any(map(needs_votes, arcs)))


def _actions(arcs: list[Arc]) -> tuple[Action, ...]:
    alike = all(arc.model.actions == arcs[0].model.actions for arc in arcs)
    return tuple(action for arc in (arcs[:1] if alike else arcs) for action in arc.model.actions)


def _by_default(chart: Chart) -> list[Action]:
    """What comes along with states that are entered for want of another."""
    found = [action for state in chart.model.states for action in state.initial_actions]
    remembering = {state.id for state in chart.model.states if state.kind in {"shallow", "deep"}}
    rows = [row for row in chart.model.transitions if row.source in remembering]
    return [*found, *(action for row in rows for action in row.actions)]


def _flat(blocks: Iterable[tuple[Action, ...]]) -> list[Action]:
    return [action for block in blocks for action in block]


def _says_little(action: Action) -> bool:
    """Whether only a run shows what an action does."""
    if isinstance(action, Send):
        return action.target_expr is not None or action.target not in HERE
    return isinstance(action, Call | If | ForEach)


class Called(NamedTuple):
    """What was called for, what may have been, and whether more may have been."""

    sure: tuple[Effect, ...]
    perhaps: tuple[Effect, ...]
    others: bool


class Demands:
    """Gathers what the instances of one commit call for, and compares it with what was written."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated
        self._owed: Counter[Owed] = Counter()
        self._perhaps: Counter[Owed] = Counter()
        self._unsaid: set[tuple[str, str]] = set()

    def call(self, tenant: str, after: Snapshot, seq: int, lines: list[HistoryRow]) -> None:
        """An instance has come from a step to where it is, by these lines."""
        for line in lines:
            sure, perhaps, others = called_for(
                self._charts[after.chart, line.version], line, child=after.parent is not None
            )
            self._owed.update(_from(tenant, after.instance, sure))
            self._perhaps.update(_from(tenant, after.instance, perhaps))
            if others:
                self._unsaid |= {(tenant, after.instance), (tenant, "")}
        # Only progress leaves no line; where others follow it, they bear its name.
        silent = {*range(seq + 1, after.seq + 1)} - {line.seq for line in lines}
        stirred = {line.seq for line in lines if line.event == "work.progress"}
        if silent or stirred:
            self._owed[tenant, after.instance, PROGRESS] += len(silent) + len(stirred)

    def settle(self, changes: Changes) -> None:
        """All of them have called; what was written answers that, no more and no less."""
        owed, perhaps = self._owed, self._perhaps
        for each in _written(changes):
            filled: Owed = (each[0], each[1], (each[2][0], FILLED))
            known = each if each in owed or each in perhaps else filled
            owed[known if known in owed or known in perhaps else each] -= 1
        for (tenant, instance, effect), number in owed.items():
            name = f"{' '.join(effect)} of {instance or tenant}"
            if number > 0:
                self._violated(f"{number} × {name} was called for, and not written")
            elif -number > perhaps[tenant, instance, effect] and (tenant, instance) not in self._unsaid:
                self._violated(f"{-number} × {name} was written, and not called for")
        owed.clear()
        perhaps.clear()
        self._unsaid.clear()


def called_for(chart: Chart, line: HistoryRow, *, child: bool) -> Called:
    """What a line of history calls for."""
    kind = line.event.partition(".")[0]
    if not line.transition and kind in REMINDERS:
        return Called((REMINDERS[kind],), (), others=False)
    return _called(acts_of(chart, line), child)


@lru_cache(KNOWN)
def _called(acts: Acts, child: bool) -> Called:  # noqa: FBT001 - what a result is kept for has no names
    sure, perhaps = (tuple(_effects(actions, child=child)) for actions in (acts.sure, acts.perhaps))
    return Called(sure, perhaps, acts.others)


def _effects(actions: Iterable[Action], *, child: bool) -> Iterator[Effect]:
    for action in actions:
        if isinstance(action, Publish):
            yield action.kind, FILLED if "{" in action.name else action.name
        elif isinstance(action, Tell) and (child or action.to != "parent"):
            yield "deliver", action.event
        elif isinstance(action, PutRecord):
            yield RECORD, action.kind
        elif isinstance(action, Log):
            yield "log", action.label


def _from(tenant: str, instance: str, effects: Iterable[Effect]) -> Iterator[Owed]:
    return ((tenant, "" if effect[0] == RECORD else instance, effect) for effect in effects)


def is_forwarded(message: MessageRow) -> bool:
    """Whether a message brings an event that the node it came to could not decide: no line calls for it."""
    return message.kind == "deliver" and "ref" in decode(dict[str, object], message.data or "{}")


def _written(changes: Changes) -> Iterator[Owed]:
    for message in changes.messages:
        if not (message.id.endswith(CASCADE) or is_forwarded(message)):
            yield message.tenant, message.instance, (message.kind, message.name)
    for record in changes.records:
        yield record.tenant, "", (RECORD, record.kind)
