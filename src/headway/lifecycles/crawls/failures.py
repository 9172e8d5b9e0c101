"""How a crawl's errors are classed, under which code they are recorded, and how each class is retried."""

from __future__ import annotations

from typing import Literal

from headway.statechart import model

Kind = Literal["transient", "permanent", "anti_bot"]

TRANSIENT = {
    "network_error": "E_5XX_ORIGIN",
    "rate_limited": "E_429_RATE",
    "browser_crash": "E_BROWSER",
    "timeout_soft": "E_TIMEOUT",
    "qdrant_unavailable": "E_QDRANT",
    "neo4j_write_lock": "E_NEO4J",
}
PERMANENT = {
    "invalid_url": "E_URL_BAD",
    "robots_disallowed": "E_ROBOTS",
    "parse_error_strict": "E_PARSE",
    "unsupported_mime": "E_PARSE",
    "bad_request": "E_URL_BAD",
}
ANTI_BOT = {
    "captcha": "E_403_WAF",
    "403_waf": "E_403_WAF",
    "503_shield": "E_403_WAF",
}
CODES: dict[str, Kind] = {
    "E_URL_BAD": "permanent",
    "E_ROBOTS": "permanent",
    "E_403_WAF": "anti_bot",
    "E_429_RATE": "transient",
    "E_5XX_ORIGIN": "transient",
    "E_PARSE": "permanent",
    "E_TIMEOUT": "transient",
    "E_BROWSER": "transient",
    "E_QDRANT": "transient",
    "E_NEO4J": "transient",
    "E_GPU_OOM": "transient",  # no class of its own: a later batch finds the memory free again
}
CLASSES: dict[str, tuple[Kind, str]] = {
    **{name: ("transient", code) for name, code in TRANSIENT.items()},
    **{name: ("permanent", code) for name, code in PERMANENT.items()},
    **{name: ("anti_bot", code) for name, code in ANTI_BOT.items()},
    **{code: (kind, code) for code, kind in CODES.items()},
}

MOST_ATTEMPTS = 7
POLICIES: dict[Kind, model.Retry] = {
    "transient": model.Retry(times=MOST_ATTEMPTS - 1, base=2_000, factor=2.0, cap=60_000, jitter=0.25),
    "anti_bot": model.Retry(times=MOST_ATTEMPTS - 1, base=10_000, factor=2.0, cap=600_000, jitter=0.25),
    "permanent": model.Retry(times=0),
}


def classed(reported: str) -> tuple[Kind, str]:
    """The kind and the code of an error a worker reports by class or by code; an unknown one is permanent."""
    return CLASSES.get(reported, ("permanent", reported))
