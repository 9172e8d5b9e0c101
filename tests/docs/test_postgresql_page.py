"""What the page about PostgreSQL shows happens on a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import BIN, ROOT, blocks
from tests.store.postgres_server import PostgresServer

PAGE = (ROOT / "docs/how-to/postgresql.md").read_text(encoding="utf-8")


@pytest.mark.mission("ENG-17")
def test_the_program_of_the_page_runs_on_a_server(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Without tables the error names the command; after it the program runs, and makes no file."""
    [program] = [block.body for block in blocks(PAGE) if block.note == "file: office.py"]
    (tmp_path / "office.py").write_text(program, encoding="utf-8")
    environment = os.environ | {"HEADWAY_DATABASE": postgres_server.new_database()}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    assert "headway db up" in run(sys.executable, "office.py")
    assert run(BIN / "headway", "db", "up").startswith("applied 0001 first")
    assert run(sys.executable, "office.py") == "packed\n"
    assert not (tmp_path / "orders.db").exists()
