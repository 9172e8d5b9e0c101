"""How handlers are stopped: by time, by loss of the lease, because their state was left, at a drain."""

import asyncio
from collections.abc import Callable
from threading import Event as Signal
from typing import Any, cast

import pytest

from headway import Final, State, Statechart
from headway.errors import StoreUnavailableError
from headway.statechart.snapshot import work_done, work_lost
from headway.store.port import Store
from headway.store.queries import WorkQuery
from headway.worker import execution
from headway.worker.attempt import Done
from headway.worker.work import Work
from headway.worker.worker import Worker
from tests.worker.faults import Breakable
from tests.worker.world import (
    TENANT,
    Gate,
    Job,
    World,
    all_ended,
    begun,
    handling,
    moments,
    sent,
    until,
    where,
    worked,
)

pytestmark = pytest.mark.mission("ENG-10")


class Slow(Statechart):
    """Work that may take as long as it takes."""

    doing = State(initial=True, run="do")
    done = Final()
    finish = doing.on_done.to(done)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a database does not wait long."""
    monkeypatch.setattr(execution, "FIRST_PAUSE", 0.0)


async def at_the_gate(worker: Worker, gate: Gate) -> None:
    """Let a worker begin an attempt that waits."""
    gate.begun.clear()
    assert await worker.turn()
    await gate.begun.wait()


async def test_an_attempt_that_takes_too_long_is_stopped(world: World) -> None:
    """At its timeout the handler is cancelled, may clean up, and the chart hears of a timeout."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        await at_the_gate(worker, gate)
        world.clock.advance("59s")
        await worker.beat()
        await moments()
        assert gate.stopped == []
        world.clock.advance("1s")
        await worker.beat()
        await worker.settled()
        assert gate.stopped == ["timeout"]
        assert worker.tally == {"claimed": 1, "timed_out": 1}
        assert (await where(engine)).work["doing"].attempt == 2
        world.clock.advance("5s")
        await at_the_gate(worker, gate)
        gate.opened.set()
        await worker.settled()
        assert (await where(engine)).states == ("done",)


async def test_a_handler_that_does_not_stop_cannot_hold_up_the_chart(world: World) -> None:
    """One that ignores its timeout is given up after a while; it keeps its place, its result is dropped."""
    stubborn = asyncio.Event()

    async def handler(_work: Work) -> str:
        while not stubborn.is_set():
            try:
                await stubborn.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler), capacity=1)
        await worker.turn()
        await moments()
        world.clock.advance("60s")
        await worker.beat()
        await moments()
        assert worker.tally == {"claimed": 1}
        world.clock.advance("1s")
        await worker.beat()
        await until(lambda: "timed_out" in worker.tally)
        assert (await where(engine)).work["doing"].attempt == 2
        world.clock.advance("5s")
        assert not await worker.turn(), "there is no room while the first still runs"
        stubborn.set()
        await worker.settled()
        await worked(worker)
        it = await where(engine)
        assert (it.states, it.context["brought"]) == (("done",), "too late")
        assert worker.tally == {"claimed": 2, "timed_out": 1, "done": 1}


async def test_a_thread_cannot_be_stopped_but_is_not_waited_for(world: World) -> None:
    """At the timeout the chart hears of it; the thread can see that, and holds its place until it ends."""
    goes_on, reasons = Signal(), []

    def handler(work: Work) -> str:
        goes_on.wait()
        reasons.append(work.cancelled)
        return "too late"

    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler), capacity=1)
        await worker.turn()
        await moments()
        world.clock.advance("60s")
        await worker.beat()
        await worker.settled()
        assert worker.tally == {"claimed": 1, "timed_out": 1}
        world.clock.advance("5s")
        assert (worker.running, await worker.turn()) == (1, False)
        goes_on.set()
        await until(lambda: not worker.running)
        assert reasons == ["timeout"]
        assert (await where(engine)).states == ("doing",)
        await worked(worker)
        assert (await where(engine)).context["brought"] == "too late"


async def test_leaving_the_state_stops_the_handler_at_once(world: World) -> None:
    """In the process that leaves the state no heartbeat is needed; the handler can clean up."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        await at_the_gate(worker, gate)
        await sent(engine, "a", Job.drop())
        await worker.settled()
        assert gate.stopped == ["left"]
        assert worker.tally == {"claimed": 1, "cancelled": 1}


async def test_leaving_the_state_elsewhere_stops_the_handler_within_a_heartbeat(everywhere: World) -> None:
    """Another process leaves the state: the next heartbeat tells."""
    gate = Gate()
    async with everywhere.engines(number=2) as [here, there]:
        await begun(here, "a")
        worker = everywhere.worker(here, handling(gate))
        await at_the_gate(worker, gate)
        await sent(there, "a", Job.drop())
        await worker.beat()
        await moments()
        assert gate.stopped == []
        everywhere.clock.advance("10s")
        await worker.beat()
        await worker.settled()
        assert gate.stopped == ["lost"]
        assert worker.tally == {"claimed": 1, "lost": 1}


async def test_one_that_has_not_begun_never_begins(world: World) -> None:
    """An attempt that is stopped between its claim and its first step does nothing."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        assert await worker.turn()
        for running in list(worker._attempts.held.values()):
            worker._attempts.cancel(running, "left")
        await worker.settled()
        assert (gate.seen, worker.running) == ([], 0)
        assert worker.tally == {"claimed": 1, "cancelled": 1}


async def test_heartbeats_keep_the_lease(everywhere: World) -> None:
    """Work that takes hours stays with its worker, in one call for all that it has."""
    gate = Gate()
    async with everywhere.engine(Slow) as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a", "b", "c", chart=Slow)
        worker = everywhere.worker(engine, handling(gate))
        assert await worker.turn()
        for _ in range(30):
            everywhere.clock.advance("10s")
            await worker.beat()
        assert await engine.store.work.expired(10, engine.charts.versions) == []
        assert breakable.calls.count("work.extend") == 30
        gate.opened.set()
        await worker.settled()
        assert worker.tally == {"claimed": 3, "done": 3}


async def test_a_worker_that_lost_its_lease_can_finish_nothing(everywhere: World) -> None:
    """After a rescue the old attempt's outcome is dropped, whatever it is; the new attempt counts."""
    gates = [Gate(), Gate()]
    async with everywhere.engines(number=2) as [here, there]:
        await begun(here, "a")
        first, second = (
            everywhere.worker(engine, handling(gate))
            for engine, gate in zip((here, there), gates, strict=True)
        )
        await at_the_gate(first, gates[0])
        everywhere.clock.advance("91s")
        [lost] = await there.store.work.expired(10, there.charts.versions)
        await sent(there, "a", work_lost(lost.id, lost.attempt))
        everywhere.clock.advance("5s")
        await at_the_gate(second, gates[1])
        gates[0].opened.set()
        await first.settled()
        assert first.tally == {"claimed": 1, "stale": 1}
        assert (await where(here)).states == ("doing",)
        gates[1].opened.set()
        await second.settled()
        assert (await where(here)).states == ("done",)
        assert second.tally == {"claimed": 1, "done": 1}


async def test_without_a_database_a_worker_gives_up_its_work_when_the_lease_is_over(world: World) -> None:
    """Who cannot extend a lease must assume that another has the work, and stops by itself."""
    gate = Gate()
    async with world.engine(Slow) as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a", chart=Slow)
        worker = world.worker(engine, handling(gate))
        await at_the_gate(worker, gate)
        breakable.broken = {"work.extend"}
        world.clock.advance("89s")
        with pytest.raises(StoreUnavailableError):
            await worker.beat()
        await moments()
        assert gate.stopped == []
        world.clock.advance("1s")
        await worker.beat()
        await worker.settled()
        assert gate.stopped == ["lost"]
        assert worker.tally == {"claimed": 1, "lost": 1}


async def test_a_rescue_in_the_same_process_stops_the_old_attempt(world: World) -> None:
    """When the next attempt is due, the one before it is told to stop."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        await at_the_gate(worker, gate)
        [open_work] = (await where(engine)).work.values()
        await sent(engine, "a", work_lost(open_work.id, 1))
        await worker.settled()
        assert gate.stopped == ["lost"]


async def test_outcomes_wait_for_the_database(world: World) -> None:
    """An outcome is told when the database is back; when the lease is over by then, it is dropped."""
    async with world.engine() as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        arrange: dict[str, Callable[[], Any]] = {
            "a": breakable.broken.clear,
            "b": lambda: world.clock.advance("90s"),
        }

        async def handler(work: Work) -> object:
            breakable.broken.add("run")
            asyncio.get_running_loop().call_later(0, arrange[work.instance])
            return Done(work.instance)

        worker = world.worker(engine, handling(handler))
        await begun(engine, "a")
        await worked(worker)
        assert (await where(engine)).context["brought"] == "a"
        await begun(engine, "b")
        await worked(worker)
        assert worker.tally == {"claimed": 2, "done": 1, "lost": 1}


async def test_an_outcome_whose_fate_is_unknown_is_told_again(world: World) -> None:
    """When the commit may have gone through it is sent again, and the core takes it once."""

    async def handler(_work: Work) -> int:
        breakable.afterwards.add("run")
        asyncio.get_running_loop().call_later(0.01, breakable.afterwards.clear)
        return 1

    async with world.engine() as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler))
        await worked(worker)
        assert [line.transition for line in await engine.history(TENANT, "a")] == ["start", "finish"]


async def test_draining_lets_handlers_finish(world: World) -> None:
    """Within the grace a handler ends as if nothing were; nothing more is claimed."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a", "b")
        worker = world.worker(engine, handling(gate), capacity=1)
        await at_the_gate(worker, gate)
        draining = asyncio.create_task(worker.drain(grace=60))
        await moments()
        assert not await worker.turn()
        gate.opened.set()
        await draining
        assert worker.tally == {"claimed": 1, "done": 1}
        assert not await worker.turn()


async def test_draining_hands_back_what_does_not_finish(everywhere: World) -> None:
    """After the grace handlers are stopped; another worker has their work at once, as the same attempt."""
    gate, other = Gate(), Gate()
    async with everywhere.engines(number=2) as [here, there]:
        await begun(here, "a", "b")
        worker = everywhere.worker(here, handling(gate))
        await at_the_gate(worker, gate)
        await worker.drain()
        await worker.drain()
        assert gate.stopped == ["drain", "drain"]
        assert worker.tally == {"claimed": 2, "cancelled": 2}
        second = everywhere.worker(there, handling(other))
        await at_the_gate(second, other)
        other.opened.set()
        await second.settled()
        assert [work.attempt for work in other.seen] == [1, 1]
        assert second.tally == {"claimed": 2, "done": 2}


async def test_a_second_drain_may_shorten_the_first(world: World) -> None:
    """Whoever cannot wait any longer says so."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        await at_the_gate(worker, gate)
        patient = asyncio.create_task(worker.drain(grace=3_600))
        await moments()
        await worker.drain()
        await patient
        assert gate.stopped == ["drain"]


async def test_a_drain_in_the_middle_of_a_claim_loses_nothing(world: World) -> None:
    """What is claimed while the worker is stopped is handed back at once."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        await worker.start()
        await until(lambda: worker._claiming is not None)
        await worker.drain()
        assert (gate.seen, worker.running) == ([], 0)
        [row] = await engine.store.work.page(WorkQuery(tenant=TENANT))
        assert row.worker is None


async def test_a_thread_that_does_not_end_keeps_its_lease(world: World) -> None:
    """What still runs is not handed to another; a thread that looks is handed back."""
    goes_on = Signal()

    def handler(work: Work) -> None:
        while not (goes_on.wait(0.001) or (work.instance == "b" and work.cancelled)):
            pass
        work.raise_if_cancelled()

    async with world.engine() as engine:
        await begun(engine, "a", "b")
        worker = world.worker(engine, handling(handler), patience=3_600)
        assert await worker.turn()
        await moments()
        tasks = {running.row.instance: running.task for running in worker._attempts.held.values()}
        patient = asyncio.create_task(worker.drain())
        assert tasks["b"]
        await tasks["b"]
        worker.patience = 0
        await worker.drain()
        rows = await engine.store.work.page(WorkQuery(tenant=TENANT))
        assert {row.instance: row.worker for row in rows} == {"a": worker.id, "b": None}
        goes_on.set()
        await patient
        await worker.settled()


async def test_a_task_that_somebody_else_cancels_is_handed_back(world: World) -> None:
    """When a loop is shut down around a worker, its work is no failure."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(gate))
        await at_the_gate(worker, gate)
        [task] = worker._attempts.tasks
        task.cancel()
        await worker.settled()
        [row] = await engine.store.work.page(WorkQuery(tenant=TENANT))
        assert (row.worker, row.attempt) == (None, 1)


async def test_a_thread_whose_task_somebody_else_cancels_keeps_its_lease(world: World) -> None:
    """Nobody else gets work that a thread is still at."""
    goes_on = Signal()
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(lambda _work: goes_on.wait()))
        assert await worker.turn()
        await moments()
        [task] = worker._attempts.tasks
        task.cancel()
        await worker.settled()
        [row] = await engine.store.work.page(WorkQuery(tenant=TENANT))
        assert (row.worker, worker.running) == (worker.id, 1)
        goes_on.set()
        await until(lambda: not worker.running)


async def test_no_lease_is_extended_of_what_is_over(world: World) -> None:
    """A handler that takes its time to clean up keeps its place, but no lease."""
    cleaning = asyncio.Event()

    async def handler(_work: Work) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await cleaning.wait()

    async with world.engine() as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler))
        assert await worker.turn()
        await moments()
        await sent(engine, "a", Job.drop())
        world.clock.advance("10s")
        await worker.beat()
        assert (worker.running, breakable.calls.count("work.extend")) == (1, 0)
        cleaning.set()
        await worker.settled()
        assert worker.tally == {"claimed": 1, "cancelled": 1}


async def test_a_worker_may_end_the_work_of_another_engine_only_once(world: World) -> None:
    """An outcome that comes after the instance has ended is counted as stale, not reported as an error."""
    gate = Gate()
    async with world.engines(number=2) as [here, there]:
        await begun(here, "a")
        worker = world.worker(here, handling(gate))
        await at_the_gate(worker, gate)
        [open_work] = (await where(here)).work.values()
        await sent(there, "a", work_done(open_work.id, 1, "elsewhere"))
        gate.opened.set()
        await worker.settled()
        assert worker.tally == {"claimed": 1, "stale": 1}
        assert (await where(here)).context["brought"] == "elsewhere"


async def test_a_worker_starts_again_after_it_was_stopped(world: World) -> None:
    """A worker is no more used up than a service."""
    gate = Gate()
    gate.opened.set()
    async with world.engine() as engine:
        worker = world.worker(engine, handling(gate))
        for instance in "ab":
            async with worker:
                await begun(engine, instance)
                await gate.begun.wait()
                await all_ended(engine, "ab".index(instance) + 1)
            gate.begun.clear()
        assert worker.tally == {"claimed": 2, "done": 2}
