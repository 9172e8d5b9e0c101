"""What handlers tell on the way: progress, counters, checkpoints."""

import asyncio
from contextlib import suppress
from threading import Event as Signal
from typing import Any, cast

import pytest

from headway import Final, Retry, Run, State, Statechart
from headway.codec import decode
from headway.engine.engine import Engine
from headway.errors import InputError, StoreUnavailableError
from headway.statechart.snapshot import work_lost
from headway.store.port import Store
from headway.store.queries import MessageQuery
from headway.worker import execution
from headway.worker.attempt import Fail
from headway.worker.work import Work
from tests.worker.faults import Breakable
from tests.worker.world import TENANT, World, begun, handling, moments, sent, until, where, worked

pytestmark = pytest.mark.mission("ENG-10")


class Crawl(Statechart):
    """Work that tells how far it is."""

    reading = State(
        initial=True,
        run=Run("do", retry=Retry(times=3, base="0s")),
        says="{message} {fraction}",
        progress=(0, 100),
    )
    done, failed = Final(), Final()
    finish = reading.on_done.to(done)
    fail = reading.on_error.to(failed)


async def reports(engine: Engine) -> list[str]:
    """What was said of the progress, in its order."""
    page = await engine.store.messages.page(MessageQuery(kinds=("live",)))
    data = [decode(object, message.data or "null") for message in page.messages]
    return [cast("dict[str, Any]", each)["message"] for each in data]


async def test_a_tight_loop_floods_nobody_and_loses_nothing(world: World) -> None:
    """Of a thousand words two are sent, with the last fraction and the sum of what was counted."""

    async def handler(work: Work) -> None:
        for page in range(1, 1001):
            work.progress(page / 1000, "page", pages=1, bytes=10)
            if page == 500:
                await worker.beat()
                await moments()
                await worker.beat()

    async with world.engine(Crawl) as engine:
        await begun(engine, "a", chart=Crawl)
        worker = world.worker(engine, handling(handler))
        await worked(worker)
        it = await where(engine)
        assert (it.counters, it.progress, it.states) == ({"pages": 1000, "bytes": 10_000}, 100, ("done",))
        assert await reports(engine) == ["page 0.5", "page 1.0"]


async def test_a_thread_tells_its_progress(world: World) -> None:
    """A handler that is not async tells the same way, and waits for what must be awaited."""

    def handler(work: Work) -> object:
        for _ in range(100):
            work.progress(0.5, "half", pages=1)
        work.wait(work.checkpoint({"page": 100}))
        return work.wait(work.context())

    async with world.engine(Crawl) as engine:
        await begun(engine, "a", chart=Crawl, site="s")
        worker = world.worker(engine, handling(handler))
        await worked(worker)
        it = await where(engine)
        assert (it.counters, it.states) == ({"pages": 100}, ("done",))


async def test_progress_is_sent_in_time_while_the_handler_runs(world: World) -> None:
    """The first word goes at once, the next after a pause; nothing is sent when nothing is new."""
    tell, told = asyncio.Queue[float | None](), asyncio.Event()

    async def handler(work: Work) -> None:
        while (fraction := await tell.get()) is not None:
            work.progress(fraction, "at")
            told.set()

    async def say(fraction: float) -> None:
        told.clear()
        tell.put_nowait(fraction)
        await told.wait()
        await moments()

    async with world.engine(Crawl) as engine:
        await begun(engine, "a", chart=Crawl)
        worker = world.worker(engine, handling(handler))
        assert await worker.turn()
        await say(0.1)
        await worker.beat()
        assert await reports(engine) == ["at 0.1"]
        await say(0.2)
        await say(0.3)
        await worker.beat()
        assert await reports(engine) == ["at 0.1"]
        world.clock.advance("1s")
        await worker.beat()
        await worker.beat()
        assert await reports(engine) == ["at 0.1", "at 0.3"]
        tell.put_nowait(None)
        await worker.settled()
        assert await reports(engine) == ["at 0.1", "at 0.3"]


async def test_a_guess_at_the_end_is_told(world: World) -> None:
    """The time and the fraction give the seconds to the end; what an earlier attempt did does not count."""
    etas: list[float | None] = []

    async def handler(work: Work) -> object:
        etas.append(work.eta)
        for fraction in (0.5, 0.75) if work.checkpointed else (0.25,):
            world.clock.advance("10s")
            work.progress(fraction)
            etas.append(work.eta)
        await work.checkpoint(1)
        return None if work.attempt > 1 else Fail("again")

    async with world.engine(Crawl) as engine:
        await begun(engine, "a", chart=Crawl)
        await worked(world.worker(engine, handling(handler)))
        assert etas == [None, 30.0, None, None, 10.0]
        lines = await engine.history(TENANT, "a")
        assert lines[-1].after == "done"


async def test_counters_arrive_once_whatever_the_database_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report whose fate is unknown is sent again as the same request; nothing is counted twice or lost."""
    monkeypatch.setattr(execution, "FIRST_PAUSE", 0.0)
    told, goes_on = asyncio.Event(), asyncio.Event()

    async def handler(work: Work) -> None:
        work.progress(0.5, pages=3)
        told.set()
        await goes_on.wait()
        work.progress(0.9, pages=4)

    async with world.engine(Crawl) as engine:
        breakable = Breakable(engine.store)
        engine.store = cast("Store", breakable)
        await begun(engine, "a", chart=Crawl)
        worker = world.worker(engine, handling(handler))
        assert await worker.turn()
        await told.wait()
        await moments()
        breakable.afterwards = {"run"}
        with pytest.raises(StoreUnavailableError):
            await worker.beat()
        breakable.afterwards, breakable.broken = set(), {"run"}
        world.clock.advance("1s")
        with pytest.raises(StoreUnavailableError):
            await worker.beat()
        breakable.broken = set()
        goes_on.set()
        await worker.settled()
        it = await where(engine)
        assert (it.counters, it.states) == ({"pages": 7}, ("done",))


async def test_a_report_that_can_never_be_sent_is_not_sent_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails for another reason than the store is raised once, and not queued again."""
    told, goes_on = asyncio.Event(), asyncio.Event()

    async def handler(work: Work) -> None:
        work.progress(0.5)
        told.set()
        await goes_on.wait()

    async with world.engine(Crawl) as engine:
        await begun(engine, "a", chart=Crawl)
        worker = world.worker(engine, handling(handler))
        assert await worker.turn()
        await told.wait()
        await moments()

        async def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("a mistake in the engine")

        with monkeypatch.context() as patch:
            patch.setattr(engine, "send", broken)
            with pytest.raises(RuntimeError, match="a mistake"):
                await worker.beat()
            world.clock.advance("2s")
            await worker.beat()
        goes_on.set()
        await worker.settled()
        assert worker.tally["done"] == 1


async def test_progress_of_an_attempt_that_is_over_stops_the_handler(world: World) -> None:
    """Who tells and is not listened to any more learns that the lease is lost."""
    told = asyncio.Event()

    async def handler(work: Work) -> None:
        work.progress(0.5)
        told.set()
        await asyncio.Event().wait()

    async with world.engines(Crawl, number=2) as [here, there]:
        await begun(here, "a", chart=Crawl)
        worker = world.worker(here, handling(handler))
        assert await worker.turn()
        await told.wait()
        await moments()
        [open_work] = (await where(here)).work.values()
        await sent(there, "a", work_lost(open_work.id, 1))
        await worker.beat()
        await worker.settled()
        assert worker.tally == {"claimed": 1, "lost": 1}


async def test_wrong_progress_is_an_error_where_it_is_told(world: World) -> None:
    """A handler that tells nonsense fails with a message that says what is wrong."""
    wrong: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        (1.5, {}, ValueError),
        (-1, {}, ValueError),
        (float("nan"), {}, ValueError),
        (0.5, {"pages": "three"}, TypeError),
        (0.5, {"pages": True}, TypeError),
        (0.5, {"data": {"x": object()}}, InputError),
    ]

    async def handler(work: Work) -> None:
        for fraction, more, error in wrong:
            with pytest.raises(error):
                work.progress(fraction, **more)

    async with world.engine(Crawl) as engine:
        await begun(engine, "a", chart=Crawl)
        await worked(world.worker(engine, handling(handler)))
        assert (await where(engine)).states == ("done",)


async def test_a_checkpoint_outlives_the_attempt(everywhere: World) -> None:
    """What an attempt has kept is there for the next one, on another worker too."""
    seen: list[Any] = []

    async def handler(work: Work) -> object:
        seen.append(work.checkpointed)
        await work.checkpoint({"page": work.attempt})
        await work.checkpoint({"page": work.attempt * 10})
        return "done" if work.attempt == 3 else Fail("again")

    async with everywhere.engines(Crawl, number=3) as engines:
        await begun(engines[0], "a", chart=Crawl)
        for engine in engines:
            worker = everywhere.worker(engine, handling(handler))
            assert await worker.turn()
            await worker.settled()
        assert seen == [None, {"page": 10}, {"page": 20}]
        assert (await where(engines[0])).states == ("done",)


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_checkpoint_without_a_lease_stops_the_handler(world: World, *, threaded: bool) -> None:
    """An attempt that is over cannot overwrite what the next one has kept, and goes no further."""
    reached, lost, further = Signal(), Signal(), []

    async def go_on(work: Work) -> None:
        reached.set()
        await until(lost.is_set)
        await work.checkpoint(1)
        further.append(1)

    def in_thread(work: Work) -> None:
        reached.set()
        lost.wait()
        with suppress(Exception):  # a handler that forgives everything is stopped all the same
            work.wait(work.checkpoint(1))
        further.append(1)

    async with world.engines(Crawl, number=2) as [here, there]:
        await begun(here, "a", chart=Crawl)
        worker = world.worker(here, handling(in_thread if threaded else go_on))
        assert await worker.turn()
        await until(reached.is_set)
        [open_work] = (await where(here)).work.values()
        await sent(there, "a", work_lost(open_work.id, 1))
        lost.set()
        await worker.settled()
        await until(lambda: not worker.running)
        assert further == []
        assert worker.tally == {"claimed": 1, "lost": 1}


async def test_the_context_is_read_once(world: World) -> None:
    """A handler sees one context, however often it asks."""
    seen: list[Any] = []

    async def handler(work: Work) -> None:
        seen.extend([await work.context() for _ in range(3)])
        names = (work.id, work.tenant, work.instance, work.state, work.handler, work.attempt)
        assert names == ("a:1:0", TENANT, "a", "reading", "do", 1)

    breakable = Breakable(world.place.store(world.clock))
    async with Engine(cast("Store", breakable), (Crawl,)) as engine:
        await begun(engine, "a", chart=Crawl, site="s")
        await worked(world.worker(engine, handling(handler)))
        assert seen == [{"site": "s"}] * 3
        assert breakable.calls.count("instances.get") == 1
