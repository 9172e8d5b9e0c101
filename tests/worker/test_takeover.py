"""A node and its name: told once when another process has it, taken when that one has ended."""

import logging

import pytest

from headway.engine.engine import Engine
from headway.errors import InputError
from headway.node import Node
from headway.store.sqlite.connection import MEMORY
from headway.store.sqlite.store import SqliteStore
from headway.worker import Handlers
from headway.worker.rescue import LONG_REST, QUICK_TRIES, SHORT_REST, Takeover
from headway.worker.worker import Worker
from tests.worker.world import World

pytestmark = pytest.mark.mission("ENG-10", "ENG-17")


async def test_a_name_that_another_process_has_is_told_once_and_taken_later(
    everywhere: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks soon for a while, then now and then; whoever rescues is woken when the name is free."""
    woken: list[str] = []
    async with everywhere.engines(number=2) as [here, there]:
        assert await here.store.leases.take_name("mill", "mill#1")
        second = Takeover(there, "mill", "mill#2", lambda: woken.append("rescue"))
        caplog.set_level(logging.WARNING, "headway")
        for _ in range(QUICK_TRIES):
            assert await second.rest() == SHORT_REST
            await second.turn()
        await second.turn()
        assert await second.rest() == LONG_REST
        told = [record for record in caplog.records if "another process runs as node mill" in record.message]
        assert (len(told), woken) == (1, [])
        await here.store.close()
        await second.turn()
        await second.turn()
        assert woken == ["rescue"]
        await here.store.open()


@pytest.mark.parametrize("name", ["node  1", " node 1", "node\u200b1", "n" * 201])
async def test_a_name_that_is_no_id_is_refused(name: str) -> None:
    """A worker acts under the name of its node: what is no id would have none of its outcomes taken."""
    with pytest.raises(InputError, match="the name of a node"):
        Node("sqlite:///:memory:", handlers=Handlers(), name=name)
    with pytest.raises(InputError, match="the name of a worker"):
        Worker(Engine(SqliteStore(MEMORY)), Handlers(), name=name)
