"""`headway chart diff` and `headway upgrade`, on a real file."""

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headway import Event
from headway.engine.engine import Engine
from headway.errors import EngineError, StoreUnavailableError
from headway.store import migrate
from headway.store.address import database_at, store_at
from tests.cli.conftest import Headway
from tests.upgrade.lives import ANN, BOB, Expense

pytestmark = pytest.mark.mission("ENG-19")

LIVES = "tests.upgrade.lives"
WAYS = pytest.mark.parametrize("way", [(), ("--undo",)], ids=["forth", "back"])


@pytest.fixture
def lives(folder: Path) -> None:
    """A database with claims in draft, in review and in payment."""

    async def fill() -> None:
        async with database_at("sqlite:///headway.db", create=True) as database:
            await migrate.up(database)
        async with Engine(store_at("sqlite:///headway.db"), [Expense]) as engine:
            for number in range(6):
                await engine.create("acme", f"e{number}", "Expense")
                if number % 3:
                    await engine.send("acme", f"e{number}", Event("submit", by=ANN))
                if number % 3 == 2:
                    await engine.send("acme", f"e{number}", Event("approve", by=BOB))

    assert folder.is_dir()
    asyncio.run(fill())


def test_a_difference_is_told_in_words_and_as_json(headway: Headway) -> None:
    """Exit code 1 says that a change needs a rule."""
    good = headway("chart", "diff", f"{LIVES}:Expense", f"{LIVES}:Renamed")
    assert good.code == 0
    assert "goes to check" in good.out
    bad = headway("chart", "diff", f"{LIVES}:Expense", f"{LIVES}:Unruly", "--json")
    assert bad.code == 1
    told = json.loads(bad.out)
    assert (told["old"], told["new"], told["ok"]) == ("Expense v1", "Expense v2", False)
    assert {each["meaning"] for each in told["differences"]} == {"safe", "adapts", "rule"}


@pytest.mark.usefixtures("lives")
def test_a_stored_version_can_be_compared(headway: Headway) -> None:
    """The database knows what instances live by, though no program has it any more."""
    same = headway("chart", "diff", "stored:Expense@1", f"{LIVES}:Expense")
    assert (same.code, "nothing changed" in same.out) == (0, True)
    missing = headway("chart", "diff", "stored:Expense@7", f"{LIVES}:Expense")
    assert missing.code == 2
    assert "it has: stored:Expense@1" in missing.err


@pytest.mark.usefixtures("lives")
def test_a_rehearsal_prints_the_proof_and_an_upgrade_follows(headway: Headway) -> None:
    """Nothing is changed until the upgrade itself; a second one finds nothing to do; it can be taken back."""
    command = ("upgrade", f"{LIVES}:Renamed", "--to", "2")
    proof = headway(*command, "--rehearse")
    assert proof.code == 0
    assert "6 living instances" in proof.out
    assert "review → check" in proof.out
    assert "6 upgraded, 0 passed over" in headway(*command, "--by", "op", "--reason", "new rules").out
    again = headway(*command, "--json")
    assert json.loads(again.out) == {"done": 0, "passed": 6, "failed": 0, "failures": []}
    assert "6 brought back" in headway(*command, "--undo").out
    data = json.loads(headway(*command, "--rehearse", "--json").out)
    assert (data["ok"], data["instances"], data["already"]) == (True, 6, 0)


@pytest.mark.usefixtures("lives")
def test_a_rehearsal_without_replay_plays_no_history(headway: Headway) -> None:
    """It is asked for when histories are long."""
    command = ("upgrade", f"{LIVES}:Renamed", "--to", "2", "--rehearse", "--json")
    assert json.loads(headway(*command).out)["lines"] > 0
    assert json.loads(headway(*command, "--no-replay").out)["lines"] == 0


@pytest.mark.usefixtures("lives")
@WAYS
def test_an_upgrade_that_is_interrupted_says_how_to_go_on(
    headway: Headway, monkeypatch: pytest.MonkeyPatch, way: tuple[str, ...]
) -> None:
    """The command that was interrupted is the one that goes on."""
    command = ("upgrade", f"{LIVES}:Renamed", "--to", "2", *way)
    if way:
        assert headway(*command[:-1]).code == 0
    with monkeypatch.context() as patched:
        trouble(patched, KeyboardInterrupt())
        cut = headway(*command)
    assert (cut.code, "run the same command again" in cut.err) == (130, True)
    went_on = json.loads(headway(*command, "--json").out)
    assert (went_on["done"] + went_on["passed"], went_on["failed"]) == (6, 0)
    assert json.loads(headway(*command, "--json").out)["done"] == 0


@pytest.mark.usefixtures("lives")
@WAYS
def test_an_upgrade_goes_on_when_the_database_is_back(
    headway: Headway, monkeypatch: pytest.MonkeyPatch, way: tuple[str, ...]
) -> None:
    """It says that the database is away, waits, and brings the rest there by itself."""
    command = ("upgrade", f"{LIVES}:Renamed", "--to", "2", *way)
    if way:
        assert headway(*command[:-1]).code == 0
    monkeypatch.setattr("headway.cli.upgrade.PAUSES", (0.0,))
    trouble(monkeypatch, StoreUnavailableError("PostgreSQL: gone"))
    done = headway(*command, "--json")
    assert (done.code, done.err) == (0, "PostgreSQL: gone; nothing was changed; going on in 0 s\n")
    assert json.loads(headway(*command, "--json").out)["done"] == 0


@pytest.mark.usefixtures("lives")
def test_a_doctor_says_how_far_an_upgrade_has_come(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many live by which version: nothing to mend, but not to be found by rehearsing again only."""

    def versions() -> tuple[str, str]:
        checks = json.loads(headway("doctor", "--app", f"{LIVES}:Expense", "--port", "0", "--json").out)[
            "checks"
        ]
        [check] = [check for check in checks if check["name"] == "versions"]
        return check["verdict"], check["said"]

    whole = ("ok", "all instances live by the newest version of their chart")
    assert versions() == whole
    command = ("upgrade", f"{LIVES}:Renamed", "--to", "2")
    with monkeypatch.context() as patched:
        trouble(patched, EngineError("a hitch"))
        assert headway(*command).code == 1
    assert versions() == ("ok", "Expense: 1 on v1, 5 on v2; the newest is v2")
    assert headway(*command).code == 0
    assert versions() == whole


@WAYS
def test_a_database_that_is_not_there_is_an_error_at_once(headway: Headway, way: tuple[str, ...]) -> None:
    """Nobody waits for an address that is wrong."""
    wrong = headway("upgrade", f"{LIVES}:Renamed", "--to", "2", *way, "--database", "sqlite:///nowhere/x.db")
    assert (wrong.code, wrong.out) == (2, "")


def trouble(patched: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the third instance meet an error, once."""
    real, calls = Engine.upgrade, count()

    async def failing(*given: Any, **named: Any) -> Any:
        if next(calls) == 2:
            raise error
        return await real(*given, **named)

    patched.setattr(Engine, "upgrade", failing)


@pytest.mark.usefixtures("lives")
@pytest.mark.mission("ENG-5", "ENG-7")
def test_what_an_upgrade_keeps_to_be_taken_back_is_told_to_nobody(headway: Headway) -> None:
    """The old context may hold secrets: history and tail name the versions only."""
    assert headway("upgrade", f"{LIVES}:Renamed", "--to", "2").code == 0
    lines = json.loads(headway("instances", "history", "e1", "--tenant", "acme", "--json").out)
    follow = ("tail", "--tenant", "acme", "--instance", "e1", "--since", "0-0", "--count", "3", "--json")
    tailed = [json.loads(line) for line in headway(*follow).out.splitlines()]
    for told in (lines, tailed):
        [data] = [line["data"] for line in told if line["event"] == "chart.upgrade"]
        assert data == {"version": 1, "to": 2}


@pytest.mark.usefixtures("lives")
@pytest.mark.parametrize(("chart", "word"), [("Unruly", "needs a rule"), ("Trap", "would be stranded")])
def test_an_upgrade_refuses_what_its_rehearsal_would(headway: Headway, chart: str, word: str) -> None:
    """Exit code 1, the proof, and everybody stays as they are."""
    for more in ((), ("--rehearse",), ("--rehearse", "--json"), ("--no-replay",)):
        refused = headway("upgrade", f"{LIVES}:{chart}", "--to", "2", *more)
        assert refused.code == 1
        assert word in refused.out or json.loads(refused.out)["ok"] is False
    left = json.loads(headway("upgrade", f"{LIVES}:Renamed", "--to", "2", "--rehearse", "--json").out)
    assert left["instances"] == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "3"), "is version 2, not 3"),
        (("--to", "2", "--rehearse", "--undo"), "exclude each other"),
        (("--to", "2", "--facts", f"{LIVES}:ANN"), "is not a mapping"),
        (("--to", "2", "--database", "mysql://x"), "is no database"),
    ],
)
def test_what_cannot_be_asked_is_refused(headway: Headway, arguments: tuple[str, ...], said: str) -> None:
    """One message, exit code 2."""
    answer = headway("upgrade", f"{LIVES}:Renamed", *arguments)
    assert answer.code == 2
    assert said in answer.err


@pytest.mark.mission("ENG-21")
@pytest.mark.usefixtures("lives")
@pytest.mark.parametrize(
    ("others", "warning"),
    [
        ({}, ""),
        ({"a": [("Expense", 2)]}, ""),
        ({"a": [("Expense", 2)], "b": [("Expense", 1)]}, "b do not know Expense v2"),
        ({"b": [("Expense", 1)]}, "no living node knows Expense v2"),
    ],
    ids=["no nodes", "all know it", "one does not", "none does"],
)
def test_living_nodes_that_do_not_know_the_new_version_are_named(
    headway: Headway, others: dict[str, list[tuple[str, int]]], warning: str
) -> None:
    """They would leave upgraded instances alone."""

    async def announce() -> None:
        store = store_at("sqlite:///headway.db")
        await store.open()
        for name, versions in others.items():
            await store.nodes.keep(name, versions, 60_000)
        await store.close()

    asyncio.run(announce())
    told = headway("upgrade", f"{LIVES}:Renamed", "--to", "2", "--rehearse")
    assert told.code == 0
    assert warning in told.err
    assert ("warning" in told.err) == bool(warning)
