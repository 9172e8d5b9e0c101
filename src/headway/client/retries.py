"""Repeats a request until it is answered. A request has a key, so that the service carries it out once."""

from __future__ import annotations

from headway.client.actions import HttpReply, HttpRequest, Pause, Reply, Steps
from headway.client.problems import GATEWAYS, document_of, error_of, may_be_committed, retry_after
from headway.clock import backoff

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
LONGEST_RETRY_AFTER = 30.0
"""If the service asks for a longer pause than this, the caller decides."""
REPEATED = GATEWAYS | {429}
LASTING = frozenset({"schema", "drawing"})
"""Codes of problems that do not pass by themselves."""


def answered(request: HttpRequest, retries: int) -> Steps[HttpReply]:
    """The answer to a request, repeated `retries` times at most; raises ClientError."""
    failures, doubt = 0, False
    while True:
        reply: Reply = yield request
        if isinstance(reply, HttpReply) and not reply.failed:
            return reply
        failures += 1
        doubt = may_be_committed(request, reply, before=doubt)
        pause = pause_after(reply, failures)
        if pause is None or failures > retries:
            raise error_of(request, reply, doubt=doubt)
        yield Pause(pause)


def pause_after(reply: Reply, failures: int) -> float | None:
    """Seconds to wait before the request is sent again; None if that does not help."""
    pause = backoff(failures, base=FIRST_PAUSE, cap=LONGEST_PAUSE)
    if not isinstance(reply, HttpReply):
        return pause
    asked = retry_after(reply) or 0.0
    passes = reply.status in REPEATED and document_of(reply).get("code") not in LASTING
    return max(pause, asked) if passes and asked <= LONGEST_RETRY_AFTER else None
