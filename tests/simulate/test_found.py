"""Faults that the simulator's checks were written for, each as the shortest world that shows it."""

import pytest

from headway import Final, Refusal, Retry, Run, State, Statechart
from headway.engine.engine import Engine
from headway.errors import StoreUnavailableError
from headway.statechart.snapshot import Actor, work_done
from headway.store.port import Claim, Unit
from headway.testing import FakeClock
from headway.testing.memory import MemoryStore, Tables
from headway.worker.rescue import Rescue
from headway.worker.timers import Timers


class Chore(Statechart):
    """Work that is tried again when its worker is lost."""

    doing = State(initial=True, run=Run("do", heartbeat="1s", lease="3s", retry=Retry(3, base="1s")))
    done, failed = Final(), Final()
    finish = doing.on_done.to(done)
    fail = doing.on_error.to(failed)


class Flaky(MemoryStore):
    """Loses the connection before the next unit, when it is told to."""

    fails = False

    async def run(self, unit: Unit) -> None:
        """Run a unit, or lose the connection."""
        if self.fails:
            self.fails = False
            raise StoreUnavailableError("the connection was lost")
        await super().run(unit)


@pytest.mark.mission("ENG-10")
async def test_an_attempt_that_a_faulty_rescue_met_is_not_handed_out_twice() -> None:
    """Who has lost its lease can end nothing, also when the database failed in the middle of the rescue."""
    clock = FakeClock()
    store = Flaky(Tables(), clock)
    async with Engine(store, [Chore]) as engine:
        await engine.create("t", "a", Chore)
        [first] = await store.claim_work(Claim("frozen", ("default",), 1))
        clock.advance("4s")
        rescue = Rescue(engine)
        store.fails = True
        with pytest.raises(StoreUnavailableError):
            await rescue.turn()
        for _ in range(3):
            clock.advance("61s")
            await rescue.turn()
        [second] = await store.claim_work(Claim("other", ("default",), 1))
        assert (first.attempt, second.attempt) == (1, 2)
        late = work_done(first.id, first.attempt, by=Actor("frozen", "service", frozenset({"system"})))
        answer = await engine.send("t", "a", late)
        assert isinstance(answer, Refusal)
        assert answer.code == "stale"


class Nap(Statechart):
    """Ends by itself."""

    asleep = State(initial=True)
    awake = Final()
    wake = asleep.after("1s").to(awake)


@pytest.mark.mission("ENG-9")
async def test_a_node_that_may_not_fire_timers_rests() -> None:
    """While the node that may is away, the others do not ask the database without a pause."""
    clock = FakeClock()
    tables = Tables()
    async with (
        Engine(MemoryStore(tables, clock), [Nap]) as here,
        Engine(MemoryStore(tables, clock), [Nap]) as there,
    ):
        first, second = Timers(here), Timers(there)
        await first.turn()
        await here.create("t", "a", Nap)
        clock.advance("2s")
        assert not await second.turn()
        assert await second.rest() == second.longest_rest
        assert await first.rest() == 0
