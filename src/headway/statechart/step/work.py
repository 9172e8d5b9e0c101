"""The work of a state: starting an attempt with its keys and limits, its progress, its end, its retries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any, NamedTuple

from headway.clock import LONGEST, backoff
from headway.codec import replace
from headway.statechart import model
from headway.statechart.effects import PublishMessage, StartWork
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import Event, OpenWork
from headway.statechart.step.actions import fill, filled
from headway.statechart.step.draft import Draft
from headway.statechart.tree import StateNode

LONGEST_NUMBER = 10
WHOLE = (0, 100)
MOST_LOSSES = 20
"""How often work may lose its host by default: often, because the work is rarely the cause."""

_MASK = (1 << 64) - 1
_TOP = float(1 << 53)


def start_work(draft: Draft, work: str, state: str, run: model.Run, **attempt: Any) -> None:
    """Hand an attempt of a state's work to the workers."""
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
    """The limit's number; 1, the safest value, if the context does not have it."""
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
    retried = replace(event, data={**event.data, "next_try": due.isoformat()})
    draft.row("retry", draft.states, retried, reason=again.reason)
    draft.finished = True
    return event


def _cause(event: Event) -> str | None:
    """The cause that the engine gives for a failure; None for a failure with a code of its own."""
    data = event.data if isinstance(event.data, dict) else {}
    cause = data.get("cause")
    return cause if "code" not in data and isinstance(cause, str) and cause in CAUSES else None


def _lost_too_often(run: model.Run, work: OpenWork, event: Event) -> dict[str, Any]:
    """The data of the error after the last loss; its message says how many hosts were lost."""
    most = losses_allowed(run)
    said = f"its host was lost {work.lost + 1} times, at most {most} are allowed" if most else None
    return {**event.data, "message": said or event.data.get("message")}


def _failure(run: model.Run, event: Event) -> tuple[Event, str]:
    """The failure as the chart sees it, and its code: the chart's own when only a cause is given."""
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
    said = filled(phase.model.says, draft.redacted({**draft.context, **data}))
    report = {"instance": draft.base.instance, "step": phase.id, "pct": draft.progress, "message": said}
    report |= {"attempt": event.attempt, "fraction": fraction, "eta_seconds": data.get("eta_seconds")}
    report["counters"] = {name: draft.counters[name] for name in map(str, counted)}
    draft.effects.append(PublishMessage(id=draft.identify(), kind="live", name="progress", data=report))
    draft.finished = True
    return event


def _phase(node: StateNode) -> StateNode:
    """The state whose range of progress a state's work moves in: its own, or one around it."""
    return next((above for above in node.upward if above.model.progress is not None), node)


def policy_for(run: model.Run, code: str) -> int | None:
    """The index of the first policy that covers an error code."""
    for index, policy in enumerate(run.retry):
        if not policy.on or code in policy.on:
            return index
    return None


class NextAttempt(NamedTuple):
    """The next attempt: the work as it is then, after how many milliseconds, and why there is one."""

    work: OpenWork
    wait: int
    reason: str


def after_error(run: model.Run, work: OpenWork, code: str, seed: int) -> NextAttempt | None:
    """The attempt that follows a failure with this code; None when no policy allows one more."""
    index = policy_for(run, code)
    if index is None:
        return None
    policy, count = run.retry[index], work.failures.get(str(index), 0) + 1
    if policy.times is not None and count > policy.times:
        return None
    failures = {**work.failures, str(index): count}
    following = replace(work, attempt=work.attempt + 1, failures=failures)
    return NextAttempt(following, delay(policy, count, seed), code)


def after_loss(run: model.Run, work: OpenWork, seed: int) -> NextAttempt | None:
    """The attempt that follows the loss of a host; None when it was lost too often.

    Losses use up no retries of errors. They wait as the policy says that covers their code, and never longer
    than its failures do; without such a policy they do not wait: noticing a loss took time enough.
    """
    count, most = work.lost + 1, losses_allowed(run)
    if most is not None and count > most:
        return None
    index = policy_for(run, run.lost_code)
    wait = 0 if index is None else _delay_of_loss(run.retry[index], count, seed)
    following = replace(work, attempt=work.attempt + 1, lost=count)
    return NextAttempt(following, wait, f"{run.lost_code}: {losses(run, following)}")


def losses_allowed(run: model.Run) -> int | None:
    """How often work is tried again because its host was lost; None where its code is retried for ever."""
    if run.lost is not None:
        return run.lost
    index = policy_for(run, run.lost_code)
    times = 0 if index is None else run.retry[index].times
    return MOST_LOSSES if times else times


def losses(run: model.Run, work: OpenWork) -> str:
    """How often work has lost its host, and how often it may: `host lost 2 of 20`."""
    most = losses_allowed(run)
    return f"host lost {work.lost}" + ("" if most is None else f" of {most}")


def _delay_of_loss(policy: model.Retry, count: int, seed: int) -> int:
    """Without a cap the waits of 20 losses would grow to days; the policy was written for fewer failures."""
    return delay(policy, min(count, policy.times or count), seed)


def delay(policy: model.Retry, failures: int, seed: int) -> int:
    """Milliseconds to wait after the given number of failures: exponential, spread by jitter, capped."""
    cap = inf if policy.cap is None else policy.cap
    wait = backoff(failures, base=policy.base, cap=cap, factor=policy.factor)
    wait *= 1 + policy.jitter * (2 * unit(seed) - 1)
    return max(0, round(min(wait, cap, LONGEST)))


def unit(seed: int) -> float:
    """A number from 0 to 1 that looks random and is the same for the same seed (SplitMix64)."""
    mixed = (seed + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / _TOP
