"""When work that failed or was lost is tried again: pure functions of policy, failures, losses and a seed."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from headway.clock import LONGEST, backoff
from headway.codec import replace
from headway.statechart import model
from headway.statechart.snapshot import OpenWork

MOST_LOSSES = 20
"""How often work may lose its host unless the chart says otherwise: often, because it is seldom its error."""

_MASK = (1 << 64) - 1
_TOP = float(1 << 53)


def policy_for(run: model.Run, code: str) -> int | None:
    """The index of the first policy that covers an error code."""
    for index, policy in enumerate(run.retry):
        if not policy.on or code in policy.on:
            return index
    return None


class Again(NamedTuple):
    """The next attempt: the work as it is then, after how many milliseconds, and why there is one."""

    work: OpenWork
    wait: int
    reason: str


def after_error(run: model.Run, work: OpenWork, code: str, seed: int) -> Again | None:
    """The attempt that follows a failure with this code; None when no policy allows one more."""
    index = policy_for(run, code)
    if index is None:
        return None
    policy, count = run.retry[index], work.failures.get(str(index), 0) + 1
    if policy.times is not None and count > policy.times:
        return None
    failures = {**work.failures, str(index): count}
    following = replace(work, attempt=work.attempt + 1, failures=failures)
    return Again(following, delay(policy, count, seed), code)


def after_loss(run: model.Run, work: OpenWork, seed: int) -> Again | None:
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
    return Again(following, wait, f"{run.lost_code}: {losses(run, following)}")


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
