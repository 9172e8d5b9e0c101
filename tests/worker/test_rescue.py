"""Lost work settles, whatever the instance says to its loss."""

import logging

import pytest

from headway import Final, Retry, Run, State, Statechart, View
from headway.engine.engine import Engine
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import work_lost
from headway.store.queries import WorkQuery
from headway.store.rows import WorkRow
from headway.store.unit import Changes, Found, Reads
from headway.worker.rescue import Rescue
from tests.worker.world import TENANT, Gate, World, begun, handling, where

pytestmark = pytest.mark.mission("ENG-10")


class Broken:
    """A function of a chart that fails for as long as a test wants."""

    fails = True


def told(_view: View) -> None:
    """Fails on the way out of the work."""
    if Broken.fails:
        raise RuntimeError("not today")


class Fragile(Statechart):
    """Work whose loss cannot be told, because a function of the chart fails."""

    doing = State(initial=True, run=Run("do", retry=Retry(0)))
    done, failed = Final(), Final()
    finish = doing.on_done.to(done)
    fail = doing.on_error.to(failed, do=told)


async def work(engine: Engine) -> list[WorkRow]:
    """All work that there is."""
    return [*await engine.store.work.page(WorkQuery(tenant=TENANT))]


async def test_an_attempt_whose_loss_is_refused_is_not_handed_out_again(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else runs it while its worker may; it is logged once, and ends when the chart is mended."""
    gate, other = Gate(), Gate()
    async with world.engines(Fragile, number=2) as [here, there]:
        await begun(here, "a", chart=Fragile)
        gone = world.worker(here, handling(gate))
        assert await gone.turn()
        await gate.begun.wait()
        here.unwatch(gone._look)
        rescue, second = Rescue(there), world.worker(there, handling(other))
        [row] = await work(there)
        caplog.set_level(logging.WARNING, "headway")
        for _ in range(3):
            world.clock.advance("91s")
            await rescue.turn()
            world.clock.advance("61s")
            assert not await second.turn(), "the attempt is still its first worker's"
        assert isinstance(await there.send(TENANT, "a", work_lost(row.id, row.attempt)), Refusal)
        assert sum("was lost by" in record.getMessage() for record in caplog.records) == 1
        monkeypatch.setattr(Broken, "fails", False)
        await rescue.turn()
        assert (await where(there)).states == ("failed",)
        message = f"the worker {row.worker} was lost; the node {there.node} ended its attempt"
        assert message in str(await there.why(TENANT, "a"))
        assert await work(there) == []
        assert rescue.tally["rescued"] == 1
        gate.opened.set()
        await gone.settled()


class Orphaned:
    """A unit that leaves work behind which no instance has."""

    def __init__(self, row: WorkRow) -> None:
        self._row = row

    def begin(self) -> Reads:
        """Nothing to read."""
        return Reads()

    def take(self, _found: Found) -> None:
        """Nothing to decide."""

    def changes(self) -> Changes:
        """The row."""
        return Changes(work=[self._row])


async def test_work_that_no_instance_has_goes(everywhere: World) -> None:
    """A row whose instance is gone, or has no such work, is dropped when its lease has run out."""
    gate = Gate()
    async with everywhere.engine() as engine:
        await begun(engine, "a")
        claimed = everywhere.worker(engine, handling(gate))
        assert await claimed.turn()
        [row] = await work(engine)
        gate.opened.set()
        await claimed.settled()
        assert await work(engine) == []
        await engine.store.run(Orphaned(row))
        everywhere.clock.advance("1h")
        rescue = Rescue(engine)
        await rescue.turn()
        assert await work(engine) == []
        assert rescue.tally["rescued"] == 0
