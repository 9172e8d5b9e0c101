"""The work of a state: starting an attempt with its keys and limits, its progress, its end, its retries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headway.codec import replace
from headway.statechart import model
from headway.statechart.effects import Message, StartWork
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import Event, OpenWork
from headway.statechart.step.actions import fill, filled
from headway.statechart.step.draft import Draft
from headway.statechart.step.retry import after_error, after_loss, losses_allowed
from headway.statechart.tree import Node

LONGEST_NUMBER = 10
WHOLE = (0, 100)


def start_work(draft: Draft, work: str, state: str, run: model.Run, **attempt: Any) -> None:
    """Put an attempt of a state's work before the workers."""
    effect = StartWork(
        id=draft.identify(),
        work=work,
        state=state,
        handler=run.handler,
        timeout=run.timeout,
        heartbeat=run.heartbeat,
        lease=run.lease,
        queue=run.queue,
        priority=run.priority,
        **attempt,
        **_keys(draft, run),
    )
    draft.effects.append(effect)


def _keys(draft: Draft, run: model.Run) -> dict[str, Any]:
    """The keys that limit and place work, as the context fills them now."""
    keys: dict[str, Any] = {}
    if run.affinity is not None:
        keys["affinity"] = fill(draft, run.affinity)
    if run.concurrency is not None:
        keys |= {"concurrency": fill(draft, run.concurrency.key), "at_once": _most(draft, run.concurrency)}
    if run.rate is not None and run.rate.per is not None:
        keys |= {"rate": fill(draft, run.rate.key), "rate_most": _most(draft, run.rate)}
        keys["rate_per"] = run.rate.per
    return keys


def _most(draft: Draft, limit: model.Limit) -> int:
    """The limit's number; one that the context does not hold is 1, so that work goes on with care."""
    if isinstance(limit.most, int):
        return limit.most
    text = fill(draft, limit.most)
    is_number = text.isdecimal() and len(text) < LONGEST_NUMBER
    return min(max(int(text), 1), model.LARGEST_LIMIT) if is_number else 1


def open_work(draft: Draft, event: Event) -> tuple[str, OpenWork]:
    """The state and the work an event belongs to; raises Veto when the attempt is over."""
    for state, work in draft.work.items():
        if work.id == event.ref:
            if work.attempt != event.attempt:
                message = f"attempt {event.attempt} of {work.id} is over; attempt {work.attempt} is under way"
                raise Veto("stale", message)
            return state, work
    raise Veto("stale", f"the work {event.ref} is no longer open")


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
        raise Veto("payload", "work.failed needs a code: one word without dots")
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
        raise Veto("payload", "work.progress needs a fraction from 0 to 1")
    if not isinstance(counted, dict) or not all(type(amount) is int for amount in counted.values()):
        raise Veto("payload", "the counters of work.progress must be whole numbers")
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
