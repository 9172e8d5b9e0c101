"""An engine and workers in a test, in the test's own time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from headway import Final, Retry, Run, State, Statechart, View, any_live
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.statechart.chart import Charted
from headway.statechart.snapshot import Event, Snapshot
from headway.store.queries import InstanceQuery
from headway.testing import FakeClock
from headway.worker.handlers import Handlers
from headway.worker.work import Work
from headway.worker.worker import Worker
from tests.store.contract.place import Place

TENANT = "acme"


def keep(view: View) -> dict[str, Any]:
    """Keep what the work has brought."""
    return {"brought": view.payload}


class Job(Statechart):
    """Work that is retried when it is flaky, lost or too slow."""

    doing = State(
        initial=True,
        run=Run("do", timeout="60s", retry=Retry(times=2, on=("flaky", "lost", "timeout"), base="5s")),
    )
    done, failed, dropped, approved = Final(), Final(), Final(), Final()

    finish = doing.on_done.to(done, do=keep)
    fail = doing.on_error.to(failed, do=keep)
    approve = doing.to(approved, by="system", takes=int, do=keep)
    drop = any_live.to(dropped)


class World(NamedTuple):
    """A database of the test's own, and a clock that stands still."""

    place: Place
    clock: FakeClock

    def seconds(self) -> float:
        """The monotonic clock of the test."""
        return self.clock.now().timestamp()

    @asynccontextmanager
    async def engines(self, *charts: Charted, number: int = 1) -> AsyncIterator[list[Engine]]:
        """Engines on the same database, as several processes have them."""
        async with AsyncExitStack() as stack:
            engines = [Engine(self.place.store(self.clock), charts or (Job,)) for _ in range(number)]
            yield [await stack.enter_async_context(engine) for engine in engines]

    @asynccontextmanager
    async def engine(self, *charts: Charted) -> AsyncIterator[Engine]:
        """One engine."""
        async with self.engines(*charts) as [engine]:
            yield engine

    def worker(self, engine: Engine, handlers: Handlers, **options: Any) -> Worker:
        """A worker that does nothing but when the test says so."""
        return Worker(engine, handlers, monotonic=self.seconds, **{"patience": 0.05, **options})


def handling(function: Callable[[Work], Any], name: str = "do") -> Handlers:
    """Handlers with one function."""
    handlers = Handlers()
    handlers.add(name, function)
    return handlers


async def begun(
    engine: Engine, *instances: str, tenant: str = TENANT, chart: Charted = Job, **context: Any
) -> None:
    """Begin lives whose first state has work."""
    calls = (engine.create(tenant, instance, chart, context=context) for instance in instances)
    for answer in await asyncio.gather(*calls):
        assert isinstance(answer, Receipt), answer


async def sent(engine: Engine, instance: str, event: Event) -> None:
    """Send an event that goes through."""
    answer = await engine.send(TENANT, instance, event)
    assert isinstance(answer, Receipt), answer


async def worked(worker: Worker) -> None:
    """Let a worker do all that is due."""
    while await worker.turn():
        await worker.settled()


async def where(engine: Engine, instance: str = "a", tenant: str = TENANT) -> Snapshot:
    """Where an instance stands."""
    return await engine.get(tenant, instance)


async def moments(number: int = 20) -> None:
    """Let everything happen that can happen without time passing in a database."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    """Let everything go on until something is true."""
    while True:
        answer = true()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(0)


async def all_ended(engine: Engine, number: int, tenant: str = TENANT) -> None:
    """Wait until so many lives have ended."""
    query = InstanceQuery(tenant=tenant, ended=True, limit=number)

    async def ended() -> bool:
        return len(await engine.list(query)) >= number

    await until(ended)


class Gate:
    """A handler that says when it has begun, and goes on when the test opens."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.opened = asyncio.Event()
        self.stopped: list[str | None] = []
        self.seen: list[Work] = []

    async def __call__(self, work: Work) -> str:
        """Wait at the gate."""
        self.seen.append(work)
        self.begun.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.stopped.append(work.cancelled)
            raise
        return "through"
