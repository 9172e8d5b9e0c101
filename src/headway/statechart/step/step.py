"""`step`: one event, decided. Pure, total, deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from headway.codec import DEEPEST, Plain, as_json, encode, from_data, replace, require_depth, to_data
from headway.errors import HeadwayError, InputError, InternalError, shown
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.effects import Effect, ReportToParent
from headway.statechart.expressions.budget import LIMITED, ExhaustedError
from headway.statechart.identity import same_id
from headway.statechart.people import concerns, owner_of, with_entries
from headway.statechart.redaction import redacted_error
from headway.statechart.refusal import Refusal, Veto, not_now, not_theirs, objected, refuse
from headway.statechart.snapshot import SYSTEM, Actor, Event, OpenAsk, Row, Snapshot, Timer
from headway.statechart.step.actions import STORED, Fault
from headway.statechart.step.asks import give_back, renew_audiences
from headway.statechart.step.draft import NOTHING, Draft, draft_of
from headway.statechart.step.duties import needs_votes, represented, vote
from headway.statechart.step.fencing import admit
from headway.statechart.step.moves import begin, computed_status, declare, end, microstep
from headway.statechart.step.selection import select, select_eventless
from headway.statechart.tree import HISTORY, Arc
from headway.statechart.types import Mismatch

MOST_MICROSTEPS = 1_000
MOST_UNTAKEN = 20_000
MOST_QUEUED = 10_000


class Step(Plain):
    """What an event did: the snapshot after it, lines of history, and effects for the world."""

    snapshot: Snapshot
    history: tuple[Row, ...] = ()
    effects: tuple[Effect, ...] = ()

    def __str__(self) -> str:
        """Where the instance stands."""
        return f"{self.snapshot.instance} is in {' + '.join(self.snapshot.states)}"

    def unwrap(self) -> Step:
        """The step itself: for callers who know that the event must go through."""
        return self


def step(
    chart: Charted, snapshot: Snapshot, event: Event, now: datetime, *, facts: Mapping[str, Any] = NOTHING
) -> Step | Refusal:
    """Decide one event.

    Raises InputError for arguments that are not what they should be, UnboundError for a chart whose
    functions are not registered. The snapshot given is never changed.
    """
    try:
        ready = chart.chart
        if ready.evaluates:
            with LIMITED:
                return _step(ready, snapshot, event, now, facts=facts)
        return _step(ready, snapshot, event, now, facts=facts)
    except HeadwayError:
        raise
    except Exception as error:
        # What is no chart is found out here, so that a chart pays nothing for it.
        raise bad_input(error, chart_of(chart), snapshot, event, now=now, facts=facts) from error


def start(
    chart: Charted,
    instance: str = "it",
    *,
    now: datetime,
    context: object = None,
    by: Actor = SYSTEM,
    facts: Mapping[str, Any] = NOTHING,
    seed: int = 0,
    parent: str | None = None,
    depth: int = 0,
    creator: str | None = None,
) -> Step | Refusal:
    """Begin a life: enter the chart's first states. Raises as `step` does.

    `creator` is who created it, if not who sends the event: of a child, who created its parent.
    """
    ready = chart_of(chart)
    event = Event("start", by=by)
    base = Snapshot(
        chart=ready.name,
        version=ready.version,
        instance=instance,
        context=first_context(ready, context),
        seed=seed,
        parent=parent,
        depth=depth,
        creator=creator,
    )
    try:
        ready.require_bound()
        with LIMITED:
            return _start(ready, base, event, in_utc(now), facts=facts)
    except HeadwayError:
        raise
    except Exception as error:
        raise bad_input(error, ready, base, event, now=now, facts=facts) from error


def _step(
    chart: Chart, snapshot: Snapshot, event: Event, now: datetime, *, facts: Mapping[str, Any]
) -> Step | Refusal:
    own = snapshot.chart == chart.name and snapshot.version == chart.version
    if not own or chart.unbound or not snapshot.states:
        _complain(chart, snapshot)
    if now.tzinfo is not UTC:
        now = in_utc(now)
    if event.data is not None and type(event.data) not in STORED:
        require_depth(encode(event.data))
    if chart.people:
        event = replace(event, by=with_entries(event.by, chart.people, snapshot))
    draft = draft_of(chart, snapshot, event, now, facts=facts)
    try:
        if event.by.own:
            _must_be_theirs(chart, snapshot, event.by)
        if snapshot.ended and (event.ref is None or event.name == "child.changed"):
            return not_now(chart, snapshot, event)
        # Most events have a name the chart waits for and belong to nothing: there is nothing to fence.
        admitted = event if event.ref is None and event.name in chart.spoken else admit(draft)
        if draft.stirred:
            _stir(draft)
        elif not draft.finished and (snapshot.ended or not _macrostep(draft, admitted)):
            return _nothing_taken(draft, admitted)
        return _finished(draft)
    except STOPPED as error:
        return refuse(chart, snapshot, event, _veto(error), objections=draft.objections)


STOPPED = (Fault, Veto, ExhaustedError)
"""What ends a step without a result: an action failed, a rule says no, or too much was evaluated."""


def _veto(error: Fault | Veto | ExhaustedError) -> Veto:
    if isinstance(error, Veto):
        return error
    return Veto("fault" if isinstance(error, Fault) else "runaway", str(error))


def in_utc(now: datetime) -> datetime:
    """The time in UTC, in which adding hours means what it says; raises InputError for one without a zone."""
    if now.tzinfo is None:
        raise InputError("now needs a time zone: use datetime.now(UTC)")
    return now.astimezone(UTC)


def _complain(chart: Chart, snapshot: Snapshot) -> None:
    chart.require_bound()
    if snapshot.chart == chart.name and snapshot.version == chart.version:
        raise InputError(f"the snapshot of {snapshot.instance} was never started")
    is_of = f"{snapshot.chart} v{snapshot.version}"
    raise InputError(f"the snapshot is of {is_of}, the chart is {chart.name} v{chart.version}")


def _must_be_theirs(chart: Chart, snapshot: Snapshot, actor: Actor) -> None:
    """Raises Veto for an instance with which somebody has nothing to do who reaches only their own."""
    if not concerns(chart.people, snapshot, actor):
        raise Veto("owner", not_theirs(snapshot, actor))


def _must_own(chart: Chart, base: Snapshot, actor: Actor) -> None:
    """Raises Veto for a life that somebody begins for another owner; without an owner it must name them."""
    if base.owner is None:
        _must_be_theirs(chart, base, actor)
    elif not same_id(base.owner, actor.id):
        raise Veto("owner", not_theirs(base, actor))


def _macrostep(draft: Draft, event: Event) -> bool:
    """Run to completion; False when nothing took the event and nothing else moved."""
    arcs = select(draft, event, outside=draft.outside)
    moved = bool(arcs)
    if arcs:
        if draft.outside and draft.asks:
            draft.represented = {arc.index: represented(draft, arc, event) for arc in arcs}
        if draft.outside and (arcs[0].duties or len(arcs) > 1):
            arcs = _voted(draft, arcs, event)
        if arcs:
            microstep(draft, arcs, event)
    elif draft.outside and not draft.chart.scripted:
        # What was refused must not set anything else in motion under its sender's name.
        return False
    elif not draft.outside:
        moved = True
        if draft.chart.computed:
            microstep(draft, [], event)
        else:
            draft.row("", draft.states, event)
    if draft.chart.eventless or draft.internal or draft.external:
        return settle(draft) or moved
    return moved


def _voted(draft: Draft, arcs: list[Arc], event: Event) -> list[Arc]:
    """The transitions that need no vote but this one; for the others it is counted."""
    ready = []
    for arc in arcs:
        missing = vote(draft, arc, event) if needs_votes(arc) else None
        if missing is None:
            ready.append(arc)
        else:
            said = f"{event.reason}; {missing}" if event.reason else missing
            draft.row(arc.name, draft.states, event, reason=said)
            if draft.asks:
                give_back(draft, arc, event.by)
    return ready


def _stir(draft: Draft) -> None:
    """Counters have moved without an event of the chart: what depends on them follows."""
    if draft.chart.computed and computed_status(draft) is not draft.active[0].top:
        microstep(draft, [], draft.event)
    if draft.chart.eventless:
        settle(draft)


def settle(draft: Draft) -> bool:
    """Take what follows by itself: eventless transitions, internal events, then those sent to oneself."""
    chart, count, untaken = draft.chart, 0, 0
    while not draft.ended:
        if len(draft.internal) + len(draft.external) > MOST_QUEUED:
            raise Veto("runaway", f"more than {MOST_QUEUED} events are queued in one step")
        arcs = select_eventless(draft) if chart.eventless else []
        event = draft.current
        if not arcs:
            draft.inward = bool(draft.internal)
            if draft.internal:
                event = draft.internal.pop(0)
            elif draft.external:
                event = draft.external.pop(0)
            else:
                break
            arcs = select(draft, event, outside=False)
        if arcs:
            count += 1
            if count > MOST_MICROSTEPS:
                said = f"{draft.event.name} leads to more than {MOST_MICROSTEPS} transitions"
                raise Veto("runaway", said)
            microstep(draft, arcs, event)
        else:
            untaken += 1
            if untaken > MOST_UNTAKEN:
                raise Veto(
                    "runaway",
                    f"{draft.event.name} leads to more than {MOST_UNTAKEN} events that no transition takes",
                )
    return bool(count)


def _nothing_taken(draft: Draft, admitted: Event) -> Refusal:
    if draft.objections:
        return objected(draft.chart, draft.base, draft.event, draft.objections)
    return not_now(draft.chart, draft.base, admitted)


def _finished(draft: Draft) -> Step:
    if draft.ended and not draft.base.ended:
        end(draft)
    if draft.context is not draft.base.context:
        _require_shallow(draft.context, draft.base.context)
    if draft.chart.people:
        renew_audiences(draft)
    if draft.base.parent is not None:
        _report(draft)
    return Step(draft.snapshot(), tuple(draft.rows), tuple(draft.effects) if draft.effects else ())


def _require_shallow(context: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raises Veto when a value that has changed is nested too deep: nobody could be shown the context."""
    for name, value in context.items():
        if type(value) in STORED or value is before.get(name):
            continue
        try:
            require_depth(encode(value), DEEPEST - 1)
        except InputError as error:
            raise Veto("context", f"{name} is too deep: {error}") from error


def _report(draft: Draft) -> None:
    base = draft.base
    before = status_of(draft.chart, base.states)
    after = draft.active[0].top.id
    errors = draft.counters.get("errors", 0) - base.counters.get("errors", 0)
    if before != after or errors:
        parent = base.parent or ""
        draft.effects.append(
            ReportToParent(id=draft.identify(), parent=parent, before=before, after=after, errors=errors)
        )


def status_of(chart: Charted, states: tuple[str, ...]) -> str | None:
    """The outermost active state: what people call the status."""
    ready = chart_of(chart)
    return ready.configuration(states)[0].id if states else None


def _start(
    chart: Chart, base: Snapshot, event: Event, now: datetime, *, facts: Mapping[str, Any]
) -> Step | Refusal:
    by, template = event.by, chart.model.owner
    creator = base.creator or by.id
    owner = owner_of(template, base.instance, creator, base.context)
    base = replace(base, creator=creator, owner=owner)
    draft = draft_of(chart, base, event, now, facts=facts)
    try:
        if by.own:
            _must_own(chart, base, by)
        declare(draft, chart.model.data)
        begin(draft)
        draft.row("start", (), event)
        settle(draft)
        return _finished(draft)
    except STOPPED as error:
        veto = _veto(error)
        return Refusal(code=veto.code, message=veto.message, event=event.name)


def first_context(chart: Chart, context: object) -> dict[str, Any]:
    """What a life begins with, defaults filled in; raises InputError for what does not fit."""
    kind = chart.context_type
    if kind is not None:
        try:
            cleaned = kind.clean({} if context is None else context)
        except Mismatch as error:
            raise InputError(f"the context is {error}") from error
        return dict(cleaned)
    if context is None:
        return {}
    kept = as_json(context)
    if not isinstance(kept, dict):
        raise InputError("a context must map names to values")
    return kept


def bad_input(
    error: Exception, chart: Chart, snapshot: object, event: object, *, now: object, facts: object
) -> HeadwayError:
    """The InputError that names what is wrong; an InternalError when nothing is."""
    for wrong in _wrong(chart, snapshot, event, now=now, facts=facts):
        return InputError(wrong)
    if isinstance(error, OverflowError):
        return InputError(f"a time or a number is too large: {error}")
    return InternalError(redacted_error(error, hides=chart.secrets is not None))


def _wrong(chart: Chart, snapshot: object, event: object, *, now: object, facts: object) -> Iterator[str]:
    if not isinstance(now, datetime):
        yield f"now must be a datetime, not {shown(now)}"
    if not isinstance(facts, Mapping):
        yield f"facts must map names to values, not {shown(facts)}"
    for value, kind in ((event, Event), (snapshot, Snapshot)):
        if not isinstance(value, kind):
            yield f"not a {kind.__name__}: {shown(value)}"
        try:
            clean = from_data(kind, to_data(value))
        except InputError as wrong:
            yield str(wrong)
        else:
            for field in clean.__struct_fields__:
                if type(getattr(clean, field)) is not type(getattr(value, field)):
                    yield f"not a {kind.__name__}: {field} is {shown(getattr(value, field))}"
    assert isinstance(snapshot, Snapshot)
    for part in _foreign(chart, snapshot):
        yield f"the snapshot does not fit {chart.name}: {part}"


def _foreign(chart: Chart, snapshot: Snapshot) -> Iterator[str]:
    """What a snapshot holds that does not belong to its states."""
    if snapshot.seq and not snapshot.states:
        yield "no state"
    active = {node.id: node.model for node in chart.configuration(snapshot.states)} if snapshot.states else {}
    yield from (f"work in {state}" for state in snapshot.work if state not in active or not active[state].run)
    for state, ask in snapshot.asks.items():
        if state not in active or not active[state].ask or not _has_zones(ask):
            yield f"an ask in {state}"
    for timer in snapshot.timers.values():
        left = timer.state not in {None, chart.root.id, *active}
        if left or timer.due.tzinfo is None or not _belongs_to_its_ask(chart, snapshot, timer):
            yield f"a timer {timer.event} of {timer.state}, due at {timer.due}"
    for history, states in snapshot.memory.items():
        node = chart.nodes.get(history)
        if node is None or node.kind not in HISTORY or not chart.nodes.keys() >= set(states):
            yield f"a memory of {history}"


def _has_zones(ask: OpenAsk) -> bool:
    return all(time is None or time.tzinfo is not None for time in (ask.deadline, ask.claimed_until))


def _belongs_to_its_ask(chart: Chart, snapshot: Snapshot, timer: Timer) -> bool:
    kind = timer.event.partition(".")[0]
    if timer.state is None or kind not in {"remind", "escalate"}:
        return True
    ask = chart.nodes[timer.state].model.ask
    if ask is None or timer.state not in snapshot.asks:
        return False
    if kind == "remind":
        return ask.remind is not None
    return type(timer.data) is int and 0 <= timer.data < len(ask.escalate)
