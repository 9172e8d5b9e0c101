"""A session of the explorer: one instance with its own time, its steps, and what a page shows of it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Any, NamedTuple

from headway.cli.explorer.charts import example
from headway.clock import spell
from headway.codec import to_data
from headway.errors import HeadwayError, InputError
from headway.statechart.chart import Chart, all_actions
from headway.statechart.drawings import labels
from headway.statechart.effects import Effect
from headway.statechart.explain import Way, Why, explain
from headway.statechart.model import Fact, Run, Spawn
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


MOST_ROWS = 200


def session_view(session: ExplorerSession) -> dict[str, Any]:
    """All that the page shows of a session."""
    snapshot, now = session.snapshot, session.now
    why = explain(session.chart, snapshot, now, facts=session.facts)
    active = session.chart.configuration(snapshot.states)
    shown: dict[str, Any] = {
        "id": session.id,
        "chart": session.slug,
        "now": now,
        "states": snapshot.states,
        "active": [node.id for node in active],
        "marks": [f"state-{node.index}" for node in active],  # what `dot` calls them in a drawing
        "about": [
            {"id": node.id, "meaning": node.model.meaning, "waits_for": node.model.waits_for}
            for node in active
        ],
        "ended": snapshot.ended,
        "output": snapshot.output,
        "progress": snapshot.progress if any(node.model.progress for node in session.chart.order) else None,
        "context": snapshot.context,
        "counters": snapshot.counters,
        "facts": session.facts,
        "why": {"text": str(why), "stuck": why.stuck, "waits": why.waits, "since": why.since},
        "events": _events(session, why),
        "timers": _timers(session),
        "work": _work(session),
        "children": _children(session),
        "history": [row for moment in session.moments for row in moment.history][-MOST_ROWS:],
        "effects": session.moment.effects,
        "can_go_back": len(session.moments) > 1,
    }
    data: dict[str, Any] = to_data(shown)
    return data


def refusal_view(refusal: Refusal) -> dict[str, Any]:
    """A refusal with all it says."""
    data: dict[str, Any] = to_data(
        {
            "code": refusal.code,
            "message": refusal.message,
            "event": refusal.event,
            "states": refusal.states,
            "objections": refusal.objections,
            "allowed": [
                {"event": each.event, "by": each.by, "targets": each.targets} for each in refusal.allowed
            ],
        }
    )
    return data


def _events(session: ExplorerSession, why: Why) -> list[dict[str, Any]]:
    """What can be sent now, once for each name."""
    found: dict[str, dict[str, Any]] = {}
    for way in why.ways:
        for event in way.events:
            known = found.setdefault(event, _event(session, event))
            known["by"] = list(dict.fromkeys([*known["by"], *way.by]))
            known["ways"].append(_way(session.chart, way))
            if not known["takes"]:
                known.update(_payload(session.chart, way))
    return list(found.values())


def _event(session: ExplorerSession, event: str) -> dict[str, Any]:
    """The empty entry of an event; the answer to an ask names the ask."""
    kind, _, state = event.partition(".")
    ask = session.snapshot.asks.get(state) if kind == "answer" else None
    shown: dict[str, Any] = {
        "event": event,
        "sends": event,
        "ref": None,
        "by": [],
        "ways": [],
        "takes": None,
        "example": None,
    }
    if ask is not None:
        asked = session.chart.nodes[state].model.ask
        form = asked.form if asked else None
        shown |= {"sends": "answer", "ref": ask.id, "by": list(ask.roles)}
        shown |= {"takes": form, "example": _first_value(session.chart, form)} if form else {}
    return shown


def _way(chart: Chart, way: Way) -> dict[str, Any]:
    rows = [row for row in chart.model.transitions if row.name == way.transition]
    return {
        "transition": way.transition,
        "targets": way.targets,
        "meaning": next((row.meaning for row in rows if row.meaning), ""),
        "duties": list(dict.fromkeys(duty for row in rows for duty in labels.duties(row))),
        "says_no": list(way.says_no.values()),
        "barred": way.barred,
        "votes": way.votes,
    }


def _payload(chart: Chart, way: Way) -> dict[str, Any]:
    kinds = [arc.takes or arc.form for arc in chart.arcs if arc.name == way.transition]
    takes = [kind.name for kind in kinds if kind is not None]
    return {"takes": takes[0], "example": _first_value(chart, takes[0])} if takes else {}


def _first_value(chart: Chart, name: str) -> Any:
    return example(chart.types[name].schema()) if name in chart.types else None


def _timers(session: ExplorerSession) -> list[dict[str, Any]]:
    timers = sorted(session.snapshot.timers.items(), key=lambda item: (item[1].due, item[0]))
    return [
        {
            "id": name,
            "event": timer.event,
            "state": timer.state,
            "due": timer.due,
            "in": until(timer.due, session.now),
        }
        for name, timer in timers
    ]


def until(moment: datetime, now: datetime) -> str:
    """How long it takes, as people write it."""
    return spell(max(round((moment - now).total_seconds() * 1_000), 0))


def _work(session: ExplorerSession) -> list[dict[str, Any]]:
    shown = []
    for state, work in session.snapshot.work.items():
        run = session.chart.nodes[state].model.run
        shown.append(
            {
                "id": work.id,
                "state": state,
                "handler": run.handler if run else state,
                "attempt": work.attempt,
                "in": until(work.due, session.now) if work.due and work.due > session.now else None,
                "codes": _codes(run) if run else [],
            }
        )
    return shown


def _codes(run: Run) -> list[str]:
    named: Iterable[str] = (*run.errors, *(code for policy in run.retry for code in policy.on))
    return list(dict.fromkeys([*named, run.timeout_code, run.lost_code]))


def _children(session: ExplorerSession) -> dict[str, Any] | None:
    """The counts of children by status, for charts that have any."""
    spawns = [action.chart for action in all_actions(session.chart.model) if isinstance(action, Spawn)]
    if not spawns and not session.snapshot.children:
        return None
    return {"charts": list(dict.fromkeys(spawns)), "counts": session.snapshot.children}
