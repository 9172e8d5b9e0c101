"""One commit to a thousand WebSockets, beside a bare uvicorn broadcast of the same bytes.

Each server runs in a process of its own and does one broadcast for each line on its standard input. The
readers are here: sockets that only count what arrives, so that the servers are what is measured.
"""

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from bench.harness import Entrant, Ratio, WrongResult
from headway import Actor, State, Statechart
from headway.api.access import Access
from headway.api.app import application
from headway.api.server import serving
from headway.node import Node
from headway.statechart.snapshot import Event

READERS = 1_000
PATIENCE = 60.0
COMMITS = 50
CASE = f"one commit to {READERS:,} WebSockets"
HEADWAY, BARE = "headway", "uvicorn broadcast"
TARGET = 0.5
SHORT, LONG = 126, 127
PING, PONG = 0x89, 0x8A
IS_EVENT = b'"type":"transition"'
SAMPLE = {
    "id": "y9rgYOUncw44MZXqyT6cXahcVGTJ5pzAOP5ZvocfoZOLhfNtUQYH_eq8ttc",
    "type": "transition", "tenant": "default", "chart": "Counter", "version": 1,
    "instance": "one", "owner": None, "seq": 1_000, "row": 0, "event": "flip", "transition": "flip",
    "from": "on", "to": "off",
    "actor": "system", "at": "2026-01-01T00:00:00.000000Z", "reason": None, "attempt": 0, "data": None,
}  # fmt: skip


class Counter(Statechart):
    """Turns as long as one likes."""

    on = State(initial=True)
    off = State()
    flip = on.to(off) | off.to(on)


def entrants() -> Iterator[Entrant]:
    """Both servers, for the same readers."""
    for system in (HEADWAY, BARE):
        yield Entrant(CASE, system, partial(Fanout, system), READERS, "messages/s", COMMITS)


RATIOS = (Ratio("live_fanout_vs_uvicorn", (CASE, HEADWAY), (CASE, BARE), TARGET),)


class Fanout:
    """A server, and a crowd that reads from it."""

    def __init__(self, system: str, readers: int = READERS) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._server = subprocess.Popen(
            [sys.executable, "-c", "from bench.service.live import serve; serve()", system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._crowd = Crowd(readers)
        self._rounds = 0
        where = json.loads(self._line())
        self._runner.run(self._crowd.connect(where["port"], where["hello"]))

    def run(self, cycles: int) -> float:
        """So many commits, each when the one before it has reached everybody; how long that took."""
        return self._runner.run(self._run(cycles))

    def verify(self) -> None:
        """Everybody got everything, once."""
        counts = {reader.events for reader in self._crowd.readers}
        if counts != {self._rounds}:
            raise WrongResult(f"after {self._rounds} events readers have {sorted(counts)}")

    def close(self) -> None:
        """End the server."""
        self._runner.close()
        if self._server.stdin is not None:
            self._server.stdin.close()
        self._server.wait(PATIENCE)

    def __del__(self) -> None:
        self.close()

    async def _run(self, cycles: int) -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(cycles):
            self._rounds += 1
            everybody = self._crowd.expect(self._rounds)
            self._say_go()
            async with asyncio.timeout(PATIENCE):
                await everybody
        return loop.time() - begun

    def _say_go(self) -> None:
        assert self._server.stdin is not None  # noqa: S101 - it was opened so
        self._server.stdin.write(b"go\n")
        self._server.stdin.flush()

    def _line(self) -> bytes:
        assert self._server.stdout is not None  # noqa: S101 - it was opened so
        return self._server.stdout.readline()


class Crowd:
    """Many readers, and one future for all of them."""

    def __init__(self, count: int) -> None:
        self.readers = [Reader(self) for _ in range(count)]
        self._missing, self._number = 0, 0
        self._everybody: asyncio.Future[None] | None = None

    async def connect(self, port: int, hello: str) -> None:
        """Let everybody in, a few at a time, and wait until each was welcomed."""
        loop = asyncio.get_running_loop()
        for reader in self.readers:
            reader.hello, reader.welcomed = hello, loop.create_future()
            await loop.create_connection(partial(_itself, reader), "127.0.0.1", port)
            async with asyncio.timeout(PATIENCE):
                await reader.welcomed

    def close(self) -> None:
        """Let everybody go."""
        for reader in self.readers:
            reader.close()

    def expect(self, number: int) -> asyncio.Future[None]:
        """Done when everybody has so many events."""
        self._missing, self._number = len(self.readers), number
        self._everybody = asyncio.get_running_loop().create_future()
        return self._everybody

    def got(self, number: int) -> None:
        """A reader has so many events."""
        if number == self._number and self._everybody is not None:
            self._missing -= 1
            if not self._missing:
                self._everybody.set_result(None)


class Reader(asyncio.Protocol):
    """A WebSocket that counts frames and looks into none."""

    def __init__(self, crowd: Crowd) -> None:
        self.events = -1
        self.hello = ""
        self.welcomed: asyncio.Future[None] | None = None
        self._crowd = crowd
        self._buffer = b""
        self._is_open = False
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a WebSocket."""
        self._transport = transport
        key = b64encode(secrets.token_bytes(16)).decode()
        self._transport.write(
            f"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def close(self) -> None:
        """Go."""
        self._transport.abort()

    def _say_hello(self) -> None:
        """In a frame that is masked with zeros."""
        body = self.hello.encode()
        size = (
            bytes([0x80 | len(body)])
            if len(body) < SHORT
            else bytes([0x80 | SHORT]) + len(body).to_bytes(2, "big")
        )
        self._transport.write(b"\x81" + size + bytes(4) + body)

    def data_received(self, data: bytes) -> None:
        """Count the frames that are complete; the first one is the welcome."""
        buffer = self._buffer + data if self._buffer else data
        if not self._is_open:
            head, found, buffer = buffer.partition(b"\r\n\r\n")
            self._is_open = bool(found)
            if self._is_open:
                self._say_hello()
            else:
                buffer = head
        place = 0
        while self._is_open and (length := _frame(buffer, place)) and place + length <= len(buffer):
            self._take(buffer[place : place + length])
            place += length
        self._buffer = buffer[place:]

    def _take(self, frame: bytes) -> None:
        """Count a welcome and events, pass over heartbeats, and answer a ping as the protocol asks."""
        if frame[0] == PING:
            self._transport.write(bytes([PONG, 0x80 | len(frame) - 2]) + bytes(4) + frame[2:])
        elif self.events < 0 and self.welcomed is not None:
            self.events = 0
            self.welcomed.set_result(None)
        elif IS_EVENT in frame[:100]:
            self.events += 1
            self._crowd.got(self.events)


def _itself(reader: Reader) -> Reader:
    return reader


def _frame(buffer: bytes, place: int) -> int:
    """How long the frame is that begins here; 0 when that cannot be seen yet."""
    if len(buffer) < place + 10 and len(buffer) < place + 2:
        return 0
    length = buffer[place + 1]
    if length == SHORT:
        return 4 + int.from_bytes(buffer[place + 2 : place + 4], "big") if len(buffer) >= place + 4 else 0
    if length == LONG:
        return 10 + int.from_bytes(buffer[place + 2 : place + 10], "big") if len(buffer) >= place + 10 else 0
    return 2 + length


async def _each_line(act: Callable[[], Awaitable[object]]) -> None:
    """Act for each line on the standard input, until it ends."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        await act()


def _say(port: int, hello: object) -> None:
    print(json.dumps({"port": port, "hello": json.dumps(hello)}), flush=True)


async def _serve_headway() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'live.db'}"
        async with Node(database, [Counter]) as node, Access(node.engine.store) as access:
            key = await access.keyring.make("default", Actor("bench", "service"), ["read"])
            tenant = node.tenant()
            await tenant.create(Counter, "one")
            listening = socket.create_server(("127.0.0.1", 0), backlog=READERS)
            async with serving(application(node, access), listening):
                _say(listening.getsockname()[1], {"type": "hello", "token": key.text})
                await _each_line(lambda: tenant.send("one", Event("flip")))


async def _serve_bare() -> None:
    readers: list[Any] = []
    message = {"type": "websocket.send", "text": json.dumps(SAMPLE, separators=(",", ":"))}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send(message)
        readers.append(send)
        await receive()

    async def broadcast() -> None:
        for send in readers:
            await send(message)

    listening = socket.create_server(("127.0.0.1", 0), backlog=READERS)
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws_per_message_deflate=False)
    server = uvicorn.Server(config)
    serving_it = asyncio.create_task(server.serve(sockets=[listening]))
    _say(listening.getsockname()[1], {"type": "hello"})
    await _each_line(broadcast)
    server.should_exit = server.force_exit = True
    await serving_it


SERVERS = {HEADWAY: _serve_headway, BARE: _serve_bare}


def serve() -> None:
    """Be the server that is named on the command line."""
    uvloop.run(SERVERS[sys.argv[1]]())
    os._exit(0)
