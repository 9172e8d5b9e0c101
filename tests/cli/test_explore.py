"""`headway explore`: a real server on a free port of this machine."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from headway.cli.explorer.app import host_names
from headway.cli.output import CommandError
from headway.cli.serve import address_of, listen
from tests.cli.conftest import Headway

pytestmark = pytest.mark.mission("ENG-18")

ROOT = Path(__file__).resolve().parents[2]
EXPENSE = "tests.cli.sample:Expense"


def test_a_server_says_where_it_is_answers_and_stops() -> None:
    """It prints its address and three commands, serves the page, and Ctrl-C ends it with code 0."""
    command = [sys.executable, "-m", "headway", "explore", "--port", "0", EXPENSE]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        try:
            printed = ""
            while not (found := re.search(r"http://127\.0\.0\.1:\d+/", printed)):
                line = server.stdout.readline()
                assert line, f"it ended: {printed}"
                printed += line
            assert "An expense claim" in httpx.get(found[0], timeout=60, follow_redirects=True).text
            server.send_signal(signal.SIGINT)
            rest = server.stdout.read()
            assert server.wait(60) == 0
        finally:
            server.kill()
    assert rest.count("headway chart ") == 3
    assert rest.rstrip().endswith("Stopped.")


def test_a_port_in_use_is_told_or_passed_over() -> None:
    """A port that was asked for must be free; otherwise the next one is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port} on 127.0.0.1: address already in use"):
            listen("127.0.0.1", [port])
        with listen("127.0.0.1", [port, 0]) as other:
            assert other.getsockname()[1] != port


def test_an_address_of_another_machine_is_told() -> None:
    """An address this machine does not have is a message, not a traceback."""
    with pytest.raises(CommandError, match=r"192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", [0])


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("127.0.0.1", ("127.0.0.1",)),
        ("localhost", ("localhost",)),
        ("0.0.0.0", ("0.0.0.0", socket.gethostname().lower(), "*")),  # noqa: S104 - names to compare
    ],
)
def test_loopback_answers_to_its_own_names_only(host: str, names: tuple[str, ...]) -> None:
    """Bare addresses are answered only by a server that was opened to the network."""
    assert host_names(host) == names


def test_the_address_printed_can_be_opened() -> None:
    """A server on all addresses is opened by the one of this machine."""
    with listen("127.0.0.1", [0]) as listening:
        port = listening.getsockname()[1]
        assert address_of(listening, "0.0.0.0") == f"http://127.0.0.1:{port}/"  # noqa: S104 - a name
        assert address_of(listening, "::1") == f"http://[::1]:{port}/"


def test_without_the_extra_the_message_names_it(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starlette or uvicorn missing: exit code 2 and what to install."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "headway.cli.explorer.app", raising=False)
    outcome = headway("explore", EXPENSE)
    assert outcome.code == 2
    assert "pip install 'headway[service]'" in outcome.err
