"""What exploration keeps of the data of a chart whose status is computed: the facts its rules look at.

Of each fact only as many values are tried as the rules can tell apart: the literals it is compared
with and their neighbours, set and not set, earlier and later.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple

from headway.statechart import model
from headway.statechart.chart import Chart, all_actions
from headway.statechart.expressions.expressions import (
    EvaluationError,
    Expression,
    ExpressionError,
    PlainScope,
    location_or_failing,
    truthy,
)
from headway.statechart.expressions.parser import (
    Chain,
    ExpressionNode,
    ListOf,
    Literal,
    Name,
    Path,
    parse_node,
    walk,
)
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.draft import SPECIAL, CountsByName
from headway.statechart.tree import StateNode
from headway.statechart.types import Mismatch

EQUALITY = frozenset({"==", "===", "!=", "!=="})
EARLIER, LATER = "2000-01-01T00:00:00+00:00", "2000-01-02T00:00:00+00:00"
MOST_STARTS = 256
MOST_CASES = 1 << 14
MOST_CHILDREN = 4
CONTEXT, COUNTERS, CHILDREN, GIVEN = "context", "counters", "children", "facts"


class Reference(NamedTuple):
    """A fact that a rule looks at, and where it is kept."""

    kind: str
    name: str


class Use:
    """How the rules look at one fact."""

    def __init__(self) -> None:
        self.literals: list[Any] = []
        self.number = False
        self.peers: set[Reference] = set()

    def learn(self, other: Use) -> None:
        """Add how another expression looks at it."""
        self.literals += other.literals
        self.number = self.number or other.number
        self.peers |= other.peers

    def values(self) -> tuple[Any, ...]:
        """Values enough to make each comparison come out each way."""
        found: list[Any] = [] if self.number else [None]
        if not self.literals:
            found += [0, 1, 2] if self.number or self.peers else [True]
        for literal in self.literals:
            found += _around(literal)
        return tuple({(type(value), value): value for value in found}.values())


def _around(literal: object) -> list[Any]:
    if isinstance(literal, bool):
        return [True, False]
    if isinstance(literal, int | float):
        return [literal - 1, literal, literal + 1]
    return [] if literal is None else [literal, f"not {literal}"]


class RuleFacts:
    """The facts a chart's rules look at, the values worth trying, and who writes them."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.given_names = frozenset(fact.name for fact in chart.model.facts)
        actions = all_actions(chart.model)
        self.written = frozenset(name for action in actions for name in written_names(action))
        self.uses = self._uses(actions)
        self.names = self._named(CONTEXT)
        self.kept = self.names | {COUNTERS, CHILDREN} if chart.computed else frozenset()
        self.stamped = frozenset(
            field for action in actions if isinstance(action, model.Stamp) for field in action.fields
        )
        self.unowned = self.names - self.written
        self.candidates = {name: self._values(Reference(CONTEXT, name)) for name in sorted(self.names)}
        self.counters = {name: self._amounts(name) for name in sorted(self._named(COUNTERS))}
        self.given = {name: self._values(Reference(GIVEN, name)) for name in sorted(self._named(GIVEN))}
        self.statuses = tuple(sorted(self._named(CHILDREN) - {"new"}))
        self.spawned_by_functions = self._waits_for_children() and not any(
            isinstance(action, model.Spawn) for action in actions
        )
        numbers = [n for ref, use in self.uses.items() if ref.kind == CHILDREN for n in use.literals]
        enough = max([1, *(n for n in numbers if type(n) is int)]) + 1
        self.most_children = min(enough, MOST_CHILDREN) if chart.computed else 1

    def _named(self, kind: str) -> frozenset[str]:
        return frozenset(reference.name for reference in self.uses if reference.kind == kind)

    def _uses(self, actions: list[model.Action]) -> dict[Reference, Use]:
        uses: dict[Reference, Use] = {}
        rules = [rule.text for _, rule in self.chart.rules]
        for text in [*rules, *(_texts(self.chart.model, actions) if rules else ())]:
            seen: dict[Reference, Use] = {}
            for node in _nodes(text):
                self._note(seen, node)
            # Of other expressions only what is known without them matters: who writes it is declared.
            known = {ref for ref in seen if ref.kind in {COUNTERS, CHILDREN} or ref.name in self.written}
            for reference in seen if text in rules else known:
                uses.setdefault(reference, Use()).learn(seen[reference])
        return uses

    def _note(self, uses: dict[Reference, Use], node: ExpressionNode) -> None:
        reference = self._reference(node)
        if reference is not None:
            uses.setdefault(reference, Use())
        if isinstance(node, Chain):
            for operator, right in node.rest:
                self._compared(uses, node.first, operator, right)

    def _compared(
        self, uses: dict[Reference, Use], left: ExpressionNode, operator: str, right: ExpressionNode
    ) -> None:
        for one, other in ((left, right), (right, left)):
            reference = self._reference(one)
            if reference is None:
                continue
            use = uses.setdefault(reference, Use())
            use.literals += _literals(other)
            peer = self._reference(other)
            if peer is not None:
                use.peers.add(peer)
            use.number = use.number or operator not in EQUALITY | {"in", "not in"}

    def _reference(self, node: ExpressionNode) -> Reference | None:
        if isinstance(node, Name) and node.name not in SPECIAL:
            return Reference(GIVEN if node.name in self.given_names else CONTEXT, node.name)
        if not (
            isinstance(node, Path) and isinstance(node.start, Name) and isinstance(node.steps[0], Literal)
        ):
            return None
        part = node.start.name
        return Reference(part, str(node.steps[0].value)) if part in {COUNTERS, CHILDREN, GIVEN} else None

    def _values(self, reference: Reference) -> tuple[Any, ...]:
        if reference.name in self.stamped:
            return (None, EARLIER, LATER) if self.uses[reference].peers else (None, EARLIER)
        return self.uses[reference].values()

    def _amounts(self, name: str) -> tuple[int, ...]:
        values = {int(value) for value in self.uses[Reference(COUNTERS, name)].values() if value is not None}
        return tuple(sorted(value for value in values | {0, 1} if value >= 0))

    def _waits_for_children(self) -> bool:
        heard = any(event.startswith("child") for row in self.chart.model.transitions for event in row.events)
        return heard or any(reference.kind == CHILDREN for reference in self.uses)

    def starts(self) -> list[dict[str, Any]]:
        """The initial contexts of an instance, as far as the rules distinguish them."""
        default = self._default()
        free = self._free(default)
        fixed = {name: default.get(name) for name in self.names if name not in free}
        return [{**fixed, **case} for case in islice(_cases(free), MOST_STARTS)]

    def _free(self, default: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        return {name: values for name, values in self.candidates.items() if self._is_free(name, default)}

    @property
    def cut_short(self) -> bool:
        """Whether there are more starts or readings than are tried."""
        return max(_number(self._free(self._default())), _number(self.given)) > MOST_STARTS

    def _default(self) -> Mapping[str, Any]:
        kind = self.chart.context_type
        try:
            return {} if kind is None else kind.clean({})
        except Mismatch:
            return {}

    def _is_free(self, name: str, default: Mapping[str, Any]) -> bool:
        if name in self.unowned:
            return True
        use = self.uses[Reference(CONTEXT, name)]
        return use.number and name not in self.stamped and default.get(name) is None

    def readings(self) -> list[dict[str, Any]]:
        """What the engine can read for the rules in one step."""
        return list(islice(_cases(self.given), MOST_STARTS))

    def key(self, snapshot: Snapshot) -> Hashable:
        """The part of a snapshot's data that the rules distinguish."""
        context = snapshot.context
        times = sorted({str(context[name]) for name in self.stamped & self.names if context.get(name)})
        seen = tuple(self._seen(name, context.get(name), times) for name in sorted(self.names))
        counted = tuple(min(snapshot.counters.get(name, 0), most[-1]) for name, most in self.counters.items())
        children = tuple(sorted(snapshot.children.items()))
        return seen, counted, children

    def _seen(self, name: str, value: Any, times: list[str]) -> Hashable:
        if name not in self.stamped or not value:
            return repr(value)
        ordered = bool(self.uses[Reference(CONTEXT, name)].peers)
        return times.index(str(value)) if ordered else True

    def holding(self, snapshot: Snapshot, reading: Mapping[str, Any]) -> list[StateNode]:
        """The states whose rule holds."""
        values = {**dict.fromkeys(self.names), **reading, **snapshot.context}
        values |= {
            COUNTERS: CountsByName(snapshot.counters),
            CHILDREN: CountsByName(snapshot.children),
            GIVEN: reading,
        }
        return [node for node, rule in self.chart.rules if _holds(rule, values)]

    def cases(self) -> Iterator[list[StateNode]] | None:
        """For each combination of facts the states whose rule holds; None when there are too many."""
        kept: dict[str, tuple[Any, ...]] = {
            f"{CONTEXT} {name}": each for name, each in self.candidates.items()
        }
        kept |= {f"{COUNTERS} {name}": amounts for name, amounts in self.counters.items()}
        kept |= {f"{CHILDREN} {name}": tuple(range(self.most_children + 1)) for name in self.statuses}
        kept |= {f"{GIVEN} {name}": values for name, values in self.given.items()}
        return None if _number(kept) > MOST_CASES else (self._case(case) for case in _cases(kept))

    def _case(self, case: Mapping[str, Any]) -> list[StateNode]:
        parts: dict[str, dict[str, Any]] = {CONTEXT: {}, COUNTERS: {}, CHILDREN: {}, GIVEN: {}}
        for key, value in case.items():
            kind, _, name = key.partition(" ")
            parts[kind][name] = value
        snapshot = Snapshot(
            chart="",
            version=1,
            instance="",
            context=parts[CONTEXT],
            counters=parts[COUNTERS],
            children=parts[CHILDREN],
        )
        return self.holding(snapshot, parts[GIVEN])


def _texts(whole: model.Model, actions: list[model.Action]) -> Iterator[str]:
    """The expressions of a chart beside its rules."""
    for row in whole.transitions:
        yield from (condition.text for condition in row.when if isinstance(condition, model.Formula))
    for action in actions:
        if isinstance(action, model.Assign | model.Count) and action.expr is not None:
            yield action.expr
        elif isinstance(action, model.If):
            yield from (branch.when for branch in action.branches if branch.when is not None)


def _nodes(text: str) -> Iterator[ExpressionNode]:
    try:
        return walk(parse_node(text))
    except ExpressionError:
        return iter(())


def _literals(node: ExpressionNode) -> list[Any]:
    if isinstance(node, Literal):
        return [node.value]
    items = node.items if isinstance(node, ListOf) else ()
    return [item.value for item in items if isinstance(item, Literal)]


def written_names(action: model.Action) -> tuple[str, ...]:
    """The fields of the context that a declared action writes."""
    if isinstance(action, model.Put):
        return tuple(action.values)
    if isinstance(action, model.Stamp | model.Clear):
        return action.fields
    return (location_or_failing(action.location).root,) if isinstance(action, model.Assign) else ()


def _cases(values: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    names = list(values)
    for case in product(*(values[name] for name in names)):
        yield dict(zip(names, case, strict=True))


def _number(values: Mapping[str, tuple[Any, ...]]) -> int:
    return prod(max(len(each), 1) for each in values.values())


def _holds(rule: Expression, values: Mapping[str, Any]) -> bool:
    try:
        return truthy(rule.evaluate(PlainScope(values)))
    except EvaluationError:
        return False
