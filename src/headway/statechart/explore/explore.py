"""Bounded exhaustive exploration: every configuration that the real `step` can reach, and how."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from headway.codec import Value
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.explore.abstraction import MOST_ROWS, Abstraction, StepChoices
from headway.statechart.explore.events import AUTOMATIC, Happening, Happenings, Kind, People, distinct_codes
from headway.statechart.explore.facts import RuleFacts
from headway.statechart.refusal import Code, Refusal
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.draft import NOTHING
from headway.statechart.step.step import Step, start, step

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
MOST_ANSWERS = 512
MOST_ATTEMPTS = 50
"""Steps tried for each configuration of the limit, all together."""
QUIET: frozenset[Code] = frozenset({"guard", "illegal", "already", "actor"})


class Edge(NamedTuple):
    """One step from a configuration to another: what happened, and which rows fired."""

    source: int
    target: int
    label: str
    kind: Kind
    fired: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    guarded: bool = False
    doubtful: bool = False

    @property
    def automatic(self) -> bool:
        """Whether it happens without a sender from outside."""
        return self.kind in AUTOMATIC


class Denial(NamedTuple):
    """A step that was refused for more than a guard: the configuration, what happened, and why not."""

    source: int | None
    label: str
    code: Code
    message: str
    transitions: tuple[str, ...]
    guarded: bool


class Reached(Value, kw_only=False):
    """A configuration: one snapshot that stands for all alike, and the edge that first led to it."""

    index: int
    snapshot: Snapshot
    now: datetime
    fired: frozenset[str]
    label: str
    parent: Edge | None


class Exploration:
    """All configurations found, in order of distance from the start, with the steps between them."""

    def __init__(self, chart: Chart, facts: RuleFacts) -> None:
        self.chart = chart
        self.facts = facts
        self.nodes: list[Reached] = []
        self.edges: list[Edge] = []
        self.denials: list[Denial] = []
        self.passed: dict[str, tuple[str, ...]] = {}
        self.begun: set[int] = set()
        """The rows that fired at the start, before any step."""
        self.expanded = 0
        self.complete = True

    def __len__(self) -> int:
        """How many configurations were found."""
        return len(self.nodes)

    def path(self, index: int) -> tuple[str, ...]:
        """The shortest way to a configuration, as readable labels."""
        labels: list[str] = []
        node = self.nodes[index]
        while node.parent is not None:
            labels.append(node.parent.label)
            node = self.nodes[node.parent.source]
        if node.label != "start":
            labels.append(node.label)
        return tuple(reversed(labels))

    def path_to_state(self, state: str) -> tuple[str, ...] | None:
        """The shortest way to a state; None when it was not reached."""
        return self.passed.get(state)

    def path_over(self, edge: Edge) -> tuple[str, ...]:
        """The shortest way to a configuration, and one step further."""
        return (*self.path(edge.source), edge.label)

    def active(self, index: int) -> frozenset[str]:
        """All active states of a configuration, the outer ones too."""
        states = self.nodes[index].snapshot.states
        return frozenset(node.id for node in self.chart.configuration(states))

    @cached_property
    def outgoing(self) -> list[list[Edge]]:
        """The steps out of each configuration."""
        found: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    @cached_property
    def fired(self) -> dict[int, Edge]:
        """For each row that ever fired the first step in which it did."""
        found: dict[int, Edge] = {}
        for edge in self.edges:
            for row in edge.fired:
                found.setdefault(row, edge)
        return found

    @cached_property
    def certain(self) -> frozenset[int]:
        """Configurations reached without taking two guards to say no that may well exclude each other."""
        seen = {node.index for node in self.nodes if node.parent is None}
        pending = list(seen)
        while pending:
            for edge in self.outgoing[pending.pop()]:
                if not edge.doubtful and edge.target not in seen:
                    seen.add(edge.target)
                    pending.append(edge.target)
        return frozenset(seen)

    def live(self) -> Iterator[Reached]:
        """The configurations to judge: certain, looked at in full, and not at the end."""
        for node in self.nodes[: self.expanded]:
            if node.index in self.certain and not node.snapshot.ended:
                yield node


def explore(chart: Charted, *, limit: int = 20_000, watch: Collection[str] = ()) -> Exploration:
    """Every configuration of a chart, up to a limit; guards and data go each way they could.

    `watch` names transitions: configurations then also differ by which of them have fired.
    """
    return _Explorer(chart_of(chart), limit, frozenset(watch)).run()


class _Explorer:
    """One exploration under way."""

    def __init__(self, chart: Chart, limit: int, watch: frozenset[str]) -> None:
        self.original = chart
        self.limit = max(limit, 1)
        self.attempts = self.limit * MOST_ATTEMPTS
        self.watch = watch
        self.facts = RuleFacts(chart)
        # A step that takes every row of a large chart once does not go round in a circle.
        self.choices = StepChoices(max(MOST_ROWS, 2 * len(chart.model.transitions)))
        self.chart = Abstraction(chart, self.choices, self.facts).chart()
        self.happenings = Happenings(self.chart, People(self.chart), self.facts)
        self.happenings.codes = {
            state: distinct_codes(self.chart, state, codes) for state, codes in self.happenings.codes.items()
        }
        self.readings = self.facts.readings() or [dict(NOTHING)]
        self.found = Exploration(chart, self.facts)
        self.found.complete = not self.facts.cut_short
        self.known: dict[Hashable, int] = {}
        self.rows = chart.model.transitions

    def run(self) -> Exploration:
        found = self.found
        self._begin()
        while found.expanded < len(found.nodes):
            node = found.nodes[found.expanded]
            if not node.snapshot.ended:
                if len(found.nodes) >= self.limit:
                    found.complete = False
                    break
                self._expand(node)
                if self.attempts <= 0:
                    found.complete = False
                    break
            found.expanded += 1
        return found

    def _begin(self) -> None:
        contexts = self.facts.starts()
        for context in contexts:
            values = ", ".join(f"{name}={context[name]!r}" for name in sorted(self.facts.unowned))
            label = f"start with {values}" if len(contexts) > 1 else "start"
            for reading in self.readings:
                self._tried(
                    lambda c=context, r=reading: start(self.chart, now=BEGINNING, context=c, facts=r), label
                )

    def _expand(self, node: Reached) -> None:
        for happening in self.happenings.after(node.snapshot, node.now):
            for reading in self.readings:
                self._tried(
                    lambda h=happening, r=reading: step(self.chart, h.before, h.event, h.now, facts=r),
                    happening.label,
                    node,
                    happening,
                )

    def _tried(
        self, attempt: Any, label: str, source: Reached | None = None, happening: Happening | None = None
    ) -> None:
        """Take a step once for each way its questions can be answered."""
        scripts: list[tuple[int, ...]] = [()]
        for count, script in enumerate(scripts):
            if count >= MOST_ANSWERS or self.attempts <= 0:
                self.found.complete = False
                return
            self.attempts -= 1
            self.choices.begin(script)
            outcome = attempt()
            scripts.extend(self.choices.further_scripts())
            if isinstance(outcome, Refusal):
                self._refused(outcome, label, source)
            elif happening is None or source is None:
                self._begun(outcome, label)
            else:
                self._stepped(outcome, source, happening)

    def _refused(self, refusal: Refusal, label: str, source: Reached | None) -> None:
        transitions = tuple(each.transition for each in refusal.objections if each.code == "duty")
        if refusal.code not in QUIET or transitions:
            index = None if source is None else source.index
            names = transitions or tuple(self.rows[row].name for row in self.choices.fired)
            guarded = bool(self.choices.answers)
            if refusal.code == "runaway" and guarded:
                # At run time a guard may say no in the next round, and the step continues from there.
                self.found.complete = False
            self.found.denials.append(
                Denial(
                    source=index,
                    label=self._labelled(label),
                    code=refusal.code,
                    message=refusal.message,
                    transitions=names,
                    guarded=guarded,
                )
            )

    def _labelled(self, label: str) -> str:
        """The label, and which guards have to say no for it to go this way."""
        denied = dict.fromkeys(condition for _, condition, _ in self.choices.denied)
        return f"{label} (not {', not '.join(denied)})" if denied else label

    def _begun(self, outcome: Step, label: str) -> None:
        rows = self.choices.fired
        self.found.begun.update(rows)
        self._add(outcome, self._labelled(label), BEGINNING, self._watched(rows), edge=None)

    def _watched(self, rows: Iterable[int]) -> frozenset[str]:
        return self.watch & {self.rows[row].name for row in rows}

    def _stepped(self, outcome: Step, source: Reached, happening: Happening) -> None:
        rows = tuple(self.choices.fired)
        names = tuple(row.transition for row in outcome.history if row.transition)
        fired = source.fired | self._watched(rows)
        edge = Edge(
            source=source.index,
            target=-1,
            label=self._labelled(happening.label),
            kind=happening.kind,
            fired=rows,
            names=names,
            guarded=bool(self.choices.answers),
            doubtful=self._is_doubtful(outcome.snapshot, rows, happening.kind),
        )
        target = self._add(outcome, edge.label, happening.now, fired, edge=edge)
        if target != source.index or rows or names:
            self.found.edges.append(edge._replace(target=target))

    def _is_doubtful(self, snapshot: Snapshot, rows: tuple[int, ...], kind: Kind) -> bool:
        """Whether it rests here only because several guards, which may exclude each other, all said no."""
        denied = self.choices.denied
        if not rows and kind in AUTOMATIC:
            return len({condition for _, condition, _ in denied}) > 1
        resting = tuple(node.id for node in self.chart.configuration(snapshot.states))
        waiting = {text for row, text, states in denied if states == resting and not self.rows[row].events}
        return len(waiting) > 1

    def _add(
        self, outcome: Step, label: str, now: datetime, fired: frozenset[str], *, edge: Edge | None
    ) -> int:
        self._pass(outcome, label, edge)
        key = self._key(outcome.snapshot, fired)
        index = self.known.setdefault(key, len(self.found.nodes))
        if index == len(self.found.nodes):
            parent = None if edge is None else edge._replace(target=index)
            self.found.nodes.append(
                Reached(
                    index=index, snapshot=outcome.snapshot, now=now, fired=fired, label=label, parent=parent
                )
            )
        return index

    def _pass(self, outcome: Step, label: str, edge: Edge | None) -> None:
        """Note the way to each state entered, also to those that were left at once."""
        entered = {node.id for row in outcome.history for node in self.chart.configuration(row.after)}
        for state in entered - self.found.passed.keys():
            start_label = () if label == "start" else (label,)
            self.found.passed[state] = start_label if edge is None else self.found.path_over(edge)

    def _key(self, snapshot: Snapshot, fired: frozenset[str]) -> Hashable:
        if snapshot.ended:
            return snapshot.states, self.facts.key(snapshot), fired
        # A set: an event that is sent later twice over is taken for one, or there would be no end of them.
        timers = {
            (timer.state or "", timer.event, repr(timer.data))
            for timer in snapshot.timers.values()
            if not timer.event.startswith("remind.")
        }
        return (
            snapshot.states,
            _frozen(snapshot.memory),
            frozenset(timers),
            tuple(sorted(snapshot.work)),
            tuple(sorted((state, ask.roles) for state, ask in snapshot.asks.items())),
            tuple(sorted((name, tuple(sorted(by))) for name, by in snapshot.acted.items())),
            tuple(sorted((name, _frozen(votes)) for name, votes in snapshot.votes.items())),
            self.facts.key(snapshot),
            fired,
        )


def _frozen(mapping: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(mapping.items()))
