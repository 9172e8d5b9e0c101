"""Log lines: JSON for machines, colours on a terminal, secrets masked."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable
from typing import Any, TextIO

import structlog

from headway.engine.engine import Engine
from headway.settings import MASK
from headway.store.rows import HistoryRow
from headway.store.unit import Changes

SECRETS = re.compile(
    r"hw_[0-9a-f]{6,}_[0-9A-Za-z]{8,}"  # an API key
    r"|whsec_[0-9A-Za-z+/=]{8,}"  # a webhook's secret
    r"|eyJ[\w-]{8,}(\.[\w-]{8,}){1,2}"  # a token, or a link to answer by
    r"|(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"  # a password in an address
    r"|(?i:(?<=bearer )[^\s\"',]+)"
)
"""Secrets that are masked in every log line."""

BREAKS = re.compile("[\\x7f-\\x9f\\u2028\\u2029]")

TRANSITIONS = structlog.stdlib.get_logger("headway.transition")


def configure(*, form: str = "auto", level: str = "info", to: TextIO | None = None) -> None:
    """Send all log lines to a stream: `json`, `text` with colours, or `auto`, which is text on a terminal."""
    stream = sys.stderr if to is None else to
    as_text = form == "text" or (form == "auto" and stream.isatty())
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Neither form shows the variables of a failed function: they may hold what nobody should read.
    last: list[Any] = (
        [
            on_one_line,
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=indented_traceback),
        ]
        if as_text
        else [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
            without_breaks,
        ]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last, without_secrets],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # The service itself logs its start and end.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def without_breaks(_logger: object, _method: str, line: str) -> str:
    """A line of JSON in which line breaks and control characters that JSON allows are escaped."""
    return BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def on_one_line(_logger: object, _method: str, fields: Any) -> Any:
    """Fields without line breaks and control characters: a value must not look like a line of its own."""
    return {
        name: _printable(value) if isinstance(value, str) and name != "exception" else value
        for name, value in fields.items()
    }


def indented_traceback(to: TextIO, failure: Any) -> None:
    """A traceback whose lines cannot be taken for log lines, whatever the text of the error is."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, failure)
    to.write("".join(f"\n  | {_printable(line)}" for line in text.getvalue().strip().splitlines()))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def without_secrets(_logger: object, _method: str, line: Any) -> Any:
    """A line with keys, tokens and passwords masked."""
    return SECRETS.sub(MASK, line)


def log_transitions(engine: Engine) -> Callable[[], None]:
    """Log each transition from now on; call the returned function to stop."""

    def write(changes: Changes) -> None:
        for row in changes.history:
            TRANSITIONS.info("transition", **_transition(row))

    engine.watch(write)
    return lambda: engine.unwatch(write)


def _transition(row: HistoryRow) -> dict[str, Any]:
    """The fields of a transition; payloads are left out, as they belong to users."""
    return {
        "tenant": row.tenant,
        "job_id": row.instance,
        "from": row.before,
        "to": row.after,
        "reason": row.reason or row.event,
        "attempt": row.attempt,
        "actor": row.actor,
    }
