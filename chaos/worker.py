"""Nodes: a worker does work, and the keeper fires timers, rescues work and relays messages."""

import asyncio
import signal

from chaos.berth import Berth, patiently
from headway.node import Node
from headway.outbox import Backoff, Message, Subscriber
from headway.worker import Fail, Handlers, Work

LONG, SHORT = 1.2, 0.08
SOMETIMES, SELDOM = 0.3, 0.1
RARELY = 0.04
WITNESS = "subscriber:witness"
SOON = Backoff.growing(attempts=30, base="50ms", factor=1.5, cap="1s")


def handlers_of(berth: Berth) -> Handlers:
    """What workers do: mostly a little, sometimes much, and now and then it fails."""
    handlers, pen = Handlers(), berth.pen

    @handlers
    async def toil(work: Work) -> Fail | dict[str, object]:
        """Take some time over it."""
        random = berth.random(work.id, work.attempt)
        own = {"work": work.id, "attempt": work.attempt, "instance": work.instance}
        pen.note("begins", **own)
        await asyncio.sleep(random.uniform(0, LONG if random.random() < SOMETIMES else SHORT))
        pen.note("ends", **own)
        if random.random() < SELDOM:
            return Fail("flaky", "not this time")
        return {"attempt": work.attempt, "by": berth.setting.name}

    return handlers


def witness_of(berth: Berth) -> Subscriber:
    """A subscriber that notes what it is given, and now and then does not take it."""

    async def take(message: Message) -> None:
        """Take a message, or do not."""
        what = {"id": message.id, "instance": message.instance, "name": message.name}
        if berth.random(message.id, message.attempt).random() < RARELY:
            berth.pen.note("declines", **what)
            raise OSError("not now")
        berth.pen.note("takes", **what)

    return Subscriber("witness", take, begins="first", backoff=SOON)


async def keep(berth: Berth) -> None:
    """Run a node without work until it is told to end."""
    await _run(berth, None)


async def work(berth: Berth) -> None:
    """Run a node that works until it is told to end."""
    await _run(berth, handlers_of(berth))


async def _run(berth: Berth, handlers: Handlers | None) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)

    async def started() -> Node:
        node = Node(
            berth.setting.database,
            berth.charts,
            handlers=handlers,
            destinations=[witness_of(berth)],
            name=berth.setting.name,
            clock=berth.clock,
        )
        await node.start()
        return node

    node = await patiently(started)
    berth.pen.note("runs")
    await told.wait()
    await node.stop()
