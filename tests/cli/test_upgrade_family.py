"""`headway upgrade` of children, whose parents live by charts of their own."""

import asyncio
import json
from pathlib import Path

import pytest

from headway.engine.engine import Engine
from headway.statechart.snapshot import Snapshot
from headway.store import migrate
from headway.store.address import database_at, store_at
from tests.cli.conftest import Headway
from tests.cli.kin import ALL, Parent

pytestmark = pytest.mark.mission("ENG-19", "ENG-12")

DATABASE = "sqlite:///headway.db"
KIN = "tests.cli.kin"
ALONE = "tests.cli.kin2:Child"


@pytest.fixture(autouse=True)
def living(folder: Path) -> None:
    """A database with a parent and two children."""

    async def fill() -> None:
        async with database_at(DATABASE, create=True) as database:
            await migrate.up(database)
        async with Engine(store_at(DATABASE), ALL) as engine:
            await engine.create("acme", "p", Parent)
            for _ in range(2):
                (await engine.send("acme", "p", Parent.add())).unwrap()

    assert folder.is_dir()
    asyncio.run(fill())


def parent_now() -> Snapshot:
    """Where the parent stands."""

    async def look() -> Snapshot:
        async with Engine(store_at(DATABASE), ALL) as engine:
            return await engine.get("acme", "p")

    return asyncio.run(look())


@pytest.mark.parametrize(
    "named", [(f"{KIN}:Renamed",), (ALONE, "--app", f"{KIN}:ALL")], ids=["one module", "an app"]
)
def test_children_are_upgraded_and_brought_back_with_their_parent(
    headway: Headway, named: tuple[str, ...]
) -> None:
    """The parent's chart is found beside the child's or in the app, and the parent counts along."""
    command = ("upgrade", *named, "--to", "2")
    assert headway(*command, "--rehearse").code == 0
    assert "2 upgraded, 0 passed over" in headway(*command).out
    assert parent_now().children == {"waiting": 2}
    assert "2 brought back" in headway(*command, "--undo").out
    assert parent_now().children == {"open_": 2}


def test_a_parent_that_nobody_knows_is_told_before_anything_is_changed(headway: Headway) -> None:
    """The rehearsal refuses what the upgrade could not do, and says what helps."""
    for more in (("--rehearse",), ()):
        refused = headway("upgrade", ALONE, "--to", "2", *more)
        assert refused.code == 1
        assert "needs a rule" in refused.out
        assert "its parent lives by Parent v1, which is not known here" in " ".join(refused.out.split())
    assert parent_now().children == {"open_": 2}


def test_a_status_that_a_parent_waits_for_must_not_go(headway: Headway) -> None:
    """Both the comparison and the rehearsal say who would wait for ever."""
    told = headway("chart", "diff", f"{KIN}:Child", f"{KIN}:Finished", "--json")
    assert told.code == 1
    [lost] = [each for each in json.loads(told.out)["differences"] if each["meaning"] == "rule"]
    assert (lost["name"], lost["said"]) == ("closed", "Parent v1 counts children.closed")
    proof = headway("upgrade", f"{KIN}:Finished", "--to", "2", "--rehearse", "--json")
    assert (proof.code, json.loads(proof.out)["fitness"].keys()) == (1, {"rule"})


def test_only_the_version_that_was_asked_for_is_stored(headway: Headway) -> None:
    """Charts beside it that no program has run on this database stay unknown to it."""
    assert headway("upgrade", f"{KIN}:Renamed", "--to", "2", "--app", "tests.cli.shop:lifecycle").code == 0
    unknown = headway("chart", "diff", "stored:Order@1", f"{KIN}:Child")
    assert unknown.err.strip().endswith("it has: stored:Child@1, stored:Child@2, stored:Parent@1")
