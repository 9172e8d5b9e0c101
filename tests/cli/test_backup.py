"""Copies of a database: taken while it is in use, restored, and gone on with."""

import asyncio
import json
import random
import resource
import shlex
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headway.store.postgres.store import postgres_database
from tests.cli.conftest import Headway
from tests.docs.pages import ROOT, blocks
from tests.store.postgres_server import PostgresServer, binaries

pytestmark = pytest.mark.mission("ENG-5", "ENG-7", "ENG-15", "ENG-17")

SMALL_STEPS = """
from headway.cli import db
from headway.cli.main import main

db.PAGES_AT_ONCE = 20
main(["db", "backup", "copy.db"])
"""
"""A backup in many steps, between each of which somebody writes."""
APP = ("--app", "tests.cli.shop:lifecycle")
PAGE = (ROOT / "docs/how-to/backups.md").read_text(encoding="utf-8")


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
    assert left_over(folder) == []


def left_over(folder: Path) -> list[str]:
    """What a backup has left beside the copies and the database."""
    return sorted(each.name for each in folder.iterdir() if "part" in each.name)


def filled(headway: Headway, folder: Path, megabytes: int) -> Path:
    """A database of a size, with a table to write to."""
    headway("db", "up")
    file = folder / "headway.db"
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute("PRAGMA journal_mode = WAL")  # as the service does when it opens the file
        opened.execute("CREATE TABLE filling (number INTEGER PRIMARY KEY, bytes BLOB)")
        rows = ((number, random.randbytes(1_000)) for number in range(1_000 * megabytes))
        opened.executemany("INSERT INTO filling VALUES (?, ?)", rows)
    return file


@contextmanager
def written_to(file: Path) -> Iterator[Counter[str]]:
    """A database to which a thread writes all the while, two rows in each transaction."""
    stop, done = threading.Event(), Counter[str]()

    def write() -> None:
        with closing(sqlite3.connect(file, isolation_level=None)) as opened:
            while not stop.is_set():
                done["writes"] += 1
                opened.execute("BEGIN IMMEDIATE")
                for half in (0, 1):
                    opened.execute(
                        "INSERT INTO filling VALUES (?, 'new')", (10**6 + 2 * done["writes"] + half,)
                    )
                opened.execute("COMMIT")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def test_a_copy_is_made_while_the_service_writes(folder: Path, headway: Headway) -> None:
    """A backup beside a writer that never pauses ends, and holds whole transactions of one moment."""
    file = filled(headway, folder, 20)
    with written_to(file) as done:
        before = done["writes"]
        subprocess.run([sys.executable, "-c", SMALL_STEPS], cwd=folder, check=True, timeout=30)
        assert done["writes"] > before
    with closing(sqlite3.connect("copy.db")) as copy:
        [[verdict]] = copy.execute("PRAGMA integrity_check").fetchall()
        [[new]] = copy.execute("SELECT count(*) FROM filling WHERE bytes = 'new'").fetchall()
        [[old]] = copy.execute("SELECT count(*) FROM filling WHERE bytes <> 'new'").fetchall()
    assert (verdict, old, new % 2) == ("ok", 20_000, 0)
    assert left_over(folder) == []


STUCK = """
import sys
from contextlib import contextmanager
from headway.cli import db
from headway.cli.main import main

@contextmanager
def stuck(*_, **__):
    yield lambda done: (print("copies", flush=True), sys.stdin.read())

db.PAGES_AT_ONCE, db.progress = 10, stuck
main(["db", "backup", "copy.db"])
"""
"""A backup that stops in the middle of the copy."""


def test_what_a_killed_backup_leaves_is_removed_by_the_next(folder: Path, headway: Headway) -> None:
    """The file of a running backup is let alone; when its process was killed, the next backup deletes it."""
    filled(headway, folder, 1)
    stuck, pipe = [sys.executable, "-c", STUCK], subprocess.PIPE
    with subprocess.Popen(stuck, cwd=folder, stdin=pipe, stdout=pipe) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"copies\n"
            assert headway("db", "backup", "other.db").code == 0
            assert left_over(folder) == ["copy.db.headway-part"]
            done = headway("db", "backup", "copy.db")
            assert (done.code, "another backup to copy.db is under way" in done.err) == (2, True)
            assert left_over(folder) == ["copy.db.headway-part"]
        finally:
            running.kill()
    assert left_over(folder) == ["copy.db.headway-part"]
    assert headway("db", "backup", "third.db").code == 0
    assert left_over(folder) == []
    assert headway("db", "backup", "copy.db").code == 0


@pytest.mark.parametrize("room", [100_000, 10_000])
def test_a_copy_for_which_there_is_no_room_is_removed(folder: Path, headway: Headway, room: int) -> None:
    """The command says that it cannot write, leaves nothing behind, and can be repeated."""
    filled(headway, folder, 1)
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        done = headway("db", "backup", "copy.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert (done.code, "copy.db cannot be written" in done.err) == (2, True)
    assert sorted(each.name for each in folder.iterdir() if "copy" in each.name) == []
    assert headway("db", "backup", "copy.db").code == 0


def test_a_damaged_copy_is_no_backup(folder: Path, headway: Headway) -> None:
    """When pages of the database are damaged, the command says so instead of keeping the copy."""
    file = filled(headway, folder, 1)
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as pages:
        pages.seek(500_000)
        pages.write(bytes(10_000))
    done = headway("db", "backup", "copy.db")
    assert (done.code, "the copy is damaged" in done.err) == (2, True)
    assert sorted(each.name for each in folder.iterdir() if "copy" in each.name) == []


def test_a_copy_needs_a_folder(headway: Headway) -> None:
    """A place that cannot be written to is named."""
    headway("db", "up")
    done = headway("db", "backup", "missing/copy.db")
    assert (done.code, "missing/copy.db cannot be written" in done.err) == (2, True)


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
