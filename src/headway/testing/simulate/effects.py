"""Checks effects: the actions that a history line stands for, and the effects that they must have written."""

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
OwnedEffect = tuple[str, str, Effect]
"""A tenant, an instance and its effect; the instance is empty for a record."""
RECORD = "record"
PROGRESS: Effect = ("live", "progress")
REMINDERS: dict[str, Effect] = {"remind": ("live", "ask.reminded"), "escalate": ("live", "ask.escalated")}
FILLED = ""
"""The name of an effect whose name is filled from the context."""
CASCADE = ":cancel"
"""The end of the id of a message that no history line explains: a cancellation for the children."""


@dataclass(frozen=True, eq=False)
class ActionsRun:
    """The actions that certainly ran, those that may have run, and whether others may have run too."""

    certain: tuple[Action, ...] = ()
    possible: tuple[Action, ...] = ()
    others: bool = False

    @cached_property
    def errors(self) -> int | None:
        """How many errors they have counted; None if the chart alone does not determine it."""
        counts = [each for each in self.certain if isinstance(each, Count) and each.name == "errors"]
        possible = any(isinstance(each, Count) and each.name == "errors" for each in self.possible)
        if self.others or possible or any(each.expr is not None for each in counts):
            return None
        return sum(each.by for each in counts)


NONE = ActionsRun()


def actions_run(chart: Chart, line: HistoryRow) -> ActionsRun:
    """The actions of a step, derived from its history line; `chart` is of the line's version."""
    if line.transition in {UPGRADE, UNDO} or (line.event, line.transition) == ("work.failed", "retry"):
        return NONE
    return _actions_run(chart, line.before, line.transition, line.after)


@lru_cache(KNOWN)
def active(chart: Chart, states: str) -> frozenset[str]:
    """All states that are active when the given states are."""
    if not states:
        return frozenset()
    return frozenset(node.id for node in chart.configuration(tuple(states.split("+"))))


@lru_cache(KNOWN)
def arcs_from(chart: Chart, before: str) -> dict[str, list[Arc]]:
    """The transitions that a chart has from the given states, by name."""
    places = active(chart, before)
    found: dict[str, list[Arc]] = {}
    for arc in chart.arcs:
        source = arc.model.source
        if not source or source in places or source not in chart.nodes:
            found.setdefault(arc.name, []).append(arc)
    return found


@lru_cache(KNOWN)
def _actions_run(chart: Chart, before: str, transition: str, after: str) -> ActionsRun:
    if chart.scripted:
        return ActionsRun(others=True)  # an action that fails ends its block, and the step continues
    certain: list[Action] = [] if before else [*chart.model.initial_actions]
    possible = _by_default(chart)
    for name in transition.split(", ") if before else ():
        arcs = arcs_from(chart, before).get(name, [])
        (certain if _is_certain(arcs, before == after) else possible).extend(_actions(arcs))
    was, now = active(chart, before), active(chart, after)
    for node in chart.order:
        entry, leaving = node.model.entry, node.model.exit
        if node.id in now:
            # A state that was active before may have been entered again, and at the end all are left.
            (possible if node.id in was else certain).extend(_flat(entry))
            possible += _flat(leaving)
        elif node.id in was:
            certain += _flat(leaving)
    return ActionsRun(tuple(certain), tuple(possible), any(map(_says_little, (*certain, *possible))))


def _is_certain(arcs: list[Arc], stays: bool) -> bool:  # noqa: FBT001 - one of two places of a line
    """Whether the actions are determined; a step that stays in its states may only have counted a vote."""
    alike = all(arc.model.actions == arcs[0].model.actions for arc in arcs)
    return alike and not (stays and any(map(needs_votes, arcs)))


def _actions(arcs: list[Arc]) -> tuple[Action, ...]:
    alike = all(arc.model.actions == arcs[0].model.actions for arc in arcs)
    return tuple(action for arc in (arcs[:1] if alike else arcs) for action in arc.model.actions)


def _by_default(chart: Chart) -> list[Action]:
    """Actions of default transitions, of states whose initial child or history default is entered."""
    found = [action for state in chart.model.states for action in state.initial_actions]
    remembering = {state.id for state in chart.model.states if state.kind in {"shallow", "deep"}}
    rows = [row for row in chart.model.transitions if row.source in remembering]
    return [*found, *(action for row in rows for action in row.actions)]


def _flat(blocks: Iterable[tuple[Action, ...]]) -> list[Action]:
    return [action for block in blocks for action in block]


def _says_little(action: Action) -> bool:
    """Whether the declaration of an action does not determine its effects."""
    if isinstance(action, Send):
        return action.target_expr is not None or action.target not in HERE
    return isinstance(action, Call | If | ForEach)


class ExpectedEffects(NamedTuple):
    """The effects that must be written, those that may be, and whether others may be too."""

    certain: tuple[Effect, ...]
    possible: tuple[Effect, ...]
    others: bool


class EffectCheck:
    """Collects the expected effects of one commit, and compares them with what was written."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated
        self._expected: Counter[OwnedEffect] = Counter()
        self._possible: Counter[OwnedEffect] = Counter()
        self._unknown: set[tuple[str, str]] = set()

    def expect(self, tenant: str, after: Snapshot, seq: int, lines: list[HistoryRow]) -> None:
        """Add the expected effects of the new history lines of an instance."""
        for line in lines:
            certain, possible, others = expected_effects(
                self._charts[after.chart, line.version], line, child=after.parent is not None
            )
            self._expected.update(_from(tenant, after.instance, certain))
            self._possible.update(_from(tenant, after.instance, possible))
            if others:
                self._unknown |= {(tenant, after.instance), (tenant, "")}
        # Only progress leaves no line; a line of a transition that progress triggers has its event name.
        silent = {*range(seq + 1, after.seq + 1)} - {line.seq for line in lines}
        stirred = {line.seq for line in lines if line.event == "work.progress"}
        if silent or stirred:
            self._expected[tenant, after.instance, PROGRESS] += len(silent) + len(stirred)

    def settle(self, changes: Changes) -> None:
        """Compare what was written with what is expected: no more and no less."""
        expected, possible = self._expected, self._possible
        for each in _written(changes):
            filled: OwnedEffect = (each[0], each[1], (each[2][0], FILLED))
            known = each if each in expected or each in possible else filled
            expected[known if known in expected or known in possible else each] -= 1
        for (tenant, instance, effect), number in expected.items():
            name = f"{' '.join(effect)} of {instance or tenant}"
            if number > 0:
                self._violated(f"{number} × {name} is missing: the chart declares it, and it was not written")
            elif -number > possible[tenant, instance, effect] and (tenant, instance) not in self._unknown:
                self._violated(f"{-number} × {name} was written, and the chart does not declare it")
        expected.clear()
        possible.clear()
        self._unknown.clear()


def expected_effects(chart: Chart, line: HistoryRow, *, child: bool) -> ExpectedEffects:
    """The effects that a line of history must have."""
    kind = line.event.partition(".")[0]
    if not line.transition and kind in REMINDERS:
        return ExpectedEffects((REMINDERS[kind],), (), others=False)
    return _expected_effects(actions_run(chart, line), child)


@lru_cache(KNOWN)
def _expected_effects(acts: ActionsRun, child: bool) -> ExpectedEffects:  # noqa: FBT001 - cached by position
    certain, possible = (tuple(_effects(actions, child=child)) for actions in (acts.certain, acts.possible))
    return ExpectedEffects(certain, possible, acts.others)


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


def _from(tenant: str, instance: str, effects: Iterable[Effect]) -> Iterator[OwnedEffect]:
    return ((tenant, "" if effect[0] == RECORD else instance, effect) for effect in effects)


def is_forwarded(message: MessageRow) -> bool:
    """Whether a message forwards an event that a node could not decide; no history line explains it."""
    return message.kind == "deliver" and "ref" in decode(dict[str, object], message.data or "{}")


def _written(changes: Changes) -> Iterator[OwnedEffect]:
    for message in changes.messages:
        if not (message.id.endswith(CASCADE) or is_forwarded(message)):
            yield message.tenant, message.instance, (message.kind, message.name)
    for record in changes.records:
        yield record.tenant, "", (RECORD, record.kind)
