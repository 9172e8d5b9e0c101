"""The tutorial "Your lifecycle as a service", played with real processes and a real PostgreSQL."""

import socket
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.examples.terminals import Terminals
from tests.store.postgres_server import PostgresServer, binaries

PAGE = ROOT / "docs/tutorials/lifecycle-as-a-service.md"
PORT = "8000"


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@pytest.mark.mission("ENG-10", "ENG-17", "ENG-20", "ENG-24")
def test_a_reader_gets_from_a_chart_to_a_service_on_postgresql(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """Every command of the page prints what it shows: HTTP, keys, a reload, two kinds of worker."""
    port = str(free_port())
    environment = {
        "HEADWAY_PORT": port,
        "HEADWAY_URL": f"http://127.0.0.1:{port}",
        "PGHOST": str(postgres_server.folder),
        "PGUSER": "headway",
        "POSTGRES_BIN": str(binaries()),
    }
    Terminals(tmp_path, environment, replaced={f":{PORT}": f":{port}"}).play(PAGE.read_text(encoding="utf-8"))
