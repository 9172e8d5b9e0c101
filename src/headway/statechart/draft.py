"""The working copy of a snapshot during one step, and what guards and actions see of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from headway.statechart.chart import Chart
from headway.statechart.effects import Effect
from headway.statechart.refusal import Objection
from headway.statechart.snapshot import Actor, Event, Row, Snapshot
from headway.statechart.tree import Node

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Counts(dict[str, int]):
    """Counts by name; a name that was never counted is 0."""

    def __missing__(self, name: str) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return True


class Draft:
    """A snapshot in the middle of a step. Nothing of the snapshot it starts from is ever written."""

    __slots__ = (
        "acted",
        "active",
        "asks",
        "base",
        "before",
        "chart",
        "children",
        "context",
        "counters",
        "current",
        "effects",
        "ended",
        "event",
        "external",
        "facts",
        "internal",
        "memory",
        "now",
        "objections",
        "output",
        "payload",
        "progress",
        "rows",
        "seq",
        "since",
        "target",
        "timers",
        "view",
        "votes",
        "work",
    )

    def __init__(
        self, chart: Chart, base: Snapshot, event: Event, now: datetime, facts: Mapping[str, Any]
    ) -> None:
        self.chart = chart
        self.base = base
        self.seq = base.seq + 1
        self.event = event
        self.current = event
        self.payload: Any = event.data
        self.now = now
        self.facts = facts
        self.active: list[Node] = []
        self.before: tuple[str, ...] = base.states
        self.target = ""
        self.context = base.context
        self.since = base.since
        self.timers = base.timers
        self.work = base.work
        self.asks = base.asks
        self.memory = base.memory
        self.acted = base.acted
        self.votes = base.votes
        self.counters = base.counters
        self.children = base.children
        self.progress = base.progress
        self.ended = base.ended
        self.output = base.output
        self.internal: deque[Event] = deque()
        self.external: deque[Event] = deque()
        self.effects: list[Effect] = []
        self.rows: list[Row] = []
        self.objections: list[Objection] = []
        self.view = View(self)

    def own(self, part: str) -> dict[str, Any]:
        """A mapping of the snapshot, copied before the first write to it."""
        value: dict[str, Any] = getattr(self, part)
        if value is getattr(self.base, part):
            value = dict(value)
            setattr(self, part, value)
        return value

    def identify(self) -> str:
        """The id of the next effect: the same whenever the step is repeated."""
        return f"{self.base.instance}:{self.seq}:{len(self.effects)}"

    def leaves(self) -> tuple[str, ...]:
        """The active atomic states."""
        return tuple([node.id for node in self.active if node.atomic])

    def row(self, transition: str, before: tuple[str, ...], event: Event, reason: str | None = None) -> None:
        """Add a line to the history."""
        sender = self.event
        self.rows.append(
            Row(
                seq=self.seq,
                index=len(self.rows),
                before=before,
                after=self.leaves(),
                event=event.name,
                transition=transition,
                actor=sender.by.id,
                at=self.now,
                reason=reason if reason is not None else sender.reason,
                attempt=sender.attempt,
                data=event.data,
            )
        )

    def snapshot(self) -> Snapshot:
        """The snapshot after the step."""
        base = self.base
        return Snapshot(
            chart=base.chart,
            version=base.version,
            instance=base.instance,
            seq=self.seq,
            states=self.leaves(),
            context=self.context,
            since=self.since,
            timers=self.timers,
            work=self.work,
            asks=self.asks,
            memory=self.memory,
            acted=self.acted,
            votes=self.votes,
            counters=self.counters,
            children=self.children,
            progress=self.progress,
            seed=base.seed,
            depth=base.depth,
            parent=base.parent,
            ended=self.ended,
            output=self.output,
        )


class View:
    """What a guard, an action or an expression sees: the instance, the event, the facts. Read only."""

    __slots__ = ("_draft",)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @property
    def context(self) -> Any:
        """The instance's data: a value of the chart's context type, or a mapping without one."""
        draft = self._draft
        kind = draft.chart.context_type
        return MappingProxyType(draft.context) if kind is None else kind.load(draft.context)

    @property
    def event(self) -> Event:
        """The event being handled."""
        return self._draft.current

    @property
    def payload(self) -> Any:
        """What the event carries: a value of the type the transition takes, or plain data."""
        return self._draft.payload

    @property
    def actor(self) -> Actor:
        """Who sent the event."""
        return self._draft.event.by

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the engine read for the guards of this chart."""
        return self._draft.facts

    @property
    def now(self) -> datetime:
        """The time of the step."""
        return self._draft.now

    @property
    def instance(self) -> str:
        """The id of the instance."""
        return self._draft.base.instance

    @property
    def states(self) -> tuple[str, ...]:
        """The ids of all active states, outer ones first."""
        return tuple(node.id for node in self._draft.active)

    @property
    def before(self) -> tuple[str, ...]:
        """The atomic states that were active before this transition."""
        return self._draft.before

    @property
    def target(self) -> str:
        """The state this transition goes to."""
        return self._draft.target

    @property
    def since(self) -> Mapping[str, datetime]:
        """When each active state was entered."""
        return MappingProxyType(self._draft.since)

    @property
    def counters(self) -> Mapping[str, int]:
        """The instance's counters; one never counted is 0."""
        return Counts(self._draft.counters)

    @property
    def children(self) -> Mapping[str, int]:
        """How many children are in which status; a status nobody has is 0."""
        return Counts(self._draft.children)

    @property
    def failures(self) -> int:
        """How many attempts at the work of the active states have failed."""
        return sum(sum(work.failures.values()) for work in self._draft.work.values())

    @property
    def progress(self) -> float:
        """How far the instance has come, in percent."""
        return self._draft.progress

    def in_state(self, name: str) -> bool:
        """Whether a state is active (`In('name')` in expressions)."""
        return any(node.id == name for node in self._draft.active)

    def lookup(self, name: str) -> object:
        """The value of a name in an expression; raises KeyError."""
        special = SPECIAL.get(name)
        if special is not None:
            return special(self._draft)
        draft = self._draft
        if name in draft.context:
            return draft.context[name]
        if name in draft.facts:
            return draft.facts[name]
        if draft.chart.computed:
            return None
        raise KeyError(name)


def _event_object(draft: Draft) -> dict[str, Any]:
    event = draft.current
    origin = "platform" if event.name.startswith(("done.", "error.")) else "external"
    kind = "internal" if event.reason == "internal" else origin
    seen: dict[str, Any] = {"name": event.name, "type": kind, "data": event.data}
    for key in ("sendid", "origin", "origintype", "invokeid"):
        seen[key] = None
    if event.ref is not None:
        seen["sendid"] = event.ref
    return seen


SPECIAL = {
    "_event": _event_object,
    "_name": lambda draft: draft.chart.name,
    "_sessionid": lambda draft: draft.base.instance,
    "_ioprocessors": lambda _draft: {"scxml": {"location": "#_internal"}},
    "children": lambda draft: Counts(draft.children),
    "counters": lambda draft: Counts(draft.counters),
    "facts": lambda draft: draft.facts,
}
