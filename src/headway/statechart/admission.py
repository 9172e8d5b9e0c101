"""Fencing: an event that belongs to a timer, a work item, an ask or a child is taken only while that is open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headway.codec import replace
from headway.statechart.actions import set_timer
from headway.statechart.draft import Draft
from headway.statechart.effects import EscalateAsk, Message, RemindAsk
from headway.statechart.moves import answers, start_work
from headway.statechart.refusal import RESERVED, Code, Veto
from headway.statechart.retry import delay, may_retry, policy_for
from headway.statechart.snapshot import Event, OpenAsk, OpenWork

MOST_SAID = 500


class Admitted:
    """An event that may go on: under which name, whether it came from outside, and if it is done with."""

    __slots__ = ("event", "finished", "outside")

    def __init__(self, event: Event, *, outside: bool = False, finished: bool = False) -> None:
        self.event = event
        self.outside = outside
        self.finished = finished


def admit(draft: Draft) -> Admitted:
    """The event as the states will see it; raises Veto when what it belongs to is no longer open."""
    event = draft.event
    admission = BY_NAME.get(event.name)
    if admission is not None and (event.ref is not None or not draft.chart.scripted):
        if event.ref is None:
            raise Veto("reserved", f"{event.name} comes from the engine, with what it belongs to")
        return admission(draft, event)
    if event.ref is not None and not draft.chart.scripted:
        return _answer(draft, event)
    if "." in event.name and event.name.partition(".")[0] in RESERVED and not draft.chart.scripted:
        raise Veto("reserved", f"{event.name} comes from the engine only")
    return Admitted(event, outside=True)


def _timer(draft: Draft, event: Event) -> Admitted:
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
        draft.row("", draft.leaves(), fired)
        return Admitted(fired, finished=True)
    return Admitted(fired)


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


def _work_done(draft: Draft, event: Event) -> Admitted:
    state, _ = _open_work(draft, event)
    del draft.own("work")[state]
    node = draft.chart.nodes[state]
    if node.model.progress is not None:
        draft.progress = float(node.model.progress[1])
    return Admitted(Event(f"done.work.{state}", event.data))


def _work_failed(draft: Draft, event: Event) -> Admitted:
    state, work = _open_work(draft, event)
    code = event.data.get("code") if isinstance(event.data, dict) else None
    if not isinstance(code, str) or not code or "." in code:
        raise Veto("payload", "work.failed carries a code: a word without dots")
    run = draft.chart.nodes[state].model.run
    assert run is not None
    if not may_retry(run, work, code):
        del draft.own("work")[state]
        return Admitted(Event(f"error.work.{state}.{code}", event.data))
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
    draft.row("retry", draft.leaves(), event, reason=code)
    return Admitted(event, finished=True)


def _work_progress(draft: Draft, event: Event) -> Admitted:
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
    return Admitted(event, finished=True)


def _child_changed(draft: Draft, event: Event) -> Admitted:
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
    return Admitted(event)


def _answer(draft: Draft, event: Event) -> Admitted:
    """An event that belongs to an ask, or one by which a worker ends its work."""
    for state, ask in draft.asks.items():
        if ask.id == event.ref:
            return _to_ask(draft, event, state, ask)
    for state, work in draft.work.items():
        if work.id == event.ref:
            _open_work(draft, event)
            del draft.own("work")[state]
            return Admitted(event, outside=True)
    for node in draft.chart.order:
        ask_model = node.model.ask
        if ask_model is not None and ask_model.late == "record" and _answers(event, node.id, answers(node)):
            draft.row("", draft.leaves(), event, reason="late answer")
            return Admitted(event, finished=True)
    code: Code = "late" if _is_answer(draft, event) else "stale"
    raise Veto(code, f"{event.name} answers {event.ref}, which is no longer open")


def _is_answer(draft: Draft, event: Event) -> bool:
    asking = [node for node in draft.chart.order if node.model.ask is not None]
    return any(_answers(event, node.id, answers(node)) for node in asking)


def _answers(event: Event, state: str, names: tuple[str, ...]) -> bool:
    return event.name in names or (event.name == "answer" and f"answer.{state}" in names)


def _to_ask(draft: Draft, event: Event, state: str, ask: OpenAsk) -> Admitted:
    node = draft.chart.nodes[state]
    if event.name != "answer":
        if event.name not in answers(node):
            raise Veto("illegal", f"{event.name} is no answer to {state}; these are: {', '.join(answers(node))}")
        return Admitted(event, outside=True)
    if not event.by.roles.intersection(ask.roles):
        raise Veto("actor", f"{state} asks {' or '.join(ask.roles)}, not {event.by.id}")
    declared = node.model.ask
    assert declared is not None
    if declared.form is not None:
        _check_form(draft, declared.form, event.data)
    return Admitted(replace(event, name=f"answer.{state}"), outside=True)


def _check_form(draft: Draft, form: str, data: Any) -> None:
    kind = draft.chart.types[form]
    try:
        kind.load(data)
    except Exception as error:
        raise Veto("payload", str(error)) from error


BY_NAME: dict[str, Callable[[Draft, Event], Admitted]] = {
    "timer": _timer,
    "work.done": _work_done,
    "work.failed": _work_failed,
    "work.progress": _work_progress,
    "child.changed": _child_changed,
}
