"""`step`: one event, decided. Pure, total, deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.codec import Value, from_data, to_data
from headway.errors import HeadwayError, InputError, InternalError
from headway.statechart.admission import Admitted, admit
from headway.statechart.chart import Chart
from headway.statechart.define import Statechart
from headway.statechart.draft import NOTHING, Draft
from headway.statechart.duties import needs_votes, vote
from headway.statechart.effects import Effect, ReportToParent
from headway.statechart.moves import begin, declare, end, microstep
from headway.statechart.refusal import Refusal, Veto, not_now, objected, refuse
from headway.statechart.selection import select, select_eventless
from headway.statechart.snapshot import SYSTEM, Actor, Event, Row, Snapshot
from headway.statechart.types import Mismatch

MOST_MICROSTEPS = 1_000

Charted = Chart | type[Statechart]


class Step(Value):
    """What an event did: the snapshot after it, lines of history, and effects for the world."""

    snapshot: Snapshot
    history: tuple[Row, ...] = ()
    effects: tuple[Effect, ...] = ()


def step(
    chart: Charted, snapshot: Snapshot, event: Event, now: datetime, facts: Mapping[str, Any] = NOTHING
) -> Step | Refusal:
    """Decide one event.

    Raises InputError for arguments that are not what they should be, UnboundError for a chart whose
    functions are not registered. The snapshot given is never changed.
    """
    ready = chart_of(chart)
    try:
        return _step(ready, snapshot, event, now, facts)
    except HeadwayError:
        raise
    except Exception as error:
        raise _bad_input(snapshot, event, now, facts, error) from error


def start(  # noqa: PLR0913 - what an instance is created with
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
) -> Step | Refusal:
    """Begin a life: enter the chart's first states. Raises as `step` does."""
    ready = chart_of(chart)
    event = Event("start", by=by)
    try:
        base = Snapshot(
            chart=ready.name,
            version=ready.version,
            instance=instance,
            context=_first_context(ready, context),
            seed=seed,
            parent=parent,
            depth=depth,
        )
        _check(ready, base, event, now)
        return _start(ready, base, event, now, facts)
    except HeadwayError:
        raise
    except Exception as error:
        raise _bad_input(None, event, now, facts, error) from error


def chart_of(chart: object) -> Chart:
    """The chart itself, of a chart or of a class that declares one; raises InputError."""
    if isinstance(chart, Chart):
        return chart
    declared = getattr(chart, "chart", None)
    if isinstance(declared, Chart):
        return declared
    raise InputError(f"not a chart: {chart!r}")


def _step(
    chart: Chart, snapshot: Snapshot, event: Event, now: datetime, facts: Mapping[str, Any]
) -> Step | Refusal:
    _check(chart, snapshot, event, now)
    if snapshot.ended:
        return not_now(chart, snapshot, event)
    draft = Draft(chart, snapshot, event, now, facts)
    draft.active = list(chart.configuration(snapshot.states))
    try:
        admitted = admit(draft)
        if not admitted.finished and not _macrostep(draft, admitted):
            return _nothing_taken(draft, admitted)
        return _finished(draft)
    except Veto as veto:
        return refuse(chart, snapshot, event, veto.code, veto.message, tuple(draft.objections))


def _check(chart: Chart, snapshot: Snapshot, event: Event, now: datetime) -> None:
    if chart.unbound:
        chart.require_bound()
    if snapshot.chart != chart.name or snapshot.version != chart.version:
        raise InputError(
            f"the snapshot is of {snapshot.chart} v{snapshot.version}, the chart is {chart.name} v{chart.version}"
        )
    if type(event.name) is not str or not event.name:
        raise InputError(f"an event has a name, not {event.name!r}")
    if now.tzinfo is None:
        raise InputError("now must say its time zone: use datetime.now(UTC)")


def _macrostep(draft: Draft, admitted: Admitted) -> bool:
    """Run to completion; False when nothing took the event and nothing else moved."""
    event = admitted.event
    arcs = select(draft, event, outside=admitted.outside)
    moved = bool(arcs)
    if arcs:
        if admitted.outside and arcs[0].duties and needs_votes(arcs[0]):
            missing = vote(draft, arcs[0], event)
            if missing is not None:
                draft.row(arcs[0].name, draft.leaves(), event, reason=missing)
                return True
        microstep(draft, arcs, event)
    elif not admitted.outside:
        moved = True
        if draft.chart.computed:
            microstep(draft, [], event)
        else:
            draft.row("", draft.leaves(), event)
    return _settle(draft) or moved


def _settle(draft: Draft) -> bool:
    """Take what follows by itself: eventless transitions, then internal events, then those sent to oneself."""
    chart, count = draft.chart, 0
    while not draft.ended:
        arcs = select_eventless(draft) if chart.eventless else []
        event = draft.current
        if not arcs:
            if draft.internal:
                event = draft.internal.popleft()
            elif draft.external:
                event = draft.external.popleft()
            else:
                break
            arcs = select(draft, event, outside=False)
        if arcs:
            count += 1
            if count > MOST_MICROSTEPS:
                raise Veto("runaway", f"more than {MOST_MICROSTEPS} transitions follow from {draft.event.name}")
            microstep(draft, arcs, event)
    return bool(count)


def _nothing_taken(draft: Draft, admitted: Admitted) -> Refusal:
    if draft.objections:
        return objected(draft.chart, draft.base, draft.event, draft.objections)
    return not_now(draft.chart, draft.base, admitted.event)


def _finished(draft: Draft) -> Step:
    base = draft.base
    if draft.ended and not base.ended:
        end(draft)
    if base.parent is not None:
        _report(draft)
    return Step(draft.snapshot(), tuple(draft.rows), tuple(draft.effects))


def _report(draft: Draft) -> None:
    base = draft.base
    before = status_of(draft.chart, base.states)
    after = draft.active[0].top.id
    errors = draft.counters.get("errors", 0) - base.counters.get("errors", 0)
    if before != after or errors > 0:
        draft.effects.append(
            ReportToParent(
                id=draft.identify(), parent=base.parent or "", before=before, after=after, errors=max(errors, 0)
            )
        )


def status_of(chart: Charted, states: tuple[str, ...]) -> str | None:
    """The outermost active state: what people call the status."""
    ready = chart_of(chart)
    return ready.configuration(states)[0].id if states else None


def _start(
    chart: Chart, base: Snapshot, event: Event, now: datetime, facts: Mapping[str, Any]
) -> Step | Refusal:
    draft = Draft(chart, base, event, now, facts)
    try:
        declare(draft, chart.model.data)
        begin(draft)
        draft.row("start", (), event)
        _settle(draft)
        return _finished(draft)
    except Veto as veto:
        return Refusal(code=veto.code, message=veto.message, event=event.name)


def _first_context(chart: Chart, context: object) -> dict[str, Any]:
    kind = chart.context_type
    if kind is not None:
        try:
            cleaned = kind.clean({} if context is None else context)
        except Mismatch as error:
            raise InputError(f"the context is {error}") from error
        return dict(cleaned)
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        context = to_data(context)
    if not isinstance(context, Mapping) or not all(isinstance(key, str) for key in context):
        raise InputError("a context maps names to values")
    return dict(context)


def _bad_input(
    snapshot: object, event: object, now: object, facts: object, error: Exception
) -> HeadwayError:
    """Which argument made the core stumble, found out only when it did."""
    if not isinstance(now, datetime):
        return InputError(f"now is a datetime, not {now!r}")
    if not isinstance(facts, Mapping):
        return InputError(f"facts map names to values, not {facts!r}")
    for value, kind in ((event, Event), (snapshot, Snapshot)):
        if value is None and kind is Snapshot:
            continue
        if not isinstance(value, kind):
            return InputError(f"not a {kind.__name__}: {value!r}")
        try:
            from_data(kind, to_data(value))
        except InputError as wrong:
            return wrong
    return InternalError(f"{type(error).__name__}: {error}")
