"""Connections that say nothing, say it slowly, or never end: others are served all the same."""

import asyncio
import re
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api.limits import Limits
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-2")
RESERVED_FILES = 500
MANY = min(10_000, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - RESERVED_FILES) // 2)
QUICK = Limits(request_seconds=0.5)


@asynccontextmanager
async def limited(folder: Path, limits: Limits) -> AsyncIterator[Service]:
    """A service with limits of its own."""
    async with serving(f"sqlite:///{folder}/headway.db", limits=limits) as service:
        yield service


def silent(service: Service, count: int) -> Iterator[socket.socket]:
    """Connections that say nothing."""
    host, port = service.url.removeprefix("http://").split(":")
    for _ in range(count):
        connection = socket.socket()
        connection.settimeout(0)
        connection.connect_ex((host, int(port)))
        yield connection


async def ended(connection: socket.socket) -> bytes:
    """What a connection has got when it is closed by the other side."""
    got, loop = b"", asyncio.get_running_loop()
    with connection, suppress(ConnectionError):
        async with asyncio.timeout(60):
            while part := await loop.sock_recv(connection, 65_536):
                got += part
    return got


async def test_thousands_of_silent_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    """With far more silent connections than there is room for, each new caller is answered."""
    async with limited(tmp_path, Limits(connections=MANY // 2)) as service:
        connections = []
        for number, connection in enumerate(silent(service, MANY)):
            connections.append(connection)
            if number % 500 == 0:
                assert (
                    await service.client.get("/health", headers={"Connection": "close"})
                ).status_code == 200
        assert (await service.client.post("/v1/instances", json={"chart": "Counter"})).status_code == 201
        await ended(connections[0])
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /hea",
        b"GET /health HTTP/1.1\r\nHost: a\r\n",
        b"POST /v1/instances HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{",
    ],
)
async def test_a_request_that_does_not_come_to_an_end_is_cut_off(tmp_path: Path, said: bytes) -> None:
    """Nothing, half a line, half the headers or half a body: after its time the connection is closed."""
    async with limited(tmp_path, QUICK) as service:
        [connection] = silent(service, 1)
        await asyncio.get_running_loop().sock_connect(connection, connection.getpeername())
        await asyncio.get_running_loop().sock_sendall(connection, said)
        got = await ended(connection)
        assert got == b"" or got.startswith(b"HTTP/1.1 401")


async def test_an_idle_connection_makes_room_when_there_is_none(tmp_path: Path) -> None:
    """A connection that rests between requests goes before a new one is turned away."""
    async with limited(tmp_path, Limits(connections=2)) as service:
        for _ in range(6):
            assert (await service.client.get("/health")).status_code == 200
            async with service.as_("read") as another:
                assert (await another.get("/v1/charts")).status_code == 200


async def asked(connection: socket.socket) -> bytes:
    """The answer on a connection that stays open."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(60):
        return await loop.sock_recv(connection, 65_536)


async def test_the_connection_that_rests_longest_makes_room(tmp_path: Path) -> None:
    """A new connection is served and the one that has rested longest is closed, not one that came later."""
    async with limited(tmp_path, Limits(connections=2)) as service:
        connections = []
        for connection in silent(service, 3):
            connections.append(connection)
            assert (await asked(connection)).startswith(b"HTTP/1.1 200")
        assert await ended(connections[0]) == b""
        for connection in connections[1:]:
            assert (await asked(connection)).startswith(b"HTTP/1.1 200")
            connection.close()


async def test_headers_without_end_are_refused(tmp_path: Path) -> None:
    """More than 64 KB of headers is 431, and what is not HTTP is 400: both are problems, and both close."""
    async with limited(tmp_path, Limits()) as service:
        loop = asyncio.get_running_loop()
        for said, status in (
            (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, b"431"),
            (b"\x16\x03\x01\x02\r\n\r\n", b"400"),
        ):
            [connection] = silent(service, 1)
            await loop.sock_sendall(connection, said)
            answer = await ended(connection)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"application/problem+json" in answer


async def test_requests_that_come_together_are_answered_in_their_order(tmp_path: Path) -> None:
    """Three events and a look, sent at once on one connection, get four answers, each after the other."""
    async with limited(tmp_path, Limits()) as service:
        await service.client.post("/v1/instances", json={"chart": "Counter", "id": "c"})
        [connection] = silent(service, 1)
        head = f"Host: a\r\nAuthorization: {service.client.headers['authorization']}\r\n"
        body = '{"event":"flip"}'
        said = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        event = f"POST /v1/instances/c/events HTTP/1.1\r\n{head}{said}"
        look = f"GET /v1/instances/c HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
        await asyncio.get_running_loop().sock_sendall(connection, (event * 3 + look).encode())
        answer = await ended(connection)
        assert re.findall(rb'etag: "(\d)"', answer) == [b"2", b"3", b"4", b"4"]


async def test_a_connection_whose_next_request_is_under_way_does_not_make_room(tmp_path: Path) -> None:
    """Two requests came together and one is answered: a new connection does not end the other."""
    async with limited(tmp_path, Limits(connections=1)) as service:
        head = f"Host: a\r\nAuthorization: {service.client.headers['authorization']}\r\n"
        body = '{"worker":"w","handlers":["pay"],"wait":1}'
        said = f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        look = f"GET /v1/charts HTTP/1.1\r\n{head}\r\n"
        reader, writer = await asyncio.open_connection(*service.url.removeprefix("http://").split(":"))
        writer.write(f"{look}POST /v1/work/claim HTTP/1.1\r\n{head}{said}{body}".encode())
        assert b"200" in await reader.readline()
        [other] = silent(service, 1)
        assert await ended(other) == b""
        assert (await reader.read()).endswith(b'{"items":[]}')
        writer.close()


@pytest.mark.parametrize("seen", [True, False])
async def test_the_hot_routes_answer_the_same_whoever_serves_them(tmp_path: Path, *, seen: bool) -> None:
    """With and without somebody who sees every call, an event gets the same answers, errors too."""
    async with limited(tmp_path, Limits()) as service:
        if seen:
            service.app.wrap(Seeing)
        answers = [
            await service.client.post(path, content=body, headers={"Content-Type": kind, **more})
            for path, body, kind, more in [
                ("/v1/instances", b'{"chart": "Counter", "id": "c"}', "application/json", {}),
                ("/v1/instances", b'{"chart": "Counter", "id": "c"}', "application/json", {}),
                (
                    "/v1/instances/c/events",
                    b'{"event": "flip"}',
                    "application/json",
                    {"Idempotency-Key": "a"},
                ),
                (
                    "/v1/instances/c/events",
                    b'{"event": "flip"}',
                    "application/json",
                    {"Idempotency-Key": "a"},
                ),
                ("/v1/instances/c/events", b'{"event": "flip"}', "text/plain", {}),
                ("/v1/instances/c/events", b"{", "application/json", {}),
                ("/v1/instances/c/events", b'{"event": "flip"}', "application/json", {"If-Match": '"9"'}),
            ]
        ]
        assert [answer.status_code for answer in answers] == [201, 409, 200, 200, 415, 400, 412]
        assert answers[2].content == answers[3].content
        assert [answer.headers.get("etag") for answer in answers[:3]] == ['"1"', None, '"2"']


class Seeing:
    """Sees every call."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it through."""
        await self._app(scope, receive, send)


async def test_what_is_under_way_is_finished_before_the_service_stops(tmp_path: Path) -> None:
    """While callers send without a pause, the service stops: each event is answered or never taken."""
    database = f"sqlite:///{tmp_path}/headway.db"
    answered, enough = [0], asyncio.Event()
    lost: list[Exception] = []

    async def hammer(service: Service) -> None:
        async with service.as_("admin") as client:
            await client.post("/v1/instances", json={"chart": "Counter", "id": f"h{id(client)}"})
            try:
                while True:
                    answer = await client.post(f"/v1/instances/h{id(client)}/events", json={"event": "flip"})
                    answered[0] += answer.status_code == 200
                    if answered[0] == 200:
                        enough.set()
            except Exception as error:  # noqa: BLE001 - how it ends is what is looked at
                lost.append(error)

    async with serving(database, patience=60) as service:
        callers = [asyncio.create_task(hammer(service)) for _ in range(16)]
        await enough.wait()
    await asyncio.wait(callers)
    # A request that crosses the close of its idle connection is reset before anybody has read it.
    assert {type(error).__name__ for error in lost} <= {"ConnectError", "ReadError"}
    async with serving(database) as service:
        page = (await service.client.get("/v1/instances?limit=500")).json()
        assert sum(item["seq"] - 1 for item in page["items"]) == answered[0]
