"""Invariants: what a chart promises of every configuration it can reach, proved or refuted."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headway.codec import Value
from headway.statechart.chart import Charted, chart_of
from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.explore.explore import Exploration, Reached, explore
from headway.statechart.refusal import No
from headway.statechart.tree import Function
from headway.statechart.validation.validate import suggestion


class Explored:
    """What an invariant sees of one configuration."""

    __slots__ = ("_asked", "_explored", "_node")

    def __init__(self, explored: Exploration, node: Reached, asked: set[str]) -> None:
        self._explored = explored
        self._node = node
        self._asked = asked

    @property
    def states(self) -> tuple[str, ...]:
        """The ids of all active states, outer ones first."""
        return tuple(node.id for node in self._explored.chart.configuration(self._node.snapshot.states))

    @property
    def status(self) -> str:
        """The outermost active state."""
        return self.states[0]

    @property
    def ended(self) -> bool:
        """Whether the life is over."""
        return self._node.snapshot.ended

    @property
    def asks(self) -> frozenset[str]:
        """The states whose ask is open."""
        return frozenset(self._node.snapshot.asks)

    @property
    def work(self) -> frozenset[str]:
        """The states whose work is open."""
        return frozenset(self._node.snapshot.work)

    def in_state(self, name: str) -> bool:
        """Whether a state is active; raises LookupError for a state that does not exist."""
        _must_be(name, self._explored.chart.nodes, "state")
        return name in self.states

    def fired(self, name: str) -> bool:
        """Whether a transition was taken on the way here; raises LookupError for one that does not exist."""
        _must_be(name, {row.name for row in self._explored.chart.model.transitions}, "transition")
        self._asked.add(name)
        return name in self._node.fired


def _must_be(name: str, known: Collection[str], kind: str) -> None:
    """An unknown state name would make an invariant hold for the wrong reason."""
    if name not in known:
        raise LookupError(f"there is no {kind} {name!r}{suggestion(name, known)}")


class Violation(Value):
    """A promise that is broken: by which configuration, and the shortest way to it."""

    invariant: str
    promise: str
    states: tuple[str, ...]
    path: tuple[str, ...]
    reason: str = ""
    failed: bool = False

    def __str__(self) -> str:
        """The promise, where it breaks, and how to get there."""
        way = " → ".join(self.path) or "at once"
        said = f" ({self.reason})" if self.reason else ""
        return f"{self.promise}: broken in {'+'.join(self.states)}{said}; path: {way}"


class Proof(Value):
    """The outcome for all invariants of a chart; goes through the violations like a list."""

    invariants: tuple[str, ...]
    violations: tuple[Violation, ...]
    configurations: int
    complete: bool
    unbound: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every invariant holds in every configuration."""
        return self.complete and not self.violations and not self.unbound

    def __iter__(self) -> Iterator[Violation]:
        """The violations."""
        return iter(self.violations)

    def __len__(self) -> int:
        """How many violations there are."""
        return len(self.violations)

    def __str__(self) -> str:
        """The outcome in words."""
        if self.violations:
            return "\n".join(str(each) for each in self.violations)
        if self.unbound:
            return f"not proved: no function is registered for {', '.join(self.unbound)}"
        if not self.complete:
            return (
                f"not proved: only {self.configurations} configurations were looked at, and there may be more"
            )
        return f"proved for all {self.configurations} reachable configurations"


def prove(chart: Charted, *, limit: int = 20_000, explored: Exploration | None = None) -> Proof:
    """Try every invariant of a chart on every configuration it can reach; `explored` saves the first look.

    What `fired` is asked about is found out by asking: configurations then differ by it too.
    """
    ready = chart_of(chart)
    names = tuple(each.name for each in ready.model.invariants)
    watch: set[str] = set()
    explored = explore(ready, limit=limit) if explored is None else explored
    asked: set[str] = set()
    violations = _violations(explored, names, asked)
    # Each round watches a transition more, so it ends after as many rounds as there are transitions.
    while not asked <= watch:
        watch |= asked
        explored = explore(ready, limit=limit, watch=watch)
        violations = _violations(explored, names, asked)
    return Proof(
        invariants=names,
        violations=tuple(violations),
        configurations=len(explored),
        complete=explored.complete,
        unbound=tuple(name for name in names if name not in ready.functions),
    )


def _violations(explored: Exploration, names: tuple[str, ...], asked: set[str]) -> list[Violation]:
    found = []
    for name in names:
        function = explored.chart.functions.get(name)
        first = None
        if function is not None:
            tried = (_tried(explored, node, function, asked) for node in explored.nodes)
            # All are looked at, so that every question to `fired` is heard.
            first = next(iter([each for each in tried if each is not None]), None)
        if first is not None:
            found.append(first)
    return found


def _tried(explored: Exploration, node: Reached, invariant: Function, asked: set[str]) -> Violation | None:
    failed, reason = False, ""
    try:
        answer = invariant(Explored(explored, node, asked))
        if answer:
            return None
        failed = answer is None
        reason = answer.reason if isinstance(answer, No) else "it answers neither yes nor no" * failed
    except Exception as error:  # noqa: BLE001 - any error of an invariant is reported with its place
        failed, reason = True, f"{type(error).__name__}: {error}"
    return Violation(
        invariant=invariant.__name__,
        promise=getattr(invariant, "__headway_invariant__", invariant.__name__),
        states=node.snapshot.states,
        path=explored.path(node.index),
        reason=reason,
        failed=failed,
    )


def findings(analysis: Analysis) -> Iterator[Finding]:
    """Each invariant that is not proved, with the shortest counter-example."""
    if not analysis.chart.model.invariants:
        return
    proof = prove(analysis.chart, limit=analysis.limit, explored=analysis.explored)
    for each in proof.violations:
        kind = "invariant-failed" if each.failed else "invariant-violated"
        said = f" ({each.reason})" if each.reason else ""
        yield error(
            kind,
            f"{each.invariant} promises {each.promise!r}, but not in {'+'.join(each.states)}{said}",
            state="+".join(each.states),
            transition=each.invariant,
            path=each.path,
        )
    for name in proof.unbound:
        yield warning(
            "invariant-unproved", f"no function is registered for the invariant {name}", transition=name
        )
    if not proof.complete:
        yield warning("invariant-unproved", f"the invariants are {proof}")
