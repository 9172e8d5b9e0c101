"""`headway audit verify`: says whether a database was tampered with, and where."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Headway

pytestmark = pytest.mark.mission("ENG-7")

APP = ("--app", "tests.cli.shop:lifecycle")


@pytest.fixture
def file(folder: Path, headway: Headway) -> Path:
    """A database with an order that waits for a review."""
    headway("db", "up")
    assert headway("create", "Order", "o-1", *APP).code == 0
    assert headway("send", "o-1", "submit", *APP).code == 0
    return folder / "headway.db"


def tamper(file: Path, statement: str) -> None:
    """Change a database by another way than the engine's."""
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(statement)
    connection.close()


def test_a_database_as_the_engine_wrote_it_has_no_flaw(file: Path, headway: Headway) -> None:
    """The command ends well and counts what it has looked at."""
    assert file.exists()
    done = headway("audit", "verify")
    assert (done.code, done.out) == (0, "✓ nothing was tampered with in 2 lines of 1 instances\n")
    assert json.loads(headway("audit", "verify", "--json").out) == {"instances": 1, "lines": 2, "flaws": []}


def test_what_was_changed_is_told_with_its_place(file: Path, headway: Headway) -> None:
    """The command fails, and names the tenant, the instance and what is wrong with it, or the chart."""
    tamper(file, "UPDATE instance SET status = 'paid'")
    done = headway("audit", "verify")
    assert done.code == 1
    assert "default/o-1 at 2: its row or its snapshot was changed" in done.out
    tamper(file, "UPDATE chart_version SET document = '{'")
    done = headway("audit", "verify", "--json")
    chart, instance = json.loads(done.out)["flaws"]
    assert done.code == 1
    assert chart["what"].startswith("chart Order v1: its document cannot be read")
    assert (instance["tenant"], instance["instance"], instance["seq"]) == ("default", "o-1", 2)


def test_what_cannot_be_read_ends_in_no_traceback(file: Path, headway: Headway) -> None:
    """A time that no calendar has is a flaw like any other."""
    tamper(file, "UPDATE history SET at = 9223372036854775807 WHERE seq = 2")
    done = headway("audit", "verify")
    assert (done.code, done.err) == (1, "")
    assert "default/o-1 at 1: what stands there cannot be read" in done.out


def test_a_checkpoint_is_compared_with_what_is_there_later(file: Path, headway: Headway) -> None:
    """What happens after a checkpoint is no flaw; an instance that is gone is one, and fails the command."""
    kept = file.with_name("checkpoint.jsonl")
    kept.write_text(headway("audit", "checkpoint").out, encoding="utf-8")
    assert headway("send", "o-1", "withdraw", *APP).code == 0
    done = headway("audit", "verify", "--against", "checkpoint.jsonl")
    assert (done.code, done.out.splitlines()[-1]) == (0, "0 instances of the checkpoint were pruned since")
    tamper(file, "DELETE FROM instance")
    tamper(file, "DELETE FROM history")
    tamper(file, "DELETE FROM ask")
    assert headway("audit", "verify").code == 0
    done = headway("audit", "verify", "--against", "checkpoint.jsonl", "--json")
    told = json.loads(done.out)
    assert (done.code, told["pruned"]) == (1, 0)
    assert [flaw["what"] for flaw in told["flaws"]] == ["it is gone since the checkpoint, and was not pruned"]


def test_what_is_no_checkpoint_is_refused(file: Path, headway: Headway) -> None:
    """A file that is missing or was cut off, and a database with flaws, end the command with code 2."""
    (file.parent / "cut.jsonl").write_text(headway("audit", "checkpoint").out[:-20], encoding="utf-8")
    for name in ("missing.jsonl", "cut.jsonl"):
        done = headway("audit", "verify", "--against", name)
        assert (done.code, f"{name} cannot be read" in done.err) == (2, True)
    tamper(file, "UPDATE instance SET status = 'paid'")
    done = headway("audit", "checkpoint")
    assert (done.code, done.out) == (2, "")
    assert "its row or its snapshot was changed" in done.err
