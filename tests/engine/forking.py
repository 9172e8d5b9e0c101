"""A process that opens a node and forks: `python -m tests.engine.forking DATABASE WAY`."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from headway.errors import WrongLoopError
from headway.node import Node
from tests.engine.test_loops import PATIENCE, Job

NODE = Node(sys.argv[1], [Job])
CALLS: dict[str, Callable[[], Awaitable[object]]] = {
    "send": lambda: NODE.tenant().send("a", Job.go()),
    "get": lambda: NODE.tenant().get("a"),
    "history": lambda: NODE.engine.store.history.page(("default", "a")),
    "open": NODE.open,
    "stop": NODE.stop,
}


def say(line: str) -> None:
    """Tell the test, at once: a child ends without flushing."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def call() -> None:
    """Call what the parent has opened, in all ways."""
    for name, way in CALLS.items():
        try:
            await way()
        except WrongLoopError as error:
            say(f"{name} {error}")


def fork(child: Callable[[], None]) -> None:
    """Fork, and wait for the child."""
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


async def open_node() -> None:
    """Open, with an instance."""
    await NODE.open()
    await NODE.tenant().create(Job, "a")


async def go_on() -> None:
    """What the parent does after the fork."""
    say((await NODE.tenant().get("a")).state)
    await NODE.engine.close()


async def beside() -> None:
    """Fork in a thread, while the loop runs."""
    await open_node()
    await asyncio.to_thread(fork, lambda: asyncio.run(call()))
    await go_on()


async def within() -> None:
    """Fork in a coroutine, which goes on in the child."""
    await open_node()
    pid = os.fork()
    if pid == 0:
        await call()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0  # noqa: ASYNC222 - nothing else runs here
    await go_on()


def after() -> None:
    """Fork when the loop was closed."""
    asyncio.run(open_node())
    fork(lambda: asyncio.run(call()))
    asyncio.run(go_on())


def same_loop() -> None:
    """Let the child run the loop of its parent."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(open_node())
    fork(lambda: loop.run_until_complete(call()))
    loop.run_until_complete(go_on())
    loop.close()


async def used() -> None:
    """Open a node that was built before."""
    async with asyncio.timeout(PATIENCE), NODE.opened() as tenant:
        await tenant.create(Job, name := f"p-{os.getpid()}")
        say((await tenant.get(name)).state)


def before() -> None:
    """Fork before anything is opened."""
    fork(lambda: asyncio.run(used()))
    asyncio.run(used())


WAYS: dict[str, Callable[[], None]] = {
    "beside": lambda: asyncio.run(beside()),
    "within": lambda: asyncio.run(within()),
    "after": after,
    "same_loop": same_loop,
    "before": before,
}

if __name__ == "__main__":
    WAYS[sys.argv[2]]()
