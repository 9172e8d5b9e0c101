"""Fencing: what belongs to a timer, a work item, an ask or a child is taken only while that is open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headway.codec import replace
from headway.errors import InputError, shown
from headway.statechart.actions import set_timer
from headway.statechart.draft import Draft
from headway.statechart.effects import EscalateAsk, Message, RemindAsk
from headway.statechart.moves import answers, repeat_timer, start_work
from headway.statechart.refusal import Code, Veto
from headway.statechart.retry import delay, may_retry, policy_for
from headway.statechart.snapshot import Event, OpenAsk, OpenWork
from headway.statechart.tree import comes_from_engine

MOST_SAID = 500


def admit(draft: Draft) -> Event:
    """The event as the states will see it; raises Veto when what it belongs to is no longer open.

    Says on the draft whether the event comes from `outside`, and whether it is `finished` with.
    """
    event = draft.event
    if type(event.name) is not str or not event.name:
        raise InputError(f"an event has a name, not {shown(event.name)}")
    admission = BY_NAME.get(event.name) if event.ref is not None else None
    if admission is not None:
        draft.outside = False
        return admission(draft, event)
    if draft.chart.scripted:
        return event
    if comes_from_engine(event.name):
        raise Veto("reserved", f"{event.name} comes from the engine only, with what it belongs to")
    return event if event.ref is None else _answer(draft, event)


def _finished(draft: Draft, event: Event) -> Event:
    draft.finished = True
    return event


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
        return _finished(draft, fired)
    if timer.state is not None and kind == "after":
        repeat_timer(draft, timer.state, timer.event)
    return fired


def _remind(draft: Draft, state: str, _data: Any) -> None:
    ask = draft.asks[state]
    draft.effects.append(RemindAsk(id=draft.identify(), ask=ask.id, roles=ask.roles))
    again = draft.chart.nodes[state].model.ask
    assert again is not None
    assert again.remind is not None
    following = draft.now + timedelta(milliseconds=again.remind)
    if ask.deadline is None or following < ask.deadline:
        set_timer(draft, again.remind, f"remind.{state}", state)


def _escalate(draft: Draft, state: str, index: Any) -> None:
    ask = draft.asks[state]
    declared = draft.chart.nodes[state].model.ask
    assert declared is not None
    roles = declared.escalate[index].roles
    draft.own("asks")[state] = replace(ask, roles=tuple(dict.fromkeys((*ask.roles, *roles))))
    draft.effects.append(EscalateAsk(id=draft.identify(), ask=ask.id, roles=roles))


ASK_TIMERS: dict[str, Callable[[Draft, str, Any], None]] = {"remind": _remind, "escalate": _escalate}


def _open_work(draft: Draft, event: Event) -> tuple[str, OpenWork]:
    for state, work in draft.work.items():
        if work.id == event.ref:
            if work.attempt != event.attempt:
                message = f"attempt {event.attempt} of {work.id} is over; attempt {work.attempt} is under way"
                raise Veto("stale", message)
            return state, work
    raise Veto("stale", f"the work {event.ref} is no longer wanted")


def _work_done(draft: Draft, event: Event) -> Event:
    state, _ = _open_work(draft, event)
    del draft.own("work")[state]
    node = draft.chart.nodes[state]
    if node.model.progress is not None:
        draft.progress = float(node.model.progress[1])
    return Event(f"done.work.{state}", event.data)


def _work_failed(draft: Draft, event: Event) -> Event:
    state, work = _open_work(draft, event)
    code = event.data.get("code") if isinstance(event.data, dict) else None
    if not isinstance(code, str) or not code or "." in code:
        raise Veto("payload", "work.failed carries a code: a word without dots")
    run = draft.chart.nodes[state].model.run
    assert run is not None
    if not may_retry(run, work, code):
        del draft.own("work")[state]
        return Event(f"error.work.{state}.{code}", event.data)
    index = policy_for(run, code)
    assert index is not None
    failures = {**work.failures, index: work.failures.get(index, 0) + 1}
    wait = delay(run.retry[index], failures[index], draft.base.seed + draft.seq)
    due = draft.now + timedelta(milliseconds=wait)
    following = OpenWork(id=work.id, attempt=work.attempt + 1, failures=failures, due=due)
    draft.own("work")[state] = following
    draft.effects.append(
        start_work(draft.identify(), work.id, state, run, attempt=following.attempt, due=due)
    )
    draft.row("retry", draft.states, event, reason=code)
    return _finished(draft, event)


def _work_progress(draft: Draft, event: Event) -> Event:
    state, _ = _open_work(draft, event)
    data = event.data if isinstance(event.data, dict) else {}
    fraction = data.get("fraction")
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
        raise Veto("payload", "work.progress carries a fraction from 0 to 1")
    declared = draft.chart.nodes[state].model
    low, high = declared.progress or (0, 100)
    draft.progress = low + (high - low) * float(fraction)
    counters = draft.own("counters")
    counted = data.get("counters", {})
    if not isinstance(counted, dict) or not all(type(amount) is int for amount in counted.values()):
        raise Veto("payload", "the counters of work.progress are whole numbers to add")
    for name, amount in counted.items():
        counters[str(name)] = counters.get(str(name), 0) + amount
    said = declared.says
    for key, value in {**draft.context, **data}.items():
        if f"{{{key}}}" in said:
            said = said.replace(f"{{{key}}}", str(value)[:MOST_SAID])
    report = {"instance": draft.base.instance, "step": state, "pct": draft.progress, "message": said}
    draft.effects.append(Message(id=draft.identify(), kind="live", name="progress", data=report))
    return _finished(draft, event)


def _child_changed(draft: Draft, event: Event) -> Event:
    data = event.data if isinstance(event.data, dict) else {}
    before, after, errors = data.get("from"), data.get("to"), data.get("errors", 0)
    if not isinstance(errors, int) or isinstance(errors, bool) or errors < 0:
        raise Veto("payload", "child.changed carries a number of new errors")
    for status in (before, after):
        if status is not None and not isinstance(status, str):
            raise Veto("payload", "child.changed carries the child's status before and after")
    children = draft.own("children")
    leaving = before or "new"
    if children.get(leaving, 0) < 1:
        raise Veto("stale", f"no child is in {leaving}")
    children[leaving] -= 1
    if not children[leaving]:
        del children[leaving]
    if after is not None:
        children[after] = children.get(after, 0) + 1
    if errors:
        counters = draft.own("counters")
        counters["errors"] = counters.get("errors", 0) + errors
    return event


def _answer(draft: Draft, event: Event) -> Event:
    """An event that belongs to an ask, or one by which a worker ends its work."""
    for state, ask in draft.asks.items():
        if ask.id == event.ref:
            return _to_ask(draft, event, state, ask)
    for state, work in draft.work.items():
        if work.id == event.ref:
            _open_work(draft, event)
            del draft.own("work")[state]
            return event
    for node in draft.chart.order:
        ask_model = node.model.ask
        if ask_model is not None and ask_model.late == "record" and _answers(event, node.id, answers(node)):
            draft.row("", draft.states, event, reason="late answer")
            return _finished(draft, event)
    code: Code = "late" if _is_answer(draft, event) else "stale"
    raise Veto(code, f"{event.name} answers {event.ref}, which is no longer open")


def _is_answer(draft: Draft, event: Event) -> bool:
    asking = [node for node in draft.chart.order if node.model.ask is not None]
    return any(_answers(event, node.id, answers(node)) for node in asking)


def _answers(event: Event, state: str, names: tuple[str, ...]) -> bool:
    return event.name in names or (event.name == "answer" and f"answer.{state}" in names)


def _to_ask(draft: Draft, event: Event, state: str, ask: OpenAsk) -> Event:
    node = draft.chart.nodes[state]
    if event.name != "answer":
        if event.name not in answers(node):
            raise Veto(
                "illegal", f"{event.name} is no answer to {state}; these are: {', '.join(answers(node))}"
            )
        return event
    if not event.by.roles.intersection(ask.roles):
        raise Veto("actor", f"{state} asks {' or '.join(ask.roles)}, not {event.by.id}")
    declared = node.model.ask
    assert declared is not None
    if declared.form is not None:
        _check_form(draft, declared.form, event.data)
    return replace(event, name=f"answer.{state}")


def _check_form(draft: Draft, form: str, data: Any) -> None:
    kind = draft.chart.types[form]
    try:
        kind.load(data)
    except Exception as error:
        raise Veto("payload", str(error)) from error


BY_NAME: dict[str, Callable[[Draft, Event], Event]] = {
    "timer": _timer,
    "work.done": _work_done,
    "work.failed": _work_failed,
    "work.progress": _work_progress,
    "child.changed": _child_changed,
}
