"""Why an application fails: the signals of its engines, the error codes, and the retries of each."""

from __future__ import annotations

from typing import Literal, NamedTuple

from headway import Retry

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


Category = Literal["infrastructure", "network", "application", "automation", "human", "system", "detection"]


class ErrorCode(NamedTuple):
    """A code: its category, retries by the same work, how it is mended, and what the user reads in the end.

    Without retries, the recovery is the state of the chart that mends it.
    """

    category: Category
    retries: int
    recovery: str
    message: str
    first_wait: str = "1s"

    @property
    def retriable(self) -> bool:
        """Whether anything is tried before the application fails."""
        return self.recovery != "none"


CODES = {
    "BROWSER_CRASH": ErrorCode("infrastructure", 0, "restarting", "The browser crashed."),
    "CDP_DISCONNECT": ErrorCode("infrastructure", 0, "reconnecting", "The browser was lost."),
    "BROWSER_START_FAILED": ErrorCode("infrastructure", 2, "another profile", "No browser started."),
    "ENGINE_CONNECT_FAILED": ErrorCode("infrastructure", 0, "engine_cascade", "No engine connected."),
    "NAVIGATION_TIMEOUT": ErrorCode("network", 2, "a longer wait", "The page did not load in time."),
    "NAVIGATION_ERROR": ErrorCode("application", 1, "check the URL", "The form could not be followed."),
    "FORM_NOT_FOUND": ErrorCode("application", 0, "none", "The page shows no application form."),
    "FIELD_FILL_FAILED": ErrorCode("automation", 0, "engine_cascade", "A field could not be filled."),
    "UPLOAD_FAILED": ErrorCode("automation", 2, "upload again", "The file could not be uploaded."),
    "SUBMIT_VALIDATION_ERROR": ErrorCode("application", 0, "filling", "The form rejects its values."),
    "SUBMIT_FAILED": ErrorCode("application", 1, "click again", "The form could not be submitted."),
    "VERIFICATION_FAILED": ErrorCode("application", 2, "look again", "No confirmation was found."),
    "CAPTCHA_TIMEOUT": ErrorCode("human", 0, "none", "Nobody solved the captcha in time."),
    "REVIEW_TIMEOUT": ErrorCode("human", 0, "none", "Nobody reviewed the application in time."),
    "HUMAN_TIMEOUT": ErrorCode("human", 0, "none", "Nobody took over in time."),
    "BUDGET_EXCEEDED": ErrorCode("system", 0, "none", "The application would cost too much."),
    "RATE_LIMITED": ErrorCode("system", 3, "back off", "The site limits how fast it is used."),
    "WORKFLOW_TIMEOUT": ErrorCode("system", 0, "none", "The application took over 30 minutes."),
    "PROFILE_LOCKED": ErrorCode("infrastructure", 2, "wait, stop it", "The profile is in use.", "10s"),
    "PROXY_BLOCKED": ErrorCode("network", 2, "another proxy session", "The proxy is blocked."),
    "SESSION_EXPIRED": ErrorCode("application", 2, "log in again", "The site's session expired."),
    "ANTI_BOT_DETECTED": ErrorCode("detection", 0, "engine_cascade", "The site refuses automation."),
}
"""The twenty-two codes."""

WAITS = {
    "QUEUE_TIMEOUT": ErrorCode("system", 0, "none", "No worker was free within 5 minutes."),
    "QUALITY_GATE_TIMEOUT": ErrorCode("human", 0, "none", "Nobody reviewed the doubts in time."),
    "SECURITY_TIMEOUT": ErrorCode("human", 0, "none", "Nobody met the security check in time."),
}
"""Codes of waits that the table of twenty-two leaves out."""

ALL = {**CODES, **WAITS}

NOT_SENT = (
    *("selector_not_found", "selector_ambiguous", "shadow_dom_blocked", "iframe_unreachable"),
    *("canvas_element", "captcha_detected", "budget_exceeded"),
    *("ENGINE_CONNECT_FAILED", "SUBMIT_VALIDATION_ERROR", "SUBMIT_FAILED", "BUDGET_EXCEEDED"),
)
"""What fails a submission before it has gone out; after anything else it may have."""

LOST = ("BROWSER_CRASH", "cdp_disconnect", "CDP_DISCONNECT")
"""What takes the browser, or the connection to it, away."""

DEFAULT = Retry(2, base="1s", factor=2, cap="10s", jitter=0.3)


def _policy(name: str, times: int, base: str = "1s") -> Retry:
    jitter = 0.3 if base == "1s" else 0  # a wait that the document names is kept to the second
    return Retry(times, on=name, base=base, factor=2, cap="10s", jitter=jitter)


BY_CODE = (
    *(_policy(name, code.retries, code.first_wait) for name, code in ALL.items()),
    *(_policy(name, signal.retries if signal.target == "same" else 0) for name, signal in SIGNALS.items()),
)
"""How work is tried again by its code: never for what the chart handles otherwise."""

FOR_SUBMISSION = _policy("SUBMIT_FAILED", CODES["SUBMIT_FAILED"].retries)
"""A submission is tried again only where it is known that nothing went out."""

RETRIES = (*BY_CODE, DEFAULT)
"""How work is tried again: by its code, else by default."""
