"""A node and its services are started once; a second time is told, and harms nothing."""

import asyncio
from collections.abc import Callable

import pytest

from headway import Final, State, Statechart
from headway.engine.service import Component, Service
from headway.errors import EngineError, StoreError, StoreUnavailableError
from headway.node import Node
from headway.worker import Handlers, Work

pytestmark = pytest.mark.mission("ENG-17")


class Job(Statechart):
    """Work."""

    doing = State(initial=True, run="do")
    done = Final()
    finish = doing.on_done.to(done)


def doing() -> Handlers:
    """Handlers of the work."""
    handlers = Handlers()

    @handlers.handler("do")
    async def do(_work: Work) -> None:
        """Done."""

    return handlers


def made(database: str) -> Node:
    """A node that is not running."""
    return Node(database, [Job], handlers=doing())


async def test_a_node_that_runs_is_not_started_again(database: str) -> None:
    """It says so and goes on; when it has stopped, it can be started again."""
    node = made(database)
    async with node:
        with pytest.raises(EngineError, match="the node runs already: stop it"):
            await node.start()
        (await node.tenant().create(Job, "j1")).unwrap()
        assert (await node.tenant().until("j1")).state == "done"
    async with node:
        (await node.tenant().create(Job, "j2")).unwrap()
        assert (await node.tenant().until("j2")).state == "done"


SERVICES: dict[str, Callable[[Node], Component | None]] = {
    "timers": lambda node: node.timers,
    "rescue": lambda node: node.rescue,
    "pruning": lambda node: node.pruning,
    "tail": lambda node: node.tail,
    "relay": lambda node: node.relays[0],
    "worker": lambda node: node.worker,
}


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_that_runs_is_not_started_again(name: str) -> None:
    """Each says so, does not hear of commits twice, and can be stopped as usual."""
    node = made("sqlite:///:memory:")
    async with node:
        service = SERVICES[name](node)
        assert service is not None
        with pytest.raises(EngineError, match="runs already"):
            await service.start()
        (await node.tenant().create(Job, "j1")).unwrap()
        assert (await node.tenant().until("j1")).state == "done"
    watchers = node.engine._watchers
    assert watchers == []


async def test_a_node_that_could_not_start_can_be_started_later() -> None:
    """A start that failed is no start."""
    node = made("sqlite:////nowhere/at/all.db")
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be opened"):
            await node.start()


class Failing(Service):
    """A service whose database is away."""

    name = "failing"

    async def turn(self) -> bool:
        """Say so."""
        self.tally["turns"] += 1
        raise StoreUnavailableError("away")


async def test_who_commits_does_not_hurry_a_service_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rests as long as it has said, though it is woken meanwhile, and can be stopped while it rests."""
    monkeypatch.setattr("headway.engine.service.FIRST_PAUSE", 600.0)
    monkeypatch.setattr("headway.engine.service.LONGEST_PAUSE", 600.0)
    service = Failing()
    async with asyncio.timeout(60):
        async with service:
            for _ in range(20):
                service.wake()
                await asyncio.sleep(0)
    assert service.tally["turns"] == 1
