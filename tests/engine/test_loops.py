"""A node belongs to one event loop of one process; calls from elsewhere fail at once and say what to do."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from headway import Final, State, Statechart, person
from headway.engine.orders import Receipt
from headway.errors import WrongLoopError
from headway.node import Node
from headway.store.rows import Cursor
from tests.docs.pages import ROOT

pytestmark = pytest.mark.mission("ENG-3")

PATIENCE = 60
ANN = person("ann")


class Job(Statechart):
    """Goes to and fro."""

    here, there, over = State(initial=True), State(), Final()
    go = here.to(there)
    back = there.to(here)
    finish = here.to(over)


async def in_a_thread(call: Callable[[], Awaitable[object]]) -> object:
    """What a call comes to on an event loop of its own, in a thread."""

    async def bounded() -> object:
        async with asyncio.timeout(PATIENCE):
            return await call()

    return await asyncio.to_thread(asyncio.run, bounded())


async def first_of(node: Node, cursor: Cursor | None) -> object:
    """The first event that a follower hears of."""
    async with node.tail.follow(cursor) as follower:
        return await anext(follower)


CALLS: dict[str, Callable[[Node], Awaitable[object]]] = {
    "create": lambda node: node.tenant().create(Job, "b"),
    "send": lambda node: node.tenant().send("a", Job.go()),
    "send_many": lambda node: node.tenant().send_many([("a", Job.go())]),
    "cancel": lambda node: node.tenant().cancel("a"),
    "get": lambda node: node.tenant().get("a"),
    "until": lambda node: node.tenant().until("a", "over"),
    "list": lambda node: node.tenant().list(),
    "history": lambda node: node.tenant().history("a"),
    "why": lambda node: node.tenant().why("a"),
    "inbox": lambda node: node.tenant().inbox(ANN),
    "answer": lambda node: node.tenant().answer("a:1:1", by=ANN),
    "follow": lambda node: first_of(node, None),
    "follow from a cursor": lambda node: first_of(node, Cursor()),
    "read the store": lambda node: node.engine.store.instances.get(("default", "a")),
    "write to the store": lambda node: node.engine.store.requests.prune(1),
    "open": lambda node: node.open(),
    "stop": lambda node: node.stop(),
    "close": lambda node: node.engine.close(),
    "close the store": lambda node: node.engine.store.close(),
}


async def test_a_call_from_another_loop_fails_and_harms_nobody(database: str) -> None:
    """A thread with a loop of its own is told the way to call; the node goes on as if nothing had been."""
    async with Node(database, [Job]) as node, asyncio.timeout(PATIENCE):
        await node.tenant().create(Job, "a")
        for name, call in CALLS.items():
            with pytest.raises(WrongLoopError, match="run_coroutine_threadsafe"):
                await in_a_thread(partial(call, node))
            sent = await asyncio.gather(*(node.tenant().send("a", event()) for event in (Job.go, Job.back)))
            assert all(isinstance(answer, Receipt) for answer in sent), name


async def test_a_follower_from_another_loop_fails_though_it_has_nothing_to_read(database: str) -> None:
    """One whose cursor is at the end would wait for ever on a loop that nobody wakes."""
    async with Node(database, [Job]) as node, asyncio.timeout(PATIENCE), node.tail.follow() as follower:
        await node.tenant().create(Job, "a")
        event = await anext(follower)
        with pytest.raises(WrongLoopError, match="run_coroutine_threadsafe"):
            await in_a_thread(lambda: first_of(node, event.cursor))


async def test_the_way_that_the_error_names_works(database: str) -> None:
    """A thread hands its call to the node's loop."""
    async with Node(database, [Job]) as node, asyncio.timeout(PATIENCE):
        loop, tenant = asyncio.get_running_loop(), node.tenant()

        def create() -> object:
            return asyncio.run_coroutine_threadsafe(tenant.create(Job, "a"), loop).result(PATIENCE)

        assert isinstance(await asyncio.to_thread(create), Receipt)


async def test_a_node_that_is_closed_may_be_opened_in_another_loop(database: str) -> None:
    """Its new loop is another one that lives beside the first."""
    node = Node(database, [Job])
    async with node.opened() as tenant:
        await tenant.create(Job, "a")

    async def elsewhere() -> object:
        async with node.opened() as tenant:
            return await tenant.send("a", Job.go())

    assert isinstance(await in_a_thread(elsewhere), Receipt)
    async with node.opened() as tenant:
        assert (await tenant.get("a")).state == "there"


@pytest.mark.parametrize("way", ["beside", "after", "within", "same_loop"])
def test_a_forked_child_is_told_to_open_a_node_of_its_own(tmp_path: Path, way: str) -> None:
    """Wherever a process forks, its child is refused what it has opened, at once; the parent goes on."""
    done = forked(tmp_path, way)
    assert (done.returncode, done.stderr) == (0, "")
    *told, state = done.stdout.splitlines()
    assert [line.split()[0] for line in told] == ["send", "get", "history", "open", "stop"]
    assert all("open a Node of its own in the child" in line for line in told)
    assert state == "here"


def test_a_node_that_was_not_opened_may_be_forked(tmp_path: Path) -> None:
    """A server may build its node before it forks, and open it in each process."""
    done = forked(tmp_path, "before")
    assert (done.stdout.split(), done.stderr) == (["here", "here"], "")


def forked(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    """A process that forks."""
    command = (sys.executable, "-m", "tests.engine.forking", f"sqlite:///{folder}/headway.db", *given)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
