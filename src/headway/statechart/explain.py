"""`explain`: why an instance stands where it stands, and who or what could move it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from headway.codec import Value
from headway.errors import HeadwayError, InputError, shown
from headway.statechart import model
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.identity import same_id
from headway.statechart.people import concerns, split, wanted, with_entries
from headway.statechart.refusal import Obstacle, roles_now, spoken
from headway.statechart.snapshot import Actor, Event, OpenAsk, OpenWork, Snapshot
from headway.statechart.step.authority import answered, answering, is_claimed, only_for, stands_in
from headway.statechart.step.draft import NOTHING, Draft, draft_of
from headway.statechart.step.duties import NO_PLACE, needs_votes, objection_to, voters_of
from headway.statechart.step.selection import verdict
from headway.statechart.step.step import in_utc
from headway.statechart.step.work import losses
from headway.statechart.tree import Arc, StateNode

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Wait(Value):
    """Something an instance waits for."""

    kind: Literal["person", "work", "children", "event"]
    state: str
    what: str
    until: datetime | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegated_to: str | None = None


class Way(Value):
    """A transition out of where the instance stands: who may fire it, and which guards say no.

    `says_no` has the reason of each guard in the way; `broken` are those that failed with an error.
    `only_for` is the holder of the ask that it answers. A delegate acts `in_place_of` others, or
    `needs_role`: one of `by`.
    """

    transition: str
    events: tuple[str, ...]
    by: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    says_no: dict[str, str] = {}
    broken: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    votes: tuple[str, ...] = ()
    votes_needed: int = 1
    only_for: str | None = None
    in_place_of: tuple[str, ...] = ()
    needs_role: bool = False
    depends_on_event: bool = False

    @property
    def open(self) -> bool:
        """Whether nothing is known to be in the way."""
        return not self.says_no


class DueTimer(Value):
    """A timer that is set, and what it will send."""

    id: str
    due: datetime
    event: str
    late: bool = False


class Why(Value):
    """The answer of `explain`."""

    instance: str
    states: tuple[str, ...]
    since: datetime | None
    waits: tuple[Wait, ...] = ()
    ways: tuple[Way, ...] = ()
    timers: tuple[DueTimer, ...] = ()
    ended: bool = False
    stuck: bool = False

    def __str__(self) -> str:
        """What a person wants to read first."""
        where = f"{self.instance} is in {' + '.join(self.states)}"
        if self.ended:
            return f"{where}, a final state."
        lines = [f"{where}." if not self.stuck else f"{where} and stuck: nothing can move it."]
        lines += [f"It waits for {wait.what}{_until(wait.until)}." for wait in self.waits]
        lines += [_spoken(way) for way in self.ways]
        lines += [f"The timer {timer.event} is due at {timer.due.isoformat()}." for timer in self.timers]
        return "\n".join(lines)


def explain(chart: Charted, snapshot: Snapshot, now: datetime, *, facts: Mapping[str, Any] = NOTHING) -> Why:
    """What an instance waits for, who can act, which guards say no and why, the next timers, or "stuck".

    Raises InputError when the snapshot is not one of this chart, UnboundError as `step` does.
    """
    ready = chart_of(chart)
    ready.require_bound()
    if getattr(snapshot, "chart", None) != ready.name:
        raise InputError(f"not a snapshot of {ready.name}: {shown(snapshot)}")
    try:
        return _explained(ready, snapshot, now, facts)
    except HeadwayError:
        raise
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise InputError(f"not a snapshot of {ready.name}: {error}") from error


def answers_open_to(chart: Chart, snapshot: Snapshot, ask: str, actor: Actor) -> tuple[str, ...]:
    """The answers to an open question that roles, delegation and duties leave open to somebody.

    Claims and guards are not looked at. Without any, the question can be neither claimed nor delegated.
    """
    draft = draft_of(chart, snapshot, Event("why"), LONG_AGO, facts=NOTHING)
    if actor.own and not concerns(chart.people, snapshot, actor):
        return ()
    actor = with_entries(actor, chart.people, snapshot)
    for state, question in snapshot.asks.items():
        if question.id == ask and (question.delegated_to is None or same_id(question.delegated_to, actor.id)):
            arcs = [arc for arc in answering(draft, state) if objection_to(draft, arc, actor) is None]
            found = {event for arc in arcs for event in arc.model.events}
            return tuple(event for event in chart.nodes[state].answers if event in found)
    return ()


def _explained(chart: Chart, snapshot: Snapshot, now: datetime, facts: Mapping[str, Any]) -> Why:
    if not snapshot.states or snapshot.version != chart.version:
        raise InputError(f"not a snapshot of {chart.name} v{chart.version}: {shown(snapshot)}")
    draft = draft_of(chart, snapshot, Event("why"), in_utc(now), facts=facts)
    timers = sorted(snapshot.timers.items(), key=lambda item: (item[1].due, item[0]))
    since = min((snapshot.since[state] for state in snapshot.states if state in snapshot.since), default=None)
    if snapshot.ended:
        return Why(instance=snapshot.instance, states=snapshot.states, since=since, ended=True)
    ways = tuple(_way(draft, arc) for arc in _arcs(draft))
    waits = (*_asks(draft), *_work(draft), *_children(draft), *_events(draft))
    moved_by_itself = bool(timers or snapshot.work or _children(draft))
    return Why(
        instance=snapshot.instance,
        states=snapshot.states,
        since=since,
        waits=waits,
        ways=ways,
        timers=tuple(
            DueTimer(id=key, due=timer.due, event=timer.event, late=timer.due < now) for key, timer in timers
        ),
        stuck=not moved_by_itself and not any(way.open for way in ways),
    )


def _arcs(draft: Draft) -> list[Arc]:
    """The transitions that an event from outside could fire now, inner states first."""
    active = {node.id for node in draft.active}
    nodes: list[StateNode] = [*reversed(draft.active), draft.chart.root]
    found: dict[int, Arc] = {}
    for node in nodes:
        for arcs in node.arcs.values():
            for arc in arcs:
                if not arc.excludes & active and any(spoken(event) is not None for event in arc.model.events):
                    found[arc.index] = arc
    return list(found.values())


def _way(draft: Draft, arc: Arc) -> Way:
    row = arc.model
    objections, depends = _objections(draft, arc)
    roles, people = split(roles_now(draft.chart, arc, draft.asks), draft)
    return Way(
        transition=arc.name,
        events=tuple(filter(None, map(spoken, row.events))),
        by=roles,
        people=people,
        targets=row.targets or row.lands,
        says_no={name: no.reason for name, no in objections.items()},
        broken=tuple(name for name, no in objections.items() if no.code == "fault"),
        barred=tuple(dict.fromkeys(who for name in row.distinct_from for who in draft.acted.get(name, ()))),
        votes=_votes(draft, arc),
        votes_needed=row.quorum + len(row.countersign),
        only_for=only_for(draft, arc),
        **_delegation(draft, arc),
        depends_on_event=depends or arc.takes is not None,
    )


def _objections(draft: Draft, arc: Arc) -> tuple[dict[str, Obstacle], bool]:
    """What the guards say whatever the event carries, and whether one of them looks at the event."""
    objections: dict[str, Obstacle] = {}
    depends = False
    for name, guard in arc.guards:
        draft.looked = False
        no = verdict(draft, name, guard)
        if draft.looked:  # the real event may get a yes, and may not break it
            depends = depends or no is not None
        elif no is not None:
            objections[name] = no
    return objections, depends


def _delegation(draft: Draft, arc: Arc) -> dict[str, Any]:
    """The people in whose place a delegate may answer an ask by a transition."""
    for node, ask in answered(draft, arc):
        if ask.delegated_to is not None:
            delegate = with_entries(Actor(ask.delegated_to), draft.chart.people, draft)
            lends = stands_in(node, ask, delegate) and objection_to(draft, arc, delegate) is None
            others = tuple(each.id for each in ask.delegated_by) if lends else ()
            return {"in_place_of": others, "needs_role": bool(arc.by) and not lends}
    return {}


def _votes(draft: Draft, arc: Arc) -> tuple[str, ...]:
    cast = voters_of(draft.votes.get(arc.ballot, {})) if needs_votes(arc) else {}
    return tuple(who for who, places in cast.items() if places != NO_PLACE)


def _asks(draft: Draft) -> tuple[Wait, ...]:
    return tuple(_wait_for_answer(draft, state, ask) for state, ask in draft.asks.items())


def _wait_for_answer(draft: Draft, state: str, ask: OpenAsk) -> Wait:
    what = f"an answer from {wanted(ask.roles, draft).removeprefix('the role ')}"
    if ask.delegated_to is not None:
        what = f"an answer from {ask.delegated_to}, to whom it is delegated"
    claimed = is_claimed(ask, draft.now)
    if claimed and ask.claimed_until is not None:
        what += f" (claimed by {ask.claimed_by} until {ask.claimed_until.isoformat()})"
    return Wait(
        kind="person",
        state=state,
        what=what,
        until=ask.deadline,
        claimed_by=ask.claimed_by if claimed else None,
        claimed_until=ask.claimed_until if claimed else None,
        delegated_to=ask.delegated_to,
    )


def _work(draft: Draft) -> tuple[Wait, ...]:
    waits = []
    for state, work in draft.work.items():
        run = draft.chart.nodes[state].model.run
        handler = run.handler if run else state
        attempt = f" (attempt {work.attempt}{_losses(run, work)})" if work.attempt > 1 else ""
        begins = f", which starts at {work.due.isoformat()}" if work.due and work.due > draft.now else ""
        waits.append(Wait(kind="work", state=state, what=f"the work {handler}{attempt}{begins}"))
    return tuple(waits)


def _losses(run: model.Run | None, work: OpenWork) -> str:
    return f", {losses(run, work)}" if run is not None and work.lost else ""


def _children(draft: Draft) -> tuple[Wait, ...]:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(draft.children.items()) if count)
    return (Wait(kind="children", state=draft.states[0], what=f"its children: {counts}"),) if counts else ()


def _events(draft: Draft) -> tuple[Wait, ...]:
    return tuple(
        Wait(kind="event", state=node.id, what=node.model.waits_for)
        for node in draft.active
        if node.model.waits_for and node.id not in draft.asks
    )


def _until(moment: datetime | None) -> str:
    return "" if moment is None else f" until {moment.isoformat()}"


def _spoken(way: Way) -> str:
    who = way.only_for or " or ".join((*way.people, *way.by)) or "anyone"
    event = " or ".join(way.events)
    if way.says_no:
        return f"{who} could {event}, but {'; '.join(way.says_no.values())}."
    barred = f" (not {', '.join(way.barred)})" if way.barred and not way.in_place_of else ""
    if way.in_place_of:
        barred += f", in place of {' and '.join(way.in_place_of)},"
    elif way.only_for is not None and way.needs_role:
        barred += f", as {' or '.join(way.by)},"
    if way.votes:
        wanted = f"{len(way.votes)} of {way.votes_needed} votes are in ({', '.join(way.votes)})"
        return f"another {who}{barred} can {event}: {wanted}."
    return f"{who}{barred} can {event}."
