"""Which trace a call belongs to: it goes with the call into the rows, and with them to whoever goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CURRENT: ContextVar[str | None] = ContextVar("headway_trace", default=None)
"""The trace of what runs now, as a W3C `traceparent`."""
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent(text: str | None) -> str | None:
    """A header's text if it is a `traceparent`; else None, as the standard asks for."""
    return text if text is not None and TRACEPARENT.fullmatch(text) else None


@contextmanager
def tracing(trace: str | None) -> Iterator[None]:
    """Let what runs in a block belong to a trace."""
    token = CURRENT.set(trace)
    try:
        yield
    finally:
        CURRENT.reset(token)
