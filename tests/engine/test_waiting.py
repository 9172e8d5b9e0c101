"""Waiting for an instance to come somewhere."""

import asyncio

import pytest

from headway import Final, State, Statechart
from headway.engine import tenant
from headway.errors import InputError, UnknownInstanceError
from headway.node import Node
from headway.testing import FakeClock, Harness


class Road(Statechart):
    """Leads over a bridge to its end."""

    ramp, arch = State(), State()
    start, bridge, there = State(initial=True), State(ramp, arch), Final()

    enter = start.to(bridge)
    climb = ramp.to(arch)
    arrive = bridge.to(there)


@pytest.fixture
def never_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not told at once is never seen."""
    monkeypatch.setattr(tenant, "LOOKS_EVERY", 3_600)


@pytest.mark.usefixtures("never_looks")
@pytest.mark.parametrize(("states", "found"), [(("arch",), "arch"), (("bridge",), "ramp"), ((), "there")])
async def test_who_waits_goes_on_in_a_state_or_at_the_end(
    database: str, clock: FakeClock, states: tuple[str, ...], found: str
) -> None:
    """Told by the commit itself, by an inner or an outer state; the end ends every wait."""
    way = {"ramp": Road.enter(), "arch": Road.climb(), "there": Road.arrive()}
    async with Harness(Road, database=database, clock=clock) as life:
        await life.tenant.create(Road, "r")
        waits = asyncio.create_task(life.tenant.until("r", *states))
        for state, event in way.items():
            (await life.tenant.send("r", event)).unwrap()
            if state == found:
                break
        assert (await asyncio.wait_for(waits, 60)).state == found
        assert life.node.engine._watchers == []


async def test_the_end_ends_every_wait(database: str, clock: FakeClock) -> None:
    """Who waits for a state that cannot come any more is not left waiting."""
    async with Harness(Road, database=database, clock=clock) as life:
        await life.tenant.create(Road, "r")
        for event in (Road.enter(), Road.arrive()):
            (await life.tenant.send("r", event)).unwrap()
        assert (await life.tenant.until("r", "start")).state == "there"


async def test_what_another_process_does_is_seen(
    database: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits looks again and again."""
    monkeypatch.setattr(tenant, "LOOKS_EVERY", 0.01)
    async with Harness(Road, database=database, clock=clock) as life:
        await life.tenant.create(Road, "r")
        waits = asyncio.create_task(life.tenant.until("r", "ramp"))
        other = Node(database, [Road], clock=clock)
        await other.open()
        (await other.tenant().send("r", Road.enter())).unwrap()
        await other.stop()
        assert (await asyncio.wait_for(waits, 60)).state == "ramp"


async def test_who_waits_for_what_there_is_not_is_told(database: str, clock: FakeClock) -> None:
    """No instance, no such state: an error instead of a wait without end."""
    async with Harness(Road, database=database, clock=clock) as life:
        with pytest.raises(UnknownInstanceError):
            await life.tenant.until("nobody")
        await life.tenant.create(Road, "r")
        with pytest.raises(InputError, match="no state brigde"):
            await life.tenant.until("r", "brigde")
