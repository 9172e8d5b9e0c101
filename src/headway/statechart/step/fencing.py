"""Fencing: an event of a timer, work, an ask or a child is taken only while that is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.codec import replace
from headway.errors import InputError, shown
from headway.statechart.refusal import Code, Veto
from headway.statechart.snapshot import Event, OpenAsk
from headway.statechart.step.asks import ASK_TIMERS, HOLDING, hold, must_be_asked
from headway.statechart.step.draft import Draft
from headway.statechart.step.moves import repeat_timer
from headway.statechart.step.work import open_work, work_done, work_failed, work_progress
from headway.statechart.tree import StateNode, comes_from_engine


def child_changed(draft: Draft, event: Event) -> Event:
    """A child went from one status to another, or several did: the counts follow, and go into the history."""
    data = event.data if isinstance(event.data, dict) else {}
    counts, errors = _counts(data), data.get("errors", 0)
    if not isinstance(errors, int) or isinstance(errors, bool):
        raise Veto("payload", "the errors of child.changed must be a whole number")
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
        # What a child takes back may be gone here already: an instance can start to count again.
        counters["errors"] = max(counters.get("errors", 0) + errors, 0)
    now = {"children": dict(children), "error_count": draft.counters.get("errors", 0)}
    return replace(event, data={**data, **now})


def _counts(data: dict[str, Any]) -> dict[str, int]:
    """How many more or fewer children are in each status; raises Veto when the data says something else."""
    counts = data.get("counts")
    if counts is not None:
        if isinstance(counts, dict) and all(type(by) is int for by in counts.values()):
            return counts
        raise Veto("payload", "the counts of child.changed must be whole numbers")
    before, after = data.get("from"), data.get("to")
    if not all(status is None or isinstance(status, str) for status in (before, after)):
        raise Veto("payload", "child.changed needs the child's status before (from) and after (to)")
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
    Raises InputError for an unknown name.
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
        raise Veto("reserved", f"only the engine may send {event.name}")
    return event if event.ref is None else _belonging(draft, event)


def _check_name(event: Event) -> None:
    if type(event.name) is not str or not event.name:
        raise InputError(f"the name of an event must be a string that is not empty, not {shown(event.name)}")
    if len(event.name) > LONGEST_NAME or not event.name.isprintable():
        raise InputError(f"the name of an event must be printable and have at most {LONGEST_NAME} characters")


def _must_be_own(event: Event) -> None:
    if event.by.kind not in OWN_KINDS:
        raise Veto("actor", f"only the engine or a worker may send {event.name}, not {event.by.id}")


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
        raise Veto("illegal", f"{event.name} is not an answer to {state}; its answers are {answers}")
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
    raise Veto(code, f"{event.name} came too late: {event.ref} is no longer open")


def _answers(node: StateNode, event: Event) -> bool:
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
