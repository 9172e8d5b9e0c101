"""The tree of a chart's states and the arcs between them: what is entered, left, and by which event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headway.statechart import model
from headway.statechart.expressions.expressions import Expression
from headway.statechart.model import ANY
from headway.statechart.types import DataType

Function = Callable[..., Any]
HISTORY = frozenset({"shallow", "deep"})
MOST_REMEMBERED = 64


RESERVED = frozenset(
    {
        "after",
        "answer",
        "ask",
        "chart",
        "child",
        "deadline",
        "done",
        "error",
        "escalate",
        "remind",
        "timer",
        "work",
    }
)
"""First words of event names that only the engine sends."""


def comes_from_engine(event: str) -> bool:
    """Whether only the engine sends an event; a plain word such as `error` may come from outside too."""
    return event == "timer" or ("." in event and event.partition(".")[0] in RESERVED)


class StateNode:
    """A state with its place in the tree; `index` to `last` are the states below it, in document order."""

    __slots__ = (
        "_matched",
        "after",
        "always",
        "answers",
        "arcs",
        "atomic",
        "children",
        "completion",
        "eventless",
        "history",
        "id",
        "idle",
        "index",
        "kind",
        "last",
        "model",
        "open",
        "parent",
        "path",
        "progress",
        "top",
        "upward",
    )

    def __init__(self, state: model.State, index: int, parent: StateNode | None) -> None:
        self.model = state
        self.id = state.id
        self.kind = state.kind
        self.index = index
        self.last = index
        self.parent = parent
        self.children: list[StateNode] = []
        self.history: list[StateNode] = []
        self.atomic = state.kind in {"atomic", "final"}
        self.arcs: dict[str, tuple[Arc, ...]] = {}
        self._matched: dict[str, tuple[Arc, ...]] = {}
        self.open = False
        self.always: tuple[Arc, ...] = ()
        self.eventless: tuple[Arc, ...] = ()
        self.after: tuple[Arc, ...] = ()
        self.completion: tuple[StateNode, ...] = ()
        self.upward: tuple[StateNode, ...] = (self, *parent.upward) if parent else (self,)
        self.path: tuple[StateNode, ...] = tuple(reversed(self.upward))[1:]
        self.top = self.path[0] if self.path else self
        busy = state.entry or state.exit or state.run or state.ask or state.progress or state.data
        self.idle = not (busy or state.kind == "final")
        self.progress: tuple[int, int] | None = state.progress or (parent.progress if parent else None)
        self.answers: tuple[str, ...] = ()

    def holds(self, other: StateNode) -> bool:
        """Whether the other state lies below this one."""
        return self.index < other.index <= self.last

    def matching(self, event: str) -> tuple[Arc, ...]:
        """The arcs that an event of this name triggers, in document order."""
        if "." not in event and not self.open:
            return self.arcs.get(event, ())
        known = self._matched.get(event)
        if known is None:
            names = (*names_matching(event), ANY)
            found = {arc.index: arc for name in names for arc in self.arcs.get(name, ())}
            known = tuple(found[index] for index in sorted(found))
            # Names come from outside too, and must not fill the memory.
            if len(self._matched) < MOST_REMEMBERED:
                self._matched[event] = known
        return known


class Arc:
    """A transition made ready: its nodes, functions, and the states it enters."""

    __slots__ = (
        "ballot",
        "busy",
        "by",
        "domain",
        "duties",
        "entries",
        "excludes",
        "form",
        "guards",
        "index",
        "model",
        "moves",
        "name",
        "plain",
        "source",
        "takes",
        "targets",
        "watched",
    )

    def __init__(
        self, row: model.Transition, index: int, source: StateNode, targets: tuple[StateNode, ...]
    ) -> None:
        self.model = row
        self.name = row.name
        self.index = index
        self.source = source
        self.targets = targets
        self.by = frozenset(row.by)
        self.duties = bool(row.distinct_from or row.quorum > 1 or row.countersign or row.no_agent)
        self.excludes = frozenset(row.excludes)
        self.guards: tuple[tuple[str, Function | Expression], ...] = ()
        self.takes: DataType | None = None
        self.form: DataType | None = None
        self.watched: tuple[str, ...] = ()
        self.ballot = f"{source.id}/{row.name}"
        self.domain = _domain(row, source, targets)
        self.entries: list[tuple[StateNode, ...] | None] = []
        self.plain = False
        self.busy = bool(row.actions)
        self.moves: dict[int, Move | None] = {}

    @property
    def entry(self) -> tuple[StateNode, ...] | None:
        """The states entered, when that is always the same; found out when the arc is first taken."""
        if not self.entries:
            self.entries.append(static_entry(self.targets, self.domain))
        return self.entries[0]


class Move:
    """An arc taken from one leaf on which nothing happens: no entry or exit action, timer, work or ask."""

    __slots__ = ("active", "entered", "kept", "left", "states")

    def __init__(self, leaf: StateNode, domain: StateNode, entering: tuple[StateNode, ...]) -> None:
        self.kept = tuple(node for node in leaf.path if not domain.holds(node))
        self.left = tuple(node.id for node in leaf.path if domain.holds(node))
        self.entered = tuple(node.id for node in entering)
        self.active = (*self.kept, *entering)
        self.states = tuple(node.id for node in self.active if node.atomic)


def quiet_move(arc: Arc, leaf: StateNode) -> Move | None:
    """The move of an arc from a leaf, or None when something happens on the way."""
    if arc.domain is None or arc.entry is None:
        return None
    left = [node for node in leaf.path if arc.domain.holds(node)]
    if all(node.idle for node in arc.entry) and all(node.idle and not node.history for node in left):
        return Move(leaf, arc.domain, arc.entry)
    return None


class Entering:
    """The states a move enters, and which of them are entered because nothing else was named."""

    __slots__ = ("by_default", "contents", "nodes", "occupied")

    def __init__(self) -> None:
        self.nodes: dict[int, StateNode] = {}
        self.occupied: set[int] = set()
        self.by_default: set[int] = set()
        self.contents: dict[int, tuple[model.Action, ...]] = {}

    def ordered(self) -> tuple[StateNode, ...]:
        """The states in the order they are entered."""
        return tuple(self.nodes[index] for index in sorted(self.nodes))


def names_matching(event: str) -> tuple[str, ...]:
    """The descriptors that match an event's name, the longest first: a.b.c, a.b, a."""
    if "." not in event:
        return (event,)
    names = [event]
    while "." in event:
        event = event.rpartition(".")[0]
        names.append(event)
    return tuple(names)


def descriptor(event: str) -> str:
    """A descriptor as it is filed: `error.*` and `error.` mean the same as `error`."""
    return ANY if event == ANY else event.removesuffix(".*").removesuffix(".")


def common_compound(nodes: list[StateNode]) -> StateNode:
    """The closest compound state, or the root, that holds all of them."""
    for above in nodes[0].upward[1:]:
        if above.kind == "compound" and all(above.holds(node) for node in nodes[1:]):
            return above
    return nodes[0].upward[-1]


def _domain(row: model.Transition, source: StateNode, targets: tuple[StateNode, ...]) -> StateNode | None:
    """The state inside which an arc moves; nothing outside of it is left or entered."""
    if not targets:
        return None
    if source.parent is None:
        return source
    if row.internal and source.kind == "compound" and all(source.holds(target) for target in targets):
        return source
    return common_compound([source, *targets])


def domain_given(
    arc: Arc, memory: Mapping[str, tuple[str, ...]], nodes: Mapping[str, StateNode]
) -> StateNode | None:
    """The domain of an arc; where it goes back to history, that depends on what is remembered."""
    if arc.entry is not None:
        return arc.domain
    targets: list[StateNode] = []
    for target in arc.targets:
        remembered = tuple(nodes[name] for name in memory.get(target.id, ()))
        targets += (remembered or _first_recalled(target)) if target.kind in HISTORY else (target,)
    return _domain(arc.model, arc.source, tuple(targets))


def static_entry(targets: tuple[StateNode, ...], domain: StateNode | None) -> tuple[StateNode, ...] | None:
    """The states entered, in order, or None when that depends on memory or has content of its own."""
    if domain is None:
        return ()
    entering = entry_set(targets, domain, None)
    if entering is None or any(node.model.initial_actions for node in entering.nodes.values()):
        return None
    return entering.ordered()


def first_entry(targets: tuple[StateNode, ...], root: StateNode) -> Entering | tuple[StateNode, ...]:
    """The states entered from nowhere, with nothing to remember: in order, if there is no more to it."""
    entering = static_entry(targets, root) or entry_set(targets, root, {})
    assert entering is not None
    return entering


def entry_set(
    targets: tuple[StateNode, ...], domain: StateNode, memory: Mapping[str, tuple[StateNode, ...]] | None
) -> Entering | None:
    """All states entered on the way to targets; None when it needs a memory that is not given."""
    entering = Entering()
    goals: list[tuple[StateNode, StateNode]] = [(target, domain) for target in targets]
    open_nodes: list[StateNode] = []
    while goals or open_nodes:
        if not goals:
            goals = _defaults(open_nodes.pop(0), entering)
            continue
        node, limit = goals.pop(0)
        if node.kind in HISTORY:
            if memory is None:
                return None
            goals += [(goal, limit) for goal in _remembered(node, memory, entering)]
            continue
        entering.nodes[node.index] = node
        open_nodes.append(node)
        open_nodes += _enter_above(node, limit, entering)
    return entering


def _enter_above(node: StateNode, limit: StateNode, entering: Entering) -> list[StateNode]:
    """Adds the states between a goal and its limit; answers those whose other regions wait."""
    parallel = []
    for above in node.upward[1:]:
        entering.occupied.add(above.index)
        if above is limit or above.parent is None:
            break
        if above.index not in entering.nodes:
            entering.nodes[above.index] = above
            if above.kind == "parallel":
                parallel.append(above)
    return parallel


def _defaults(node: StateNode, entering: Entering) -> list[tuple[StateNode, StateNode]]:
    if node.kind == "compound" and node.index not in entering.occupied:
        entering.by_default.add(node.index)
        return [(goal, node) for goal in node.completion]
    if node.kind == "parallel":
        return [(child, node) for child in node.children if child.index not in entering.nodes]
    return []


def _remembered(
    node: StateNode, memory: Mapping[str, tuple[StateNode, ...]], entering: Entering
) -> tuple[StateNode, ...]:
    remembered = memory.get(node.id)
    if remembered:
        return remembered
    parent = node.upward[1]
    entering.contents[parent.index] = node.model.initial_actions
    return _first_recalled(node)


def _first_recalled(node: StateNode) -> tuple[StateNode, ...]:
    """What a history state stands for before there is anything to remember."""
    parent = node.upward[1]
    if node.completion:
        return node.completion
    if parent.kind != "compound":
        return tuple(parent.children)
    first = tuple(each for each in parent.completion if each.kind not in HISTORY)
    return first or tuple(parent.children[:1])
