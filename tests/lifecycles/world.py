"""Instances of charts in memory: what one does for another is delivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.statechart.authoring.statechart import Statechart
from headway.statechart.effects import Deliver, Effect, ReportToParent, SpawnChild
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Snapshot, child_changed, timer_fired, work_done, work_failed
from headway.statechart.step.step import Step, start, status_of, step

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """Some instances, a clock, and the messages between them in order."""

    def __init__(self, *charts: type[Statechart], **facts: Any) -> None:
        self.charts = {chart.chart.name: chart for chart in charts}
        self.facts: Mapping[str, Any] = facts
        self.now = BEGIN
        self.of: dict[str, Snapshot] = {}
        self.effects: list[Effect] = []
        self.refusals: list[Refusal] = []
        self._waiting: deque[Callable[[], object]] = deque()

    def create(
        self,
        chart: type[Statechart],
        instance: str = "it",
        *,
        parent: str | None = None,
        level: int = 0,
        **context: Any,
    ) -> None:
        """Begin a life."""
        begun = start(
            chart, instance, now=self.now, context=context, facts=self.facts, parent=parent, depth=level
        )
        assert isinstance(begun, Step), begun
        self._take(begun)
        self._settle()

    def send(self, event: Event, to: str = "it") -> Step:
        """Send an event that is taken, and deliver all that follows from it."""
        answer = self._decide(event, to)
        assert isinstance(answer, Step), answer
        self._settle()
        return answer

    def refused(self, event: Event, to: str = "it") -> Refusal:
        """Send an event that is refused and changes nothing."""
        answer = self._decide(event, to)
        assert isinstance(answer, Refusal), answer
        return answer

    def done(self, to: str = "it", **result: Any) -> Step:
        """The open work of an instance is done."""
        (work,) = self.of[to].work.values()
        return self.send(work_done(work.id, work.attempt, result), to)

    def failed(self, code: str, to: str = "it", message: str = "") -> Step:
        """The open work of an instance has failed."""
        (work,) = self.of[to].work.values()
        return self.send(work_failed(work.id, work.attempt, code, message), to)

    def pass_time(self, seconds: float) -> None:
        """Let time pass; timers fire when they are due."""
        until = self.now + timedelta(seconds=seconds)
        while due := self._next_timer(until):
            self.now, instance, timer = due
            self.send(timer_fired(timer), instance)
        self.now = until

    def status(self, of: str = "it") -> str:
        """The outermost state of an instance."""
        snapshot = self.of[of]
        return status_of(self.charts[snapshot.chart], snapshot.states) or ""

    def children(self, of: str = "it") -> list[str]:
        """The ids of an instance's children."""
        return [name for name, each in self.of.items() if each.parent == of]

    def found(self, kind: type[Effect]) -> list[Any]:
        """The effects of one kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def _next_timer(self, until: datetime) -> tuple[datetime, str, str] | None:
        due = [
            (timer.due, name, key)
            for name, each in self.of.items()
            for key, timer in each.timers.items()
            if timer.due <= until
        ]
        return min(due, default=None)

    def _decide(self, event: Event, to: str) -> Step | Refusal:
        before = self.of[to]
        answer = step(self.charts[before.chart], before, event, self.now, facts=self.facts)
        if isinstance(answer, Step):
            self._take(answer)
        else:
            self.refusals.append(answer)
        return answer

    def _take(self, taken: Step) -> None:
        snapshot = taken.snapshot
        self.of[snapshot.instance] = snapshot
        self.effects += taken.effects
        for effect in taken.effects:
            self._forward(snapshot, effect)

    def _forward(self, sender: Snapshot, effect: Effect) -> None:
        if isinstance(effect, SpawnChild):
            self._waiting.append(lambda: self._spawn(sender.instance, effect))
        elif isinstance(effect, ReportToParent):
            news = child_changed(sender.instance, effect.before, effect.after, effect.errors)
            self._waiting.append(lambda: self._decide(news, effect.parent))
        elif isinstance(effect, Deliver):
            self._waiting.append(lambda: self._deliver(sender.instance, effect))

    def _spawn(self, parent: str, effect: SpawnChild) -> None:
        chart = self.charts[effect.chart]
        self.create(chart, effect.child, parent=parent, level=effect.depth, **effect.context)

    def _deliver(self, sender: str, effect: Deliver) -> None:
        receivers = self.children(sender) if effect.to == "children" else [effect.to]
        for receiver in receivers:
            self._decide(Event(effect.event, effect.data), receiver)

    def _settle(self) -> None:
        while self._waiting:
            self._waiting.popleft()()
