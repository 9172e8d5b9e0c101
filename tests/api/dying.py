"""A service in a process of its own that is killed: in the middle of an event, or right after its commit."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from headway import Final, State, Statechart, View
from headway.api.access import Access
from headway.api.app import application
from headway.api.server import serving
from headway.node import Node
from tests.api.serving import ROOT, UNHURRIED, client_of

FOLDER = Path(__file__).resolve().parents[2]
DEADLY = "DEADLY"
"""The instance whose event kills the process; or `effect`, whose first commit does."""
EFFECT = "effect"
AFTER = "after "
"""Before the name of the instance: the process is killed when its event is committed."""
WRITES = {"work": ("claim", "hasten"), "letters": ("redrive", "discard"), "keys": ("add", "change")}


def kill() -> None:
    """End the process without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


class Doomed:
    """Whether the next commit is the last."""

    now = False


def die(view: View) -> None:
    """End the process in the middle of a transaction, or let its commit end it."""
    deadly = os.environ.get(DEADLY)
    if view.instance == deadly:
        kill()
    Doomed.now = deadly == AFTER + view.instance


class Fragile(Statechart):
    """Counts how often it was pushed."""

    standing = State(initial=True)
    push = standing.stay(counts="pushes", do=die)


class Leaving(Statechart):
    """Leaves the status that it was found by."""

    waiting = State(initial=True)
    gone = Final()
    leave = waiting.to(gone, do=die)


class Working(Statechart):
    """Has work for somebody else."""

    busy = State(initial=True, run="pay", timeout="60s")
    done = Final()
    ready = busy.on_done.to(done)


class Watched:
    """A unit, and whether it has run commands."""

    def __init__(self, unit: Any) -> None:
        self._unit, self.has_run = unit, False

    def begin(self) -> Any:
        """As the unit does."""
        return self._unit.begin()

    def take(self, found: Any) -> Any:
        """As the unit does."""
        wanted = self._unit.take(found)
        self.has_run = self.has_run or bool(getattr(wanted, "commands", ()))
        return wanted

    def changes(self) -> Any:
        """As the unit does."""
        return self._unit.changes()


def deadly_commit(store: Any) -> None:
    """Kill the process when the event of a doomed instance is committed, before anybody is answered."""
    submit = store.submit

    def submit_and_die(unit: Any, done: Callable[[Any], None]) -> None:
        submit(unit, lambda outcome: kill() if Doomed.now else done(outcome))

    store.submit = submit_and_die


def deadly_effects(store: Any) -> None:
    """Kill the process when a claim, letters or a key are committed, before anything else is done."""
    run = store.run

    async def run_and_die(unit: Any) -> None:
        watched = Watched(unit)
        await run(watched)
        if watched.has_run:
            kill()

    def dying(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call_and_die(*values: Any, **named: Any) -> Any:
            answer = await call(*values, **named)
            if answer not in ([], 0, False):
                kill()
            return answer

        return call_and_die

    store.run = run_and_die
    for noun, names in WRITES.items():
        place = getattr(store, noun)
        for name in names:
            setattr(place, name, dying(getattr(place, name)))


async def main(database: str, port: int) -> None:
    """Serve until the input ends; the first line of output says where, and with which key."""
    charts = [Fragile, Leaving, Working]
    async with Node(database, charts) as node, Access(node.engine.store, rate=UNHURRIED) as access:
        key = await access.keyring.make("default", ROOT, ["admin"])
        if os.environ.get(DEADLY) == EFFECT:
            deadly_effects(node.engine.store)
        deadly_commit(node.engine.store)
        listening = socket.create_server(("127.0.0.1", port))
        async with serving(application(node, access), listening, patience=2):
            told = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "key": key.text}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)


@asynccontextmanager
async def process(database: str, deadly: str = "") -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service in a process of its own."""
    async with place(database, deadly) as where, client_of(where["url"], where["key"]) as client:
        yield client


@asynccontextmanager
async def place(database: str, deadly: str = "", port: int = 0) -> AsyncIterator[dict[str, str]]:
    """The `url` and the `key` of a service in a process of its own."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.api.dying", database, str(port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, DEADLY: deadly},
        cwd=FOLDER,
    )
    assert running.stdout
    assert running.stdin
    yield json.loads(await running.stdout.readline())
    running.stdin.close()
    await running.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
