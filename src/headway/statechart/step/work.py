"""The work of a state as workers get it: one attempt, with the keys that limit and place it."""

from __future__ import annotations

from typing import Any

from headway.statechart import model
from headway.statechart.effects import StartWork
from headway.statechart.step.actions import fill
from headway.statechart.step.draft import Draft

LONGEST_NUMBER = 10


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
