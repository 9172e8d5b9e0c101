"""An upgrade whose process is killed half way."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway import Event
from headway.engine.audit.audit import Audit
from headway.engine.engine import Engine
from headway.store import migrate
from headway.store.address import database_at, store_at
from tests.upgrade.lives import ANN, Expense, Renamed

pytestmark = pytest.mark.mission("ENG-19", "ENG-3")

NUMBER = 30
ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import asyncio, os, signal, sys

from headway.engine.upgrade import versions
from headway.engine.engine import Engine
from headway.engine.upgrade.upgrade import upgrade
from headway.store.address import store_at
from tests.upgrade.lives import Renamed

versions.PAGE = 4
left = int(sys.argv[2])


def count(_changes):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)


async def main():
    async with Engine(store_at(sys.argv[1]), [Renamed]) as engine:
        engine.watch(count)
        await upgrade(engine, "Expense", 2)


asyncio.run(main())
"""


@pytest.mark.parametrize("commits", [1, 2, 5])
def test_an_upgrade_that_is_killed_half_way_leaves_each_instance_whole_and_goes_on(
    tmp_path: Path, commits: int
) -> None:
    """Each is of the one version or the other, wholly, and the same command does the rest."""
    address = f"sqlite:///{tmp_path}/headway.db"

    async def prepare() -> None:
        async with database_at(address, create=True) as database:
            await migrate.up(database)
        async with Engine(store_at(address), [Expense]) as engine:
            for number in range(NUMBER):
                await engine.create("acme", f"e{number:02}", Expense)
                if number % 2:
                    await engine.send("acme", f"e{number:02}", Event("submit", by=ANN))

    async def look(versions: set[int]) -> None:
        async with Engine(store_at(address), [Expense, Renamed]) as engine:
            rows = await engine.store.instances.living("Expense", ("", ""), 100)
            assert {row.version for row in rows} == versions
            for row in rows:
                lines = await engine.history("acme", row.id)
                assert sum(line.event == "chart.upgrade" for line in lines) == row.version - 1
            assert [flaw async for flaw in Audit(engine.store).everything()] == []

    asyncio.run(prepare())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, address, str(commits)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    asyncio.run(look({1, 2}))
    command = ("upgrade", "tests.upgrade.lives:Renamed", "--to", "2", "--database", address)
    again = subprocess.run(
        [sys.executable, "-m", "headway", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    asyncio.run(look({2}))
