"""Copies of a database: taken while it is in use, restored, and gone on with."""

import asyncio
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.store.postgres import postgres_database
from tests.cli.conftest import Headway
from tests.docs.pages import ROOT, blocks
from tests.store.postgres_server import PostgresServer, binaries

pytestmark = pytest.mark.mission("ENG-5", "ENG-7", "ENG-15", "ENG-17")

APP = ("--app", "tests.cli.shop:lifecycle")
PAGE = (ROOT / "docs/how-to/backup-and-restore.md").read_text(encoding="utf-8")


def lived(headway: Headway, database: str) -> None:
    """A database with some life in it."""
    headway("db", "up", "--database", database)
    for name in ("o-1", "o-2"):
        assert headway("create", "Order", name, *APP, "--database", database).code == 0
        assert headway("send", name, "submit", *APP, "--database", database).code == 0


def went_on(headway: Headway, database: str) -> None:
    """The history is whole, and what happens from now on is seen."""
    assert headway("audit", "verify", "--database", database).code == 0
    assert headway("send", "o-1", "withdraw", *APP, "--database", database).code == 0
    lines = headway(
        "tail", "--since", "0-0", "--count", "5", "--json", "--database", database
    ).out.splitlines()
    assert [json.loads(line)["to"] for line in lines].count("rejected") == 1


def test_a_copy_of_a_file_goes_on(folder: Path, headway: Headway) -> None:
    """What was committed is in the copy; a copy is not made over another file."""
    lived(headway, "sqlite:///headway.db")
    assert headway("db", "backup", "copy.db").code == 0
    assert headway("db", "backup", "copy.db").code == 2
    went_on(headway, "sqlite:///copy.db")
    assert json.loads(headway("instances", "show", "o-1", "--json").out)["states"] == ["review"]
    assert not (folder / "copy.db.part").exists()


@pytest.fixture
def other_server() -> Iterator[PostgresServer]:
    """A server that has counted few transactions."""
    with PostgresServer() as server:
        yield server


def page_commands(database: str, restored: str, folder: Path) -> Iterator[list[str]]:
    """The commands of the page that dump and restore, for these databases."""
    [block] = [block for block in blocks(PAGE) if block.note.startswith("test: dump")]
    for line in block.body.splitlines():
        words = shlex.split(line.removeprefix("$ "))
        filled = [{"$DATABASE": database, "$RESTORED": restored}.get(word, word) for word in words]
        yield [word.replace("--dbname=$RESTORED", f"--dbname={restored}") for word in filled]
    assert folder.is_dir()


def test_a_dump_is_restored_on_another_server(
    headway: Headway, postgres_server: PostgresServer, other_server: PostgresServer, folder: Path
) -> None:
    """A server that is behind its log hides what is new; after `db restored` nothing is missed."""
    database, restored = postgres_server.new_database(), other_server.new_database()
    asyncio.run(use_up_ids(database))
    lived(headway, database)
    for command in page_commands(database, restored, folder):
        if command[0] != "headway":
            subprocess.run([binaries() / command[0], *command[1:]], cwd=folder, check=True)
    checks = json.loads(headway("doctor", "--json", *APP, "--database", restored).out)["checks"]
    assert "headway db restored" in {check["fix"] for check in checks}
    assert "used up" in headway("db", "restored", "--database", restored).out
    assert "Nothing to do" in headway("db", "restored", "--database", restored).out
    went_on(headway, restored)


async def use_up_ids(database: str) -> None:
    """Let a server be older than a new one."""
    async with postgres_database(database) as opened:
        await opened.fetch(
            "DO $$ BEGIN FOR n IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        )
