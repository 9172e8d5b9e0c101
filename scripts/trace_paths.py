"""Count what a call goes through: functions and files of the project, calls to the store, milliseconds.

    .venv/bin/python scripts/trace_paths.py

Each path runs warm on a SQLite file, in one process. Functions and files are those that run on the loop's
thread; a call to the store comes from outside of `headway.store`. Milliseconds are the median of untraced
repetitions.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from headway import Ask, Final, State, Statechart
from headway.api.access import Access, Rate
from headway.api.app import application
from headway.node import Node
from headway.outbox import Endpoint
from headway.statechart.snapshot import Actor
from headway.worker import Handlers, Work

ROOT = str(Path(__file__).parent.parent / "src" / "headway") + "/"
PASSED = frozenset({"announce", "now"})
WARM, REPEATS = 5, 30
BOSS = Actor("boss", "person", frozenset({"manager"}))
SECRET = "whsec_" + b64encode(bytes(32)).decode()
Prepare = Callable[[int], Awaitable[Any]]
Act = Callable[[Any], Awaitable[None]]


class Counter(Statechart):
    """Turns as long as one likes."""

    on = State(initial=True)
    off = State()
    flip = on.to(off) | off.to(on)


class Review(Statechart):
    """A manager decides, as often as one likes."""

    waiting = State(initial=True, ask=Ask("manager"))
    decided = State()
    approve = waiting.to(decided, by="manager")
    again = decided.to(waiting)


class Errand(Statechart):
    """Runs a handler, then tells a receiver."""

    waiting = State(initial=True)
    running = State(run="run")
    done = Final()
    begin = waiting.to(running)
    end = running.on_done.to(done, webhook="errand.done")


class Trace(NamedTuple):
    """What a path went through."""

    functions: int
    files: int
    store_calls: int


class Tracer:
    """Counts functions of the project while it is installed as the profiler of a thread."""

    def __init__(self, part: str = "") -> None:
        self._part = part
        self._frames: dict[int, FrameType] = {}
        self._codes: set[Any] = set()
        self._files: set[str] = set()
        self._store_calls = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Hear of a call; a coroutine that goes on has been heard of."""
        name = frame.f_code.co_filename
        if event != "call" or id(frame) in self._frames or not name.startswith(ROOT):
            return
        self._frames[id(frame)] = frame
        own = name.removeprefix(ROOT)
        if own.startswith("store/") and _is_from_outside(frame) and _is_of_a_store(frame):
            self._store_calls += 1
        if own.startswith(self._part):
            self._codes.add(frame.f_code)
            self._files.add(own)

    def trace(self) -> Trace:
        """What was heard."""
        return Trace(len(self._codes), len(self._files), self._store_calls)


def _is_from_outside(frame: FrameType) -> bool:
    back = frame.f_back
    return back is None or not back.f_code.co_filename.startswith(ROOT + "store/")


def _is_of_a_store(frame: FrameType) -> bool:
    """Whether it is a public method of the SQLite store; what wakes other processes does not count."""
    own, code = frame.f_code.co_filename.removeprefix(ROOT), frame.f_code
    return (
        own.startswith("store/sqlite")
        and not code.co_name.startswith(("_", "<"))
        and code.co_name not in PASSED
    )


async def traced(act: Act, prepare: Prepare, part: str) -> Trace:
    """What an act goes through when it is warm."""
    for number in range(WARM):
        await act(await prepare(number))
    prepared = await prepare(WARM)
    tracer = Tracer(part)
    sys.setprofile(tracer)
    try:
        await act(prepared)
    finally:
        sys.setprofile(None)
    return tracer.trace()


async def timed(act: Act, prepare: Prepare) -> float:
    """The median of milliseconds."""
    taken = []
    for number in range(WARM + 1, WARM + 1 + REPEATS):
        prepared = await prepare(number)
        begun = time.perf_counter()
        await act(prepared)
        taken.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(taken)


class Client:
    """Calls an ASGI application in this process."""

    def __init__(self, app: Any, key: str) -> None:
        self._app, self._key = app, key

    async def post(self, path: str, body: object, request_key: str | None = None) -> Any:
        """The answer to a POST; raises RuntimeError when it is refused."""
        content = json.dumps(body).encode()
        headers = [
            (b"host", b"127.0.0.1"),
            (b"authorization", b"Bearer " + self._key.encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
        ]
        if request_key is not None:
            headers.append((b"idempotency-key", request_key.encode()))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }
        answered: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            answered.append(message)

        await self._app(scope, receive, send)
        status = answered[0]["status"]
        text = b"".join(message.get("body", b"") for message in answered[1:])
        if status >= 400:  # noqa: PLR2004 - HTTP's own number
            raise RuntimeError(f"{path}: {status} {text.decode()}")
        return json.loads(text)


class Webhooks:
    """A receiver of webhooks on loopback that takes all it is given."""

    def __init__(self) -> None:
        self.count = 0
        self.came = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each request on a connection."""
        while head := await _head(reader):
            length = int(
                dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])[b"content-length"]
            )
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            self.count += 1
            self.came.set()
        writer.close()

    async def next(self, count: int) -> None:
        """Wait until so many have come."""
        while self.count < count:
            self.came.clear()
            await self.came.wait()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def over_http(folder: Path) -> None:
    """The paths of calls over HTTP."""
    async with (
        Node(f"sqlite:///{folder}/http.db", [Counter, Review]) as node,
        Access(node.engine.store, rate=Rate(1_000_000, 1_000_000)) as access,
    ):
        key = await access.keyring.make("default", BOSS, ["admin"])
        client = Client(application(node, access), key.text)
        await client.post("/v1/instances", {"chart": "Counter", "id": "counter"})

        async def review(number: int) -> str:
            own = f"review-{number}-{time.perf_counter_ns()}"
            await client.post("/v1/instances", {"chart": "Review", "id": own})
            [ask] = (await node.engine.get("default", own)).asks.values()
            return ask.id

        async def flip(number: int) -> None:
            await client.post("/v1/instances/counter/events", {"event": "flip"}, f"flip {number}")

        async def answer(ask: str, request_key: str | None = None) -> None:
            await client.post(f"/v1/asks/{ask}/answer", {"answer": "approve"}, request_key)

        await show("POST event, with key", flip, number)
        await show("POST answer to an ask, without key", answer, review)
        await show("POST answer to an ask, with key", lambda ask: answer(ask, f"answer {ask}"), review)


async def in_the_background(folder: Path) -> None:
    """The paths of work and of webhooks."""
    received, handlers = Webhooks(), Handlers()

    @handlers
    async def run(_work: Work) -> None:
        """Do nothing."""

    receiver = await asyncio.start_server(received, "127.0.0.1", 0)
    port = receiver.sockets[0].getsockname()[1]
    endpoint = Endpoint("receiver", f"http://127.0.0.1:{port}/", SECRET, tenant="default", allow_private=True)
    async with (
        receiver,
        Node(f"sqlite:///{folder}/work.db", [Errand], handlers=handlers, destinations=[endpoint]) as node,
    ):
        tenant = node.tenant()

        async def errand(number: int) -> str:
            own = f"errand-{number}-{time.perf_counter_ns()}"
            await tenant.create(Errand, own)
            return own

        async def work(own: str) -> None:
            begun = received.count
            await tenant.send(own, Errand.begin())
            await tenant.until(own)
            await received.next(begun + 1)

        await show("a work item and its webhook: worker", work, errand, "worker/")
        await show("a work item and its webhook: outbox", work, errand, "outbox/")


async def number(count: int) -> int:
    """Nothing to prepare."""
    return count


async def show(name: str, act: Act, prepare: Prepare, part: str = "") -> None:
    """Print a row."""
    trace, milliseconds = await traced(act, prepare, part), await timed(act, prepare)
    print(f"| {name} | {trace.functions} | {trace.files} | {trace.store_calls} | {milliseconds:.1f} |")  # noqa: T201


async def main() -> None:
    """Print the table."""
    print("| path | functions | files | store calls | ms |\n|---|---|---|---|---|")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        await over_http(Path(folder))
        await in_the_background(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
