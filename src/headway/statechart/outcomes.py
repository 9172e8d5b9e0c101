"""What comes back from work and from children: done, failed, so far, or in another status."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headway.codec import replace
from headway.statechart import model
from headway.statechart.actions import filled
from headway.statechart.draft import Draft
from headway.statechart.effects import Message
from headway.statechart.refusal import Veto
from headway.statechart.retry import delay, may_retry, policy_for
from headway.statechart.snapshot import Event, OpenWork
from headway.statechart.tree import Node
from headway.statechart.work import start_work

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
    event, code = _failure(run, event)
    if not may_retry(run, work, code):
        del draft.own("work")[state]
        return Event(f"error.work.{state}.{code}", event.data)
    index = policy_for(run, code)
    assert index is not None
    count = work.failures.get(str(index), 0) + 1
    wait = delay(run.retry[index], count, draft.base.seed + draft.seq)
    due = draft.now + timedelta(milliseconds=wait)
    following = OpenWork(work.id, work.attempt + 1, {**work.failures, str(index): count}, due)
    draft.own("work")[state] = following
    start_work(draft, work.id, state, run, attempt=following.attempt, due=due)
    draft.row("retry", draft.states, event, reason=code)
    draft.finished = True
    return event


def _failure(run: model.Run, event: Event) -> tuple[Event, str]:
    """The failure as the chart sees it, and its code: the chart's own when only a cause is told."""
    data = event.data if isinstance(event.data, dict) else {}
    code, cause = data.get("code"), data.get("cause")
    if "code" not in data and isinstance(cause, str) and cause in CAUSES:
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
    """A child went from one status to another, or several did: the counts follow."""
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
    return event


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
