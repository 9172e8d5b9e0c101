"""One life of a chart in a test: no store, no worker, no waiting."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from headway.clock import milliseconds
from headway.statechart.chart import Charted, chart_of
from headway.statechart.effects import Effect
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import (
    SYSTEM,
    Actor,
    Event,
    OpenAsk,
    OpenWork,
    Row,
    Snapshot,
    timer_fired,
    work_done,
    work_failed,
    work_progress,
)
from headway.statechart.step.step import Step, start, step
from headway.statechart.types import plain
from headway.testing.clock import FakeClock

MOST_TIMERS = 10_000

Opened = TypeVar("Opened", OpenWork, OpenAsk)


class Journey:
    """Sends events, lets time pass and ends work, as the test says; a refusal fails the test.

    `snapshot` is where it stands, `steps`, `history` and `effects` what happened so far. `facts` is
    what the engine would read for the guards; a test may change it on the way.
    """

    def __init__(
        self,
        chart: Charted,
        *,
        context: object = None,
        clock: FakeClock | None = None,
        facts: Mapping[str, Any] | None = None,
        by: Actor = SYSTEM,
        instance: str = "it",
        seed: int = 0,
    ) -> None:
        self.chart = chart_of(chart)
        self.clock = clock or FakeClock()
        self.facts: dict[str, Any] = dict(facts or {})
        now = self.clock.now()
        begun = start(self.chart, instance, now=now, context=context, by=by, facts=self.facts, seed=seed)
        if not isinstance(begun, Step):
            raise AssertionError(f"{self.chart.name} does not begin: {begun.message}")  # noqa: TRY004 - a test fails
        self.snapshot: Snapshot = begun.snapshot
        self.steps: list[Step] = [begun]

    @property
    def states(self) -> tuple[str, ...]:
        """The active atomic states."""
        return self.snapshot.states

    @property
    def history(self) -> list[Row]:
        """All lines of the history so far."""
        return [row for each in self.steps for row in each.history]

    @property
    def effects(self) -> list[Effect]:
        """All that the world was asked to do so far."""
        return [effect for each in self.steps for effect in each.effects]

    def is_in(self, state: str) -> bool:
        """Whether a state is active, be it an outer one."""
        return any(node.id == state for node in self.chart.configuration(self.states))

    def attempt(self, event: Event | str) -> Step | Refusal:
        """Send an event and see what it gets."""
        sent = Event(event) if isinstance(event, str) else event
        answer = step(self.chart, self.snapshot, sent, self.clock.now(), facts=self.facts)
        if isinstance(answer, Step):
            self.snapshot = answer.snapshot
            self.steps.append(answer)
        return answer

    def send(self, event: Event | str) -> Step:
        """Send an event that goes through; raises AssertionError when it is refused."""
        answer = self.attempt(event)
        if isinstance(answer, Step):
            return answer
        raise AssertionError(f"{answer.message} ({answer.code})")

    def refused(self, event: Event | str) -> Refusal:
        """Send an event that is refused; raises AssertionError when it goes through."""
        answer = self.attempt(event)
        if isinstance(answer, Refusal):
            return answer
        raise AssertionError(f"{answer.history[0].event} was not refused: it led to {self.snapshot.state}")

    def answer(self, data: object = None, *, by: Actor, state: str | None = None) -> Step:
        """Answer the open ask by its form (of several, the one of a state)."""
        return self.send(
            Event("answer", plain(data), by, ref=self._open(self.snapshot.asks, "ask", state).id)
        )

    def advance(self, duration: str | float | timedelta) -> None:
        """Let time pass; the timers that become due fire in their order."""
        self.advance_to(self.clock.now() + timedelta(milliseconds=milliseconds(duration)))

    def advance_to(self, until: datetime) -> None:
        """Let time pass until then; the timers that become due fire in their order."""
        for _ in range(MOST_TIMERS):
            timers = self.snapshot.timers
            following = min(timers, key=lambda key: timers[key].due, default=None)
            if following is None or timers[following].due > until:
                self.clock.move_to(max(until, self.clock.now()))
                return
            self.clock.move_to(max(timers[following].due, self.clock.now()))
            self.send(timer_fired(following))
        raise AssertionError(f"{self.chart.name} sets timers without end in {self.snapshot.state}")

    def work_done(self, result: object = None, *, state: str | None = None) -> Step:
        """The open work (of several, that of a state) ends well."""
        work = self._attempt_due(state)
        return self.send(work_done(work.id, work.attempt, result))

    def work_fails(self, code: str, message: str = "", *, state: str | None = None) -> Step:
        """The open work fails; the chart retries it or not."""
        work = self._attempt_due(state)
        return self.send(work_failed(work.id, work.attempt, code, message))

    def work_progress(self, fraction: float, *, state: str | None = None, **data: object) -> Step:
        """The open work has come this far (0 to 1)."""
        work = self._attempt_due(state)
        return self.send(work_progress(work.id, work.attempt, fraction, **data))

    def _attempt_due(self, state: str | None) -> OpenWork:
        """The open work; a retry begins only when its delay is over."""
        work = self._open(self.snapshot.work, "work", state)
        if work.due is None or work.due <= self.clock.now():
            return work
        self.advance_to(work.due)
        return self._open(self.snapshot.work, "work", state)

    def _open(self, items: Mapping[str, Opened], noun: str, state: str | None) -> Opened:
        if state is not None and state in items:
            return items[state]
        if state is None and len(items) == 1:
            return next(iter(items.values()))
        if state is None and items:
            raise AssertionError(f"several are open: say of which state the {noun} is ({', '.join(items)})")
        raise AssertionError(f"no {noun} is open in {state or self.snapshot.state}")
