"""A chart made ready to run: its model compiled once into tables that a step only looks up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from headway.errors import InputError, UnboundError, shown
from headway.statechart import model
from headway.statechart.authoring.declarations import SourceLine
from headway.statechart.expressions.expressions import Expression, parse_or_failing
from headway.statechart.model import ANY
from headway.statechart.people import is_person, roles_and_people, watched_events
from headway.statechart.redaction import Secrets
from headway.statechart.tree import (
    HISTORY,
    Arc,
    Entering,
    Function,
    StateNode,
    comes_from_engine,
    descriptor,
    first_entry,
)
from headway.statechart.types import DataType

MOST_CONFIGURATIONS = 1_024
EVALUATING = (
    model.Assign,
    model.Cancel,
    model.Count,
    model.ForEach,
    model.If,
    model.Log,
    model.Raise,
    model.Send,
    model.Tell,
)
"""Actions that may have expressions."""


class Charted(Protocol):
    """A chart, or a class that declares one."""

    @property
    def chart(self) -> Chart:
        """The chart itself."""


def chart_of(charted: Charted) -> Chart:
    """The chart itself, of a chart or of a class that declares one; raises InputError."""
    declared = getattr(charted, "chart", None)
    if isinstance(declared, Chart):
        return declared
    raise InputError(f"not a chart: {shown(charted)}")


class Chart:
    """A chart that can run: a model, the functions and types it names, and the tables of a step."""

    def __init__(
        self,
        whole: model.Model,
        functions: Mapping[str, Function] | None = None,
        types: Mapping[str, DataType] | None = None,
        lines: Mapping[str, SourceLine] | None = None,
    ) -> None:
        self.model = whole
        self.name = whole.name
        self.version = whole.version
        self.functions = dict(functions or {})
        self.types = dict(types or {})
        self.lines = dict(lines or {})
        self.root = StateNode(model.State(id=model.ROOT, kind="compound", initial=whole.initial), 0, None)
        self.nodes: dict[str, StateNode] = {}
        self.order: list[StateNode] = [self.root]
        self._grow()
        self.arcs = tuple(self._arc(row, index) for index, row in enumerate(whole.transitions))
        self._file_arcs()
        self.scripted = whole.dialect == "scxml"
        self.computed = whole.computed is not None
        self.eventless = any(node.always for node in self.order)
        self.evaluates = _evaluates(whole)
        for node in self.order:
            node.eventless = tuple(arc for above in node.upward for arc in above.always)
        self.context_type = self.types.get(whole.context) if whole.context else None
        self.rules: tuple[tuple[StateNode, Expression], ...] = tuple(
            (node, parse_or_failing(node.model.where))
            for node in self.root.children
            if node.model.where is not None
        )
        self.events = frozenset(descriptor(event) for row in whole.transitions for event in row.events)
        self.spoken = frozenset(event for event in self.events if not comes_from_engine(event)) - {ANY}
        self.named = frozenset(entry for _, entry in roles_and_people(whole))
        """The roles and people that have a part in the life."""
        self.people = tuple(sorted(filter(is_person, self.named)))
        self.unbound = tuple(sorted(self._unbound()))
        self.configurations: dict[tuple[str, ...], tuple[StateNode, ...]] = {}
        self._entries: dict[tuple[StateNode, ...], Entering | tuple[StateNode, ...]] = {}

    @property
    def chart(self) -> Chart:
        """The chart itself, so that a chart stands wherever a class that declares one does."""
        return self

    @cached_property
    def secrets(self) -> Secrets | None:
        """What hides the sensitive parts of events and contexts; None when no type marks any."""
        typed = [(arc.model.events, arc.takes or arc.form) for arc in self.arcs]
        events = [(descriptor(event), kind) for names, kind in typed if kind is not None for event in names]
        return Secrets(events, self.context_type) or None

    def __eq__(self, other: object) -> bool:
        """Charts are equal when their models are: functions count by name."""
        return isinstance(other, Chart) and self.model == other.model

    def __hash__(self) -> int:
        """By name and version."""
        return hash((self.name, self.version))

    def __repr__(self) -> str:
        """Name, version and size."""
        return f"<Chart {self.name} v{self.version}: {len(self.nodes)} states>"

    def require_bound(self) -> None:
        """Raises UnboundError when a function or type has no registration."""
        if self.unbound:
            raise UnboundError(self.name, self.unbound)

    def configuration(self, states: tuple[str, ...]) -> tuple[StateNode, ...]:
        """All active states, in document order, of the active atomic ones; raises InputError."""
        known = self.configurations.get(states)
        if known is None:
            known = self._configure(states)
            if len(self.configurations) < MOST_CONFIGURATIONS:
                self.configurations[states] = known
        return known

    def first_entry(self, targets: tuple[StateNode, ...]) -> Entering | tuple[StateNode, ...]:
        """What is entered with these states when nothing is active and nothing remembered."""
        known = self._entries.get(targets)
        if known is None:
            known = self._entries[targets] = first_entry(targets, self.root)
        return known

    def _configure(self, states: tuple[str, ...]) -> tuple[StateNode, ...]:
        active: dict[int, StateNode] = {}
        for state in states:
            node = self.nodes.get(state)
            if node is None or not node.atomic:
                raise InputError(f"chart {self.name} has no atomic state {state!r}")
            active.update((above.index, above) for above in node.path)
        for node in (self.root, *active.values()):
            inside = sum(1 for child in node.children if child.index in active)
            wanted = {"compound": 1, "parallel": len(node.children)}.get(node.kind, 0)
            if inside != wanted:
                raise InputError(f"{', '.join(states) or 'nothing'} is no configuration of chart {self.name}")
        return tuple(active[index] for index in sorted(active))

    def _grow(self) -> None:
        for state in self.model.states:
            parent = self.nodes[state.parent] if state.parent else self.root
            node = StateNode(state, len(self.order), parent)
            self.nodes[state.id] = node
            self.order.append(node)
            (parent.history if state.kind in HISTORY else parent.children).append(node)
        for node in reversed(self.order):
            if node.parent is not None:
                node.parent.last = max(node.parent.last, node.last)
        for node in self.order:
            chosen = tuple(self.nodes[name] for name in node.model.initial)
            default = tuple(node.children[:1]) if node.kind == "compound" else ()
            node.completion = chosen or default

    def _arc(self, row: model.Transition, index: int) -> Arc:
        source = self.root if row.source == model.ROOT else self.nodes[row.source]
        arc = Arc(row, index, source, tuple(self.nodes[target] for target in row.targets))
        arc.guards = tuple(self._guard(condition) for condition in row.when)
        form = _form(row, source)
        answer = any(event.startswith("answer.") for event in row.events)
        arc.takes = self.types.get(row.takes or (form if answer else None) or "")
        arc.form = self.types.get(form or "") if arc.takes is None else None
        arc.plain = not (
            arc.guards or arc.by or arc.duties or arc.takes or arc.form or row.excludes or source.model.ask
        )
        return arc

    def _guard(self, condition: model.Condition) -> tuple[str, Function | Expression]:
        if isinstance(condition, model.Named):
            return condition.name, self.functions.get(condition.name, _missing)
        return condition.text, parse_or_failing(condition.text)

    def _file_arcs(self) -> None:
        watched = watched_events(self.model)
        filed: dict[int, dict[str, list[Arc]]] = {}
        ballots: dict[str, list[Arc]] = {}
        for arc in self.arcs:
            arc.watched = tuple(sorted(watched & {arc.name, *arc.model.events}))
            arc.busy = bool(arc.watched or arc.model.actions)
            node = arc.source
            rivals = ballots.setdefault(arc.ballot, [])
            rivals.append(arc)
            if len(rivals) > 1:
                arc.ballot += f"/{len(rivals)}"
            if not arc.model.events:
                node.always += (arc,)
            if arc.model.after is not None:
                node.after += (arc,)
                node.idle = False
            own = filed.setdefault(node.index, {})
            for event in dict.fromkeys(descriptor(event) for event in arc.model.events):
                own.setdefault(event, []).append(arc)
        for index, own in filed.items():
            self.order[index].arcs = {event: tuple(arcs) for event, arcs in own.items()}
            self.order[index].open = ANY in own
        for node in self.order:
            if node.model.ask is not None:
                node.answers = answers(node, node.model.ask)

    def _unbound(self) -> set[str]:
        wanted = named_functions(self.model) - set(self.functions)
        types = {row.takes for row in self.model.transitions if row.takes}
        types |= {state.ask.form for state in self.model.states if state.ask and state.ask.form}
        types |= {self.model.context} if self.model.context else set()
        return wanted | (types - set(self.types))


def _form(row: model.Transition, source: StateNode) -> str | None:
    """The form of the ask that a row answers: data must fit it, unless the row takes another type."""
    ask = source.model.ask
    if ask is None or (row.by and not set(row.by).intersection(ask.roles)):
        return None
    return ask.form


def answers(node: StateNode, ask: model.Ask) -> tuple[str, ...]:
    """The events by which a person can answer a state's ask."""
    found: dict[str, None] = {}
    for above in node.upward:
        for arcs in above.arcs.values():
            for arc in arcs:
                if above is not node and not arc.by.intersection(ask.roles):
                    continue
                for event in arc.model.events:
                    if event == f"answer.{node.id}" or not comes_from_engine(event):
                        found[event] = None
    return tuple(found)


def _missing(_view: object) -> bool:
    return False


def _evaluates(whole: model.Model) -> bool:
    """Whether a chart has expressions, so that what a step evaluates is counted."""
    conditions = [condition for row in whole.transitions for condition in (*row.when, row.after)]
    return (
        any(isinstance(condition, model.Formula) for condition in conditions)
        or any(state.where is not None for state in whole.states)
        or any(isinstance(action, EVALUATING) for action in all_actions(whole))
        or whole.dialect == "scxml"
    )


def named_functions(whole: model.Model) -> set[str]:
    """The names of all functions a chart calls."""
    rows = whole.transitions
    names = {condition.name for row in rows for condition in row.when if isinstance(condition, model.Named)}
    names |= {row.after.name for row in rows if isinstance(row.after, model.Named)}
    for upgrade in whole.upgrades:
        names |= {each.name for each in upgrade.states.values() if isinstance(each, model.Named)}
        names |= {upgrade.context} if upgrade.context else set()
    for action in all_actions(whole):
        if isinstance(action, model.Call):
            names.add(action.name)
        elif isinstance(action, model.Publish) and action.data:
            names.add(action.data)
        elif isinstance(action, model.Spawn) and action.make:
            names.add(action.make)
    return names


def all_actions(whole: model.Model) -> list[model.Action]:
    """Every action of a chart, those inside If and ForEach too."""
    blocks = [row.actions for row in whole.transitions] + [whole.initial_actions]
    for state in whole.states:
        blocks += [*state.entry, *state.exit, state.initial_actions]
    found: list[model.Action] = []
    pending = [action for block in blocks for action in block]
    while pending:
        action = pending.pop()
        found.append(action)
        if isinstance(action, model.If):
            pending += [inner for branch in action.branches for inner in branch.actions]
        elif isinstance(action, model.ForEach):
            pending += action.actions
    return found
