"""When work that failed is tried again: a pure function of the policy, the failures and a seed."""

from __future__ import annotations

from headway.clock import LONGEST
from headway.statechart import model
from headway.statechart.snapshot import OpenWork

_MASK = (1 << 64) - 1
_TOP = float(1 << 53)


def policy_for(run: model.Run, code: str) -> int | None:
    """The index of the first policy that covers an error code."""
    for index, policy in enumerate(run.retry):
        if not policy.on or code in policy.on:
            return index
    return None


def may_retry(run: model.Run, work: OpenWork, code: str) -> bool:
    """Whether one more attempt is allowed after a failure with this code."""
    index = policy_for(run, code)
    if index is None:
        return False
    times = run.retry[index].times
    return times is None or work.failures.get(str(index), 0) < times


def delay(policy: model.Retry, failures: int, seed: int) -> int:
    """Milliseconds to wait after the given number of failures: exponential, spread by jitter, capped."""
    wait = policy.base * policy.factor ** min(failures - 1, 64)
    if policy.cap is not None:
        wait = min(wait, policy.cap)
    wait *= 1 + policy.jitter * (2 * unit(seed) - 1)
    if policy.cap is not None:
        wait = min(wait, policy.cap)
    return max(0, round(min(wait, LONGEST)))


def unit(seed: int) -> float:
    """A number from 0 to 1 that looks random and is the same for the same seed (SplitMix64)."""
    mixed = (seed + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / _TOP
