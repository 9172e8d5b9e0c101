"""A relay whose process is killed in the worst moment."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from headway.engine.engine import Engine
from headway.outbox.destination import Subscriber
from headway.outbox.relay import Relay
from headway.store import migrate
from headway.store.sqlite.store import SqliteStore, sqlite_database
from tests.clocks import Ahead
from tests.outbox.world import Reader, publish, until_idle

KILLED = """
import asyncio, json, os, signal, sys

from headway.engine.engine import Engine
from headway.outbox.relay import Relay
from headway.outbox.destination import Subscriber
from headway.store.sqlite.store import SqliteStore

taken = []


async def take(message):
    taken.append((message.name, message.id))
    if len(taken) == 3:
        print(json.dumps(taken), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def main():
    async with Engine(SqliteStore(sys.argv[1])) as engine:
        relay = Relay(engine, Subscriber("reader", take, begins="first"), lease="1h", page=2)
        while True:
            await relay.turn()


asyncio.run(main())
"""


@pytest.mark.mission("ENG-5")
def test_a_process_that_is_killed_after_a_delivery_repeats_it_with_the_same_id(tmp_path: Path) -> None:
    """What was settled is not sent again, what was not is, under the id it had."""
    path = str(tmp_path / "headway.db")

    async def prepare() -> None:
        async with sqlite_database(path) as database:
            await migrate.up(database)
        async with Engine(SqliteStore(path)) as engine:
            await publish(engine.store, "a", "one", "two", "three", "four")

    async def go_on() -> Reader:
        reader, clock = Reader(), Ahead()
        clock.ahead = timedelta(hours=1)  # by then the one that was killed has lost its lease
        async with Engine(SqliteStore(path, clock)) as engine:
            await until_idle(Relay(engine, Subscriber("reader", reader, begins="first")))
        return reader

    asyncio.run(prepare())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    before = json.loads(killed.stdout)
    assert [name for name, _ in before] == ["one", "two", "three"]
    after = asyncio.run(go_on())
    assert after.names == ["three", "four"]
    assert after.taken[0].id == before[2][1]
