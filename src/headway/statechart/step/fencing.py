"""What comes back from work and from children: done, failed, so far, or in another status."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headway.codec import replace
from headway.errors import InputError, shown
from headway.statechart import model
from headway.statechart.effects import Message
from headway.statechart.refusal import Code, Veto
from headway.statechart.snapshot import Event, OpenAsk, OpenWork
from headway.statechart.step.actions import filled
from headway.statechart.step.asks import ASK_TIMERS, HOLDING, hold, must_be_asked
from headway.statechart.step.draft import Draft
from headway.statechart.step.moves import repeat_timer
from headway.statechart.step.retry import after_error, after_loss, losses_allowed
from headway.statechart.step.work import start_work
from headway.statechart.tree import Node, comes_from_engine

WHOLE = (0, 100)


def open_work(draft: Draft, event: Event) -> tuple[str, OpenWork]:
    """The state and the work an event belongs to; raises Veto when the attempt is over."""
    for state, work in draft.work.items():
        if work.id == event.ref:
            if work.attempt != event.attempt:
                message = f"attempt {event.attempt} of {work.id} is over; attempt {work.attempt} is under way"
                raise Veto("stale", message)
            return state, work
    raise Veto("stale", f"the work {event.ref} is no longer wanted")


def work_done(draft: Draft, event: Event) -> Event:
    """The work is done: its state hears of it."""
    state, _ = open_work(draft, event)
    del draft.own("work")[state]
    own = draft.chart.nodes[state].model.progress
    if own is not None:
        draft.progress = float(own[1])
    return Event(f"done.work.{state}", event.data)


def work_failed(draft: Draft, event: Event) -> Event:
    """An attempt has failed: another one follows, or the state hears of it."""
    state, work = open_work(draft, event)
    run = draft.chart.nodes[state].model.run
    assert run is not None
    is_lost, seed = _cause(event) == "lost", draft.base.seed + draft.seq
    event, code = _failure(run, event)
    again = after_loss(run, work, seed) if is_lost else after_error(run, work, code, seed)
    if again is None:
        del draft.own("work")[state]
        said = _lost_too_often(run, work, event) if is_lost else event.data
        return Event(f"error.work.{state}.{code}", said)
    due = draft.now + timedelta(milliseconds=again.wait)
    draft.own("work")[state] = replace(again.work, due=due)
    start_work(draft, work.id, state, run, attempt=again.work.attempt, due=due)
    draft.row("retry", draft.states, event, reason=again.reason)
    draft.finished = True
    return event


def _cause(event: Event) -> str | None:
    """The cause that the engine tells of a failure; None for a failure with a code of its own."""
    data = event.data if isinstance(event.data, dict) else {}
    cause = data.get("cause")
    return cause if "code" not in data and isinstance(cause, str) and cause in CAUSES else None


def _lost_too_often(run: model.Run, work: OpenWork, event: Event) -> dict[str, Any]:
    """What the chart hears of work that has lost its last host; it says how many there were."""
    most = losses_allowed(run)
    said = f"its host was lost {work.lost + 1} times, at most {most} are allowed" if most else None
    return {**event.data, "message": said or event.data.get("message")}


def _failure(run: model.Run, event: Event) -> tuple[Event, str]:
    """The failure as the chart sees it, and its code: the chart's own when only a cause is told."""
    data = event.data if isinstance(event.data, dict) else {}
    code, cause = data.get("code"), _cause(event)
    if cause is not None:
        code = CAUSES[cause](run)
        event = replace(event, data={**data, "code": code})
    if not isinstance(code, str) or not code or "." in code:
        raise Veto("payload", "work.failed carries a code: a word without dots")
    return event, code


CAUSES: dict[str, Callable[[model.Run], str]] = {
    "lost": lambda run: run.lost_code,
    "timeout": lambda run: run.timeout_code,
}


def work_progress(draft: Draft, event: Event) -> Event:
    """The work has come this far; counters may have moved, and with them what depends on them."""
    state, _ = open_work(draft, event)
    data = event.data if isinstance(event.data, dict) else {}
    fraction, counted = data.get("fraction"), data.get("counters", {})
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
        raise Veto("payload", "work.progress carries a fraction from 0 to 1")
    if not isinstance(counted, dict) or not all(type(amount) is int for amount in counted.values()):
        raise Veto("payload", "the counters of work.progress are whole numbers to add")
    if counted:
        counters = draft.own("counters")
        for name, amount in counted.items():
            counters[str(name)] = counters.get(str(name), 0) + amount
        draft.stirred = True
    phase = _phase(draft.chart.nodes[state])
    low, high = phase.model.progress or WHOLE
    reached = low + (high - low) * float(fraction)
    # Several pieces of work may share the range of a state around them: none takes back what another did.
    draft.progress = reached if phase.id == state else max(draft.progress, reached)
    said = filled(phase.model.says, draft.tellable({**draft.context, **data}))
    report = {"instance": draft.base.instance, "step": phase.id, "pct": draft.progress, "message": said}
    report |= {"attempt": event.attempt, "fraction": fraction, "eta_seconds": data.get("eta_seconds")}
    report["counters"] = {name: draft.counters[name] for name in map(str, counted)}
    draft.effects.append(Message(id=draft.identify(), kind="live", name="progress", data=report))
    draft.finished = True
    return event


def _phase(node: Node) -> Node:
    """The state whose range of progress a state's work moves in: its own, or one around it."""
    return next((above for above in node.upward if above.model.progress is not None), node)


def child_changed(draft: Draft, event: Event) -> Event:
    """A child went from one status to another, or several did: the counts follow, and go into the history."""
    data = event.data if isinstance(event.data, dict) else {}
    counts, errors = _counts(data), data.get("errors", 0)
    if not isinstance(errors, int) or isinstance(errors, bool):
        raise Veto("payload", "child.changed carries a number of errors, which are new or taken back")
    children = draft.own("children")
    for status, by in counts.items():
        count = children.get(status, 0) + by
        if count < 0 or (not by and not count):
            raise Veto("stale", f"fewer than {-by or 1} children are in {status}")
        children[status] = count
        if not count:
            del children[status]
    if errors:
        counters = draft.own("counters")
        # What a child takes back may be gone here already: an instance can begin to count anew.
        counters["errors"] = max(counters.get("errors", 0) + errors, 0)
    now = {"children": dict(children), "error_count": draft.counters.get("errors", 0)}
    return replace(event, data={**data, **now})


def _counts(data: dict[str, Any]) -> dict[str, int]:
    """How many more or fewer children are in each status; raises Veto when that is not what is told."""
    counts = data.get("counts")
    if counts is not None:
        if isinstance(counts, dict) and all(type(by) is int for by in counts.values()):
            return counts
        raise Veto("payload", "the counts of child.changed are whole numbers to add")
    before, after = data.get("from"), data.get("to")
    if not all(status is None or isinstance(status, str) for status in (before, after)):
        raise Veto("payload", "child.changed carries the child's status before and after")
    counts = {before or "new": -1}
    if after is not None:
        counts[after] = counts.get(after, 0) + 1
    return counts


LONGEST_NAME = 200
OWN_KINDS = frozenset({"system", "service", "agent"})
"""Who speaks for timers, workers and children. An id is a fence, not an authority: people could guess it."""


def admit(draft: Draft) -> Event:
    """The event as the states will see it; raises Veto when what it belongs to is no longer open.

    Says on the draft whether the event comes from `outside`, and whether it is `finished` with.
    Raises InputError for a name that is none.
    """
    event = draft.event
    _check_name(event)
    admission = BY_NAME.get(event.name) if event.ref is not None else None
    if admission is not None:
        _must_be_own(event)
        draft.outside = False
        return admission(draft, event)
    if draft.chart.scripted:
        return event
    if event.name in HOLDING:
        return hold(draft, event)
    if comes_from_engine(event.name):
        raise Veto("reserved", f"{event.name} comes from the engine only, with what it belongs to")
    return event if event.ref is None else _belonging(draft, event)


def _check_name(event: Event) -> None:
    if type(event.name) is not str or not event.name:
        raise InputError(f"an event has a name, not {shown(event.name)}")
    if len(event.name) > LONGEST_NAME or not event.name.isprintable():
        raise InputError(f"an event's name is printable and at most {LONGEST_NAME} characters long")


def _must_be_own(event: Event) -> None:
    if event.by.kind not in OWN_KINDS:
        raise Veto("actor", f"{event.name} comes from the engine or a worker, not from {event.by.id}")


def _timer(draft: Draft, event: Event) -> Event:
    timer = draft.timers.get(event.ref or "")
    if timer is None:
        raise Veto("stale", f"the timer {event.ref} is no longer set")
    if draft.now < timer.due:
        raise Veto("early", f"the timer {event.ref} is due at {timer.due.isoformat()}")
    del draft.own("timers")[event.ref or ""]
    fired = Event(timer.event, timer.data, ref=timer.sent_as)
    kind = timer.event.partition(".")[0]
    if timer.state is not None and kind in ASK_TIMERS:
        ASK_TIMERS[kind](draft, timer.state, timer.data)
        draft.row("", draft.states, fired)
        draft.finished = True
    elif timer.state is not None and kind == "after":
        repeat_timer(draft, timer.state, timer.event)
    return fired


def _belonging(draft: Draft, event: Event) -> Event:
    """An event that answers an ask, or one by which a worker ends its work."""
    for state, ask in draft.asks.items():
        if ask.id == event.ref:
            return _to_ask(draft, event, state, ask)
    if any(work.id == event.ref for work in draft.work.values()):
        _must_be_own(event)
        state, _ = open_work(draft, event)
        del draft.own("work")[state]
        draft.within = draft.chart.nodes[state]
        return event
    return _late(draft, event)


def _to_ask(draft: Draft, event: Event, state: str, ask: OpenAsk) -> Event:
    node = draft.within = draft.chart.nodes[state]
    if event.name == "answer":
        must_be_asked(draft, state, ask, event.by)
        return replace(event, name=f"answer.{state}")
    if event.name not in node.answers:
        answers = ", ".join(node.answers)
        raise Veto("illegal", f"{event.name} is no answer to {state}; these are: {answers}")
    return event


def _late(draft: Draft, event: Event) -> Event:
    """An answer to an ask that is no longer open gets what the chart says."""
    asked = [node for node in draft.chart.order if _answers(node, event)]
    own = (event.ref or "").startswith(f"{draft.base.instance}:")
    for node in asked:
        ask = node.model.ask
        if own and ask is not None and ask.late == "record" and event.by.roles.intersection(ask.roles):
            draft.row("", draft.states, event, reason="late answer")
            draft.finished = True
            return event
    code: Code = "late" if asked else "stale"
    raise Veto(code, f"{event.name} answers {event.ref}, which is no longer open")


def _answers(node: Node, event: Event) -> bool:
    if node.model.ask is None:
        return False
    return event.name in node.answers or (event.name == "answer" and f"answer.{node.id}" in node.answers)


BY_NAME: dict[str, Callable[[Draft, Event], Event]] = {
    "timer": _timer,
    "work.done": work_done,
    "work.failed": work_failed,
    "work.progress": work_progress,
    "child.changed": child_changed,
}
