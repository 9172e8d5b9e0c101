"""What an engine's failure calls for: the same engine again, another one, or something else."""

from __future__ import annotations

from typing import Literal, NamedTuple

Target = Literal["next", "vision", "same", "restart", "human", "fail"]


class Signal(NamedTuple):
    """A kind of failure: retries on the same engine, where to go then, and the code it fails with."""

    retries: int
    target: Target
    code: str


SIGNALS = {
    "selector_not_found": Signal(2, "next", "FIELD_FILL_FAILED"),
    "selector_ambiguous": Signal(1, "next", "FIELD_FILL_FAILED"),
    "action_no_effect": Signal(2, "next", "FIELD_FILL_FAILED"),
    "shadow_dom_blocked": Signal(0, "vision", "FIELD_FILL_FAILED"),
    "iframe_unreachable": Signal(0, "vision", "FIELD_FILL_FAILED"),
    "canvas_element": Signal(0, "vision", "FIELD_FILL_FAILED"),
    "dynamic_rendering": Signal(1, "vision", "FIELD_FILL_FAILED"),
    "cdp_disconnect": Signal(0, "restart", "CDP_DISCONNECT"),
    "timeout": Signal(1, "next", "FIELD_FILL_FAILED"),
    "anti_bot_detected": Signal(0, "vision", "ANTI_BOT_DETECTED"),
    "captcha_detected": Signal(0, "human", "CAPTCHA_TIMEOUT"),
    "rate_limited": Signal(3, "same", "RATE_LIMITED"),
    "budget_exceeded": Signal(0, "fail", "BUDGET_EXCEEDED"),
}
"""The thirteen kinds of failure an engine reports."""

CODES_FOR_ENGINES = {
    "ENGINE_CONNECT_FAILED": Signal(0, "next", "ENGINE_CONNECT_FAILED"),
    "FIELD_FILL_FAILED": Signal(2, "next", "FIELD_FILL_FAILED"),
    "ANTI_BOT_DETECTED": Signal(0, "vision", "ANTI_BOT_DETECTED"),
}
"""The error codes that another engine may mend, too."""

RECOVERABLE = {
    name: signal
    for name, signal in {**SIGNALS, **CODES_FOR_ENGINES}.items()
    if signal.target in {"next", "vision"}
}
"""What enters the cascade of engines."""

ENGINES = {"dom": 2, "cua": 1, "vision": 2}
"""The engines in the order they are tried, with the retries each one gets."""


def retries_on(engine: str, failure: str) -> int:
    """How often the same engine may try again after this failure."""
    return min(RECOVERABLE[failure].retries, ENGINES[engine])


def next_engine(engine: str, failure: str) -> str | None:
    """The engine to switch to, or None when none is left."""
    order = list(ENGINES)
    following = order[order.index(engine) + 1 :]
    if RECOVERABLE[failure].target == "vision":
        following = [each for each in following if each == "vision"]
    return following[0] if following else None


def code_of(failure: str) -> str:
    """The error code a failure is reported under."""
    known = SIGNALS.get(failure)
    return known.code if known else failure
