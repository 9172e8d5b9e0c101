"""A life to play with: one instance, its own time, and every moment it has been through."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Any, NamedTuple

from headway.errors import HeadwayError, InputError
from headway.statechart.chart import Chart
from headway.statechart.effects import Effect
from headway.statechart.model import Fact
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Row, Snapshot, timer_fired
from headway.statechart.step.step import Step, start, step

MOST_MOMENTS = 500
MOST_SESSIONS = 200
MOST_TIMERS = 1_000


class LostSessionError(HeadwayError):
    """There is no such session, or it belongs to another browser."""


class SessionStep(NamedTuple):
    """The instance after a step, the time of it, and what the step did."""

    snapshot: Snapshot
    now: datetime
    history: tuple[Row, ...] = ()
    effects: tuple[Effect, ...] = ()


class ExplorerSession:
    """One instance of a chart in one browser; it changes through `step` only."""

    def __init__(
        self, slug: str, chart: Chart, first: SessionStep, *, browser: str, facts: Mapping[str, Any]
    ) -> None:
        self.id = token_urlsafe(12)
        self.slug, self.chart, self.browser, self.facts = slug, chart, browser, dict(facts)
        self.moments: deque[SessionStep] = deque([first], MOST_MOMENTS)

    @property
    def moment(self) -> SessionStep:
        """Where the instance stands."""
        return self.moments[-1]

    @property
    def snapshot(self) -> Snapshot:
        """What the instance is now."""
        return self.moment.snapshot

    @property
    def now(self) -> datetime:
        """The session's own time: it passes only when asked to."""
        return self.moment.now

    def send(self, event: Event) -> Refusal | None:
        """Step the instance; a refusal changes nothing."""
        outcome = step(self.chart, self.snapshot, event, self.now, facts=self.facts)
        if not isinstance(outcome, Step):
            return outcome
        self.moments.append(SessionStep(outcome.snapshot, self.now, outcome.history, outcome.effects))
        return None

    def pass_time(self, until: datetime) -> Refusal | None:
        """Let time pass, with every timer that comes due on the way, in due order."""
        for _ in range(MOST_TIMERS):
            due = [(timer.due, name) for name, timer in self.snapshot.timers.items() if timer.due <= until]
            if not due:
                self._wait(until)
                return None
            when, name = min(due)
            self._wait(when)
            refusal = self.send(timer_fired(name))
            if refusal is not None:
                return refusal
        raise InputError(f"more than {MOST_TIMERS} timers came due: time stopped at {self.now.isoformat()}")

    def after(self, duration: int) -> datetime:
        """The time in so many milliseconds; raises InputError where the calendar ends."""
        try:
            return self.now + timedelta(milliseconds=duration)
        except OverflowError as error:
            raise InputError("the calendar ends before that") from error

    def go_back(self) -> None:
        """Undo the last step; the first moment stays."""
        if len(self.moments) > 1:
            self.moments.pop()

    def _wait(self, until: datetime) -> None:
        if until > self.now:
            self.moments.append(SessionStep(self.snapshot, until))


def begin(chart: Chart, now: datetime, context: object, facts: Mapping[str, Any]) -> SessionStep | Refusal:
    """The first moment of an instance; raises what `start` raises."""
    first = start(chart, f"{chart.name.lower()}-1", now=now, context=context, facts=facts)
    return (
        SessionStep(first.snapshot, now, first.history, first.effects) if isinstance(first, Step) else first
    )


def first_facts(facts: tuple[Fact, ...]) -> dict[str, Any]:
    """Facts before anybody says otherwise: the chart's examples, else 0 for a count and no record."""
    unsaid = {"record": None}
    return {fact.name: unsaid.get(fact.kind, 0) if fact.example is None else fact.example for fact in facts}


class ExplorerSessions:
    """The sessions of all browsers; beyond the limit the one not used for longest is dropped."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self.most = most
        self._kept: OrderedDict[str, ExplorerSession] = OrderedDict()

    def add(self, session: ExplorerSession) -> None:
        """Keep a session."""
        self._kept[session.id] = session
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)

    def get(self, name: str, browser: str | None) -> ExplorerSession:
        """The session of this browser; raises LostSessionError."""
        session = self._kept.get(name)
        if session is None or session.browser != browser:
            raise LostSessionError("there is no such session any more: start a new instance")
        self._kept.move_to_end(name)
        return session

    def drop(self, session: ExplorerSession) -> None:
        """Forget a session."""
        self._kept.pop(session.id, None)

    def __len__(self) -> int:
        return len(self._kept)
