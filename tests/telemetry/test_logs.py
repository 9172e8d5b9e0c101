"""Log lines: one for each transition, readable by machines, and without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from headway.node import Node
from headway.telemetry.logs import configure, log_transitions
from tests.cli.shop import Order

pytestmark = pytest.mark.mission("ENG-7", "ENG-16")

SECRETS = {
    "key": "hw_e329e5c42c7962db_8cb8214b10cd714f543e3bd27b759046",
    "webhook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "link": "POST /v1/links/eyJ0ZW5hbnQiOiJkZWZhdWx0In0.bGlua3NpZ25hdHVyZQ failed",
    "password": "postgresql://me:hunter2@db/x",
    "header": "authorization: Bearer opaque-token-123",
}
HIDDEN = ("8cb8214b", "MfKQ9r8", "eyJzdWIi", "eyJ0ZW5h", "bGlua3", "hunter2", "opaque-token")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where log lines go; afterwards logging is as it was."""
    root = logging.getLogger()
    before = (root.level, [*root.handlers])
    yield io.StringIO()
    root.setLevel(before[0])
    root.handlers[:] = before[1]


async def test_a_transition_is_a_line(database: str, stream: io.StringIO) -> None:
    """It has the fields that were promised, and no payload."""
    configure(form="json", to=stream)
    node = Node(database, [Order])
    end = log_transitions(node.engine)
    async with node.opened() as tenant:
        await tenant.create(Order, "o-1", {"customer": "a secret customer"})
        await tenant.send("o-1", Order.submit())
        end()
        await tenant.send("o-1", Order.withdraw())
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    moves = [line for line in lines if line["event"] == "transition"]
    assert [
        (line["job_id"], line["from"], line["to"], line["reason"], line["attempt"]) for line in moves
    ] == [
        ("o-1", "", "draft", "start", 0),
        ("o-1", "draft", "review", "submit", 0),
    ]
    assert "secret customer" not in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("what", SECRETS)
def test_secrets_are_hidden_wherever_they_stand(stream: io.StringIO, form: str, what: str) -> None:
    """In messages, in their arguments, in fields and in tracebacks."""
    configure(form=form, to=stream)
    log = logging.getLogger("headway")
    log.warning("this came: %s", SECRETS[what])
    log.warning("in a field", extra={"given": SECRETS[what]})
    log.error("failed", exc_info=ValueError(SECRETS[what]))
    written = stream.getvalue()
    assert written.count("••••••") >= 3
    assert not [secret for secret in HIDDEN if secret in written]


def test_less_important_lines_are_left_out(stream: io.StringIO) -> None:
    """The level is that of the settings."""
    configure(form="json", level="warning", to=stream)
    logging.getLogger("headway").info("quiet")
    logging.getLogger("headway").warning("loud")
    [line] = stream.getvalue().splitlines()
    assert (json.loads(line)["event"], json.loads(line)["level"]) == ("loud", "warning")


@pytest.mark.parametrize("break_", ["\n", "\r", "\x0b", "\x85", "\u2028", "\x1b[2K\r"])
@pytest.mark.parametrize("form", ["json", "text"])
def test_a_value_cannot_forge_a_line(stream: io.StringIO, form: str, break_: str) -> None:
    """Whatever a name holds, each call of the log is one line, and a traceback's lines are no log lines."""
    configure(form=form, to=stream)
    forged = f"ann{break_}2026-01-01T00:00:00Z [info     ] forged line"
    log = logging.getLogger("headway")
    log.warning("%s has called", forged)
    log.warning("in a field", extra={"actor": forged})
    structlog.stdlib.get_logger("headway.transition").info("transition", actor=forged)
    log.error("failed", exc_info=ValueError(forged))
    lines = stream.getvalue().splitlines()
    assert stream.getvalue().count("forged line") == 4
    assert not [line for line in lines if line.startswith("2026-01-01")]
    assert len([line for line in lines if not line.startswith("  | ")]) == 4
    assert "\x1b" not in stream.getvalue()
