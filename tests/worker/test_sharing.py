"""Many workers, many tenants, more work than there is room for."""

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from headway import AtMost, Final, Retry, Run, State, Statechart
from headway.clock import SystemClock
from headway.engine.engine import Engine
from headway.errors import InputError
from headway.store.port import Store
from headway.store.queries import Claim
from headway.worker.attempt import Again, Fail
from headway.worker.handlers import Handlers
from headway.worker.rescue import Rescue
from headway.worker.work import Work
from headway.worker.worker import Worker
from tests.overlay import Overlay
from tests.worker.world import TENANT, Gate, Job, World, all_ended, begun, handling, until, where, worked

pytestmark = pytest.mark.mission("ENG-10")


def flow(run: Run | str, name: str) -> type[Statechart]:
    """A chart with one piece of work."""

    class Flow(Statechart, name=name):
        doing = State(initial=True, run=run)
        done, failed = Final(), Final()
        finish = doing.on_done.to(done)
        fail = doing.on_error.to(failed)

    return Flow


Urgent = flow(Run("do", priority=9), "Urgent")
Limited = flow(Run("do", concurrency=AtMost(2, of="site")), "Limited")
Paced = flow(Run("do", rate=AtMost(3, of="api", per="10s")), "Paced")
Elsewhere = flow(Run("do", queue="other"), "Elsewhere")
Unknown = flow(Run("unheard"), "Unknown")
CHARTS = (Job, Urgent, Limited, Paced, Elsewhere, Unknown)


async def test_two_workers_never_run_the_same_attempt_at_once(everywhere: World) -> None:
    """With retries, hand-backs and both workers claiming as they can, no attempt runs twice at a time."""
    now: Counter[tuple[str, int]] = Counter()
    most: Counter[tuple[str, int]] = Counter()
    tries: Counter[str] = Counter()

    async def handler(work: Work) -> object:
        key = (work.id, work.attempt)
        now[key] += 1
        most[key] = max(most[key], now[key])
        tries[work.instance] += 1
        for _ in range(int(work.instance) % 5):
            await asyncio.sleep(0)
        now[key] -= 1
        if tries[work.instance] == 1 and int(work.instance) % 7 == 0:
            return Again(0)
        return None

    async with everywhere.engines(number=2) as engines:
        await begun(engines[0], *(str(number) for number in range(150)))
        workers = [everywhere.worker(engine, handling(handler), capacity=10) for engine in engines]
        for worker in workers:
            assert await worker.turn()
        async with workers[0], workers[1]:
            await until(lambda: sum(worker.tally["again"] for worker in workers) == 22)
            everywhere.clock.advance("1s")
            await all_ended(engines[0], 150)
        assert set(most.values()) == {1}
        assert sum(worker.tally["done"] for worker in workers) == 150
        assert sum(worker.tally["again"] for worker in workers) == 22


async def test_a_restart_goes_on(everywhere: World) -> None:
    """A worker that is gone without a word loses its lease; the chart's next attempt runs on another."""
    gate, other = Gate(), Gate()
    other.opened.set()
    async with everywhere.engines(number=2) as [here, there]:
        await begun(here, "a", "b")
        gone = everywhere.worker(here, handling(gate))
        assert await gone.turn()
        await gate.begun.wait()
        here.unwatch(gone._look)
        new = everywhere.worker(there, handling(other))
        assert not await new.turn()
        everywhere.clock.advance("91s")
        rescue = Rescue(there)
        await rescue.turn()
        everywhere.clock.advance("5s")
        await worked(new)
        assert [work.attempt for work in other.seen] == [2, 2]
        for instance in "ab":
            assert (await where(there, instance)).states == ("done",)
        gate.opened.set()
        await gone.settled()
        assert gone.tally == {"claimed": 2, "stale": 2}


async def test_the_urgent_goes_first_and_tenants_take_turns(world: World) -> None:
    """By priority, then one tenant after the other, however much one of them has waiting."""
    order: list[tuple[str, str]] = []

    async def handler(work: Work) -> None:
        order.append((work.tenant, work.instance))

    async with world.engine(*CHARTS) as engine:
        await begun(engine, *(f"big{number}" for number in range(20)), tenant="big")
        await begun(engine, "small1", "small2", tenant="small")
        await begun(engine, "now", tenant="small", chart=Urgent)
        await worked(world.worker(engine, handling(handler), capacity=3))
        assert order[0] == ("small", "now")
        assert {instance for _, instance in order[:6]} >= {"small1", "small2"}
        assert len(order) == 23


async def test_limits_hold_across_workers(everywhere: World) -> None:
    """At most so many at once and so many in a time, whoever claims; all of it is done in the end."""
    now, most, done = Counter[str](), Counter[str](), []

    async def handler(work: Work) -> None:
        now[work.state] += 1
        most[work.state] = max(most[work.state], now[work.state])
        for _ in range(5):
            await asyncio.sleep(0)
        now[work.state] -= 1
        done.append(work.instance)

    async with everywhere.engines(*CHARTS, number=2) as engines:
        workers = [everywhere.worker(engine, handling(handler)) for engine in engines]
        await begun(engines[0], *(f"l{number}" for number in range(10)), chart=Limited)
        async with workers[0], workers[1]:
            await all_ended(engines[0], 10)
        assert most["doing"] == 2
        await begun(engines[0], *(f"p{number}" for number in range(7)), chart=Paced)
        for _ in range(4):
            before = len(done)
            for worker in workers:
                worker._draining = False
                await worked(worker)
            assert len(done) - before <= 3
            everywhere.clock.advance("10s")
        assert len(done) == 17


async def test_the_end_of_one_lets_the_next_of_its_key_begin(world: World) -> None:
    """Work that waited for another with the same key does not wait for the next poll as well."""

    async def handler(_work: Work) -> None: ...

    async with world.engine(*CHARTS) as engine:
        await begun(engine, *"abcde", chart=Limited)
        worker = world.worker(engine, handling(handler))
        worker._claiming.longest_rest = 3_600
        async with worker:
            await all_ended(engine, 5)
        assert worker.tally == {"claimed": 5, "done": 5}


async def test_threads_are_used_again(world: World) -> None:
    """As many threads as handlers run at once, however many have run; none is left at the end."""
    names: set[str] = set()

    def handler(_work: Work) -> None:
        names.add(f"{threading.get_ident()}")

    async with world.engine() as engine:
        await begun(engine, *(str(number) for number in range(20)))
        worker = world.worker(engine, handling(handler), capacity=2)
        before = {*threading.enumerate()}
        await worked(worker)
        assert len({*threading.enumerate()} - before) <= 2
        await worker.stop()
        await until(lambda: before >= {*threading.enumerate()})
        assert len(names) <= 2


async def test_what_a_worker_cannot_do_it_does_not_take(world: World) -> None:
    """Other queues, other tenants and handlers that it does not have are left to others."""
    done: list[str] = []

    async def handler(work: Work) -> None:
        done.append(work.instance)

    async with world.engine(*CHARTS) as engine:
        await begun(engine, "mine")
        await begun(engine, "queue", chart=Elsewhere)
        await begun(engine, "handler", chart=Unknown)
        await begun(engine, "tenant", tenant="other")
        await worked(world.worker(engine, Handlers()))
        assert done == []
        await worked(world.worker(engine, handling(handler), tenants=(TENANT,)))
        assert done == ["mine"]
        await worked(world.worker(engine, handling(handler), queues=("other",)))
        assert done == ["mine", "queue"]


async def test_no_more_runs_than_there_is_room_for(world: World) -> None:
    """The capacity bounds what is claimed; what ends makes room."""
    gate = Gate()
    async with world.engine() as engine:
        await begun(engine, *"abcde")
        worker = world.worker(engine, handling(gate), capacity=2)
        assert await worker.turn()
        assert not await worker.turn()
        assert worker.running == 2
        gate.opened.set()
        await worker.settled()
        await worked(worker)
        assert worker.tally == {"claimed": 5, "done": 5}


async def test_many_items_take_few_claims(world: World) -> None:
    """A backlog of tiny items is drained in claims of many items each."""
    counted = Counting(world)

    async def handler(_work: Work) -> None: ...

    async with world.engine() as engine:
        await begun(engine, *(str(number) for number in range(400)))
        engine.store = counted.over(engine.store)
        worker = world.worker(engine, handling(handler), capacity=40)
        worker._claiming.longest_rest = 3_600
        async with worker:
            await all_ended(engine, 400)
        assert len([got for got in counted.got if got]) <= 40
        assert max(counted.got) == 40


class Counting:
    """Counts what claims bring."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.got: list[int] = []
        self.claimed = asyncio.Event()

    def over(self, store: Store) -> Any:
        """A store that counts."""
        counted = self

        async def counting(claim: Claim) -> Any:
            rows = await store.work.claim(claim)
            counted.got.append(len(rows))
            counted.claimed.set()
            return rows

        return Overlay(store, work=Overlay(store.work, claim=counting))


async def test_new_work_of_the_same_process_starts_without_waiting(world: World) -> None:
    """A commit wakes the worker: nobody waits for the next poll, also not for a retry that is due soon."""
    counted, attempts = Counting(world), list[int]()

    async def handler(work: Work) -> object:
        attempts.append(work.attempt)
        return Fail("flaky") if work.attempt == 1 else None

    Quick = flow(Run("do", retry=Retry(times=1, base="10ms")), "Quick")  # noqa: N806 - a chart
    async with Engine(world.place.store(SystemClock()), [Quick]) as engine:
        engine.store = counted.over(engine.store)
        worker = Worker(engine, handling(handler))
        worker._claiming.longest_rest = 3_600
        async with worker:
            await counted.claimed.wait()
            await begun(engine, "a", chart=Quick)
            await all_ended(engine, 1)
        assert attempts == [1, 2]


async def test_another_process_wakes_by_a_word(world: World) -> None:
    """`wake` is enough for work that somebody else has committed."""
    counted, gate = Counting(world), Gate()
    async with world.engines(number=2) as [here, there]:
        here.store = counted.over(here.store)
        worker = world.worker(here, handling(gate))
        worker._claiming.longest_rest = 3_600
        async with worker:
            await counted.claimed.wait()
            await begun(there, "a")
            worker.wake()
            await gate.begun.wait()
            gate.opened.set()
            await all_ended(here, 1)


@pytest.mark.parametrize("wrong", [{"capacity": 0}, {"queues": ()}, {"queues": "default"}])
async def test_a_worker_that_could_do_nothing_is_refused(world: World, wrong: dict[str, Any]) -> None:
    """No capacity, no queue, or a name where a list of names belongs."""
    async with world.engine() as engine:
        with pytest.raises(InputError):
            Worker(engine, Handlers(), **wrong)
        with pytest.raises(ValueError, match="duration"):
            Worker(engine, Handlers(), grace="soon")
        workers = [Worker(engine, Handlers(), name="same", grace=timedelta(seconds=2)) for _ in range(2)]
        assert workers[0].id != workers[1].id
        assert workers[0].grace == 2
