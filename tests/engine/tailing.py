"""Charts to follow, an engine with a tail, and what a follower has seen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headway import Ask, Final, State, Statechart
from headway.codec import decode
from headway.engine.engine import Engine
from headway.engine.tail import Follower, Tail
from headway.statechart.snapshot import Snapshot, work_progress
from headway.store.port import Store
from headway.store.rows import LiveRow, LogRow

NEVER = 3_600.0
"""A rest so long that only a wake-up can end it."""
Seen = list[tuple[str, str, int | str]]


class Visit(Statechart, owner="{user}"):
    """Somebody's stay, which is counted in turns."""

    staying = State(initial=True)
    gone = Final()
    turn = staying.stay()
    leave = staying.to(gone, live="left")


class Job(Statechart):
    """Work that tells how far it has come, and asks somebody who needs a reminder."""

    busy = State(run="do", initial=True)
    review = State(ask=Ask("boss", remind="1h"))
    done = Final()
    finished = busy.on_done.to(review, live=("half", "almost"))
    approve = review.to(done)


class Chore(Statechart):
    """Nobody's."""

    open_ = State(initial=True)
    done = Final()
    finish = open_.to(done)


@asynccontextmanager
async def following(
    store: Store, *, rest: float = NEVER, **options: Any
) -> AsyncIterator[tuple[Engine, Tail]]:
    """An engine with a tail that does not look by itself."""
    async with Engine(store, (Visit, Job, Chore)) as engine, asyncio.timeout(120):
        tail = Tail(engine, **options)
        tail.longest_rest = rest
        async with tail:
            yield engine, tail


async def visit(
    engine: Engine, name: str, turns: int = 0, *, tenant: str = "acme", user: str = "ann"
) -> None:
    """Create an instance and let it turn."""
    await engine.create(tenant, name, "Visit", context={"user": user})
    await go_on(engine, name, turns, tenant=tenant)


async def go_on(engine: Engine, name: str, turns: int = 1, *, tenant: str = "acme") -> None:
    """Let an instance turn."""
    for _ in range(turns):
        await engine.send(tenant, name, Visit.turn())


async def work_of(engine: Engine, name: str) -> str:
    """The id of the work of a job."""
    row = await engine.row("acme", name)
    return next(iter(decode(Snapshot, row.snapshot).work.values())).id


async def progress(engine: Engine, name: str, fraction: float, **data: Any) -> None:
    """Tell how far the work of a job has come."""
    told = work_progress(await work_of(engine, name), 1, fraction, **data)
    (await engine.send("acme", name, told)).unwrap()


async def some(follower: Follower, count: int) -> Seen:
    """The next events."""
    return [told(await anext(follower)) for _ in range(count)]


def told(event: LogRow) -> tuple[str, str, int | str]:
    """What an event is about: a line by its number, a message by its name."""
    what = event.message.name if isinstance(event, LiveRow) else event.line.seq
    return event.tenant, event.instance, what


def line(name: str, *seqs: int | str, tenant: str = "acme") -> Seen:
    """Lines and messages of one instance."""
    return [(tenant, name, seq) for seq in seqs]
