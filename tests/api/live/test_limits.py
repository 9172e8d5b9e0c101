"""Nobody can hold so many streams, or WebSockets without a hello, that others are not served."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.api.handshake import Handshakes
from headway.api.limits import Limits, LiveLimits
from headway.api.metrics import expose
from headway.api.problems import Problem
from headway.telemetry.metrics import Metrics
from tests.api.live.place import KINDS, Place, heard, placed, reading
from tests.api.live.test_letting_in import ending

pytestmark = pytest.mark.mission("ENG-14", "ENG-15")

FEW = Limits(connections=24, key_streams=2, tenant_streams=3, streams=4, handshakes=4, address_handshakes=3)


@asynccontextmanager
async def limited(folder: Path, limits: Limits = FEW, **live: float) -> AsyncIterator[Place]:
    """A service with limits of its own."""
    own = LiveLimits(**live) if live else None  # type: ignore[arg-type]  # times alone
    async with placed(f"sqlite:///{folder}/headway.db", limits=own, connections=limits) as place:
        yield place


async def refusal(place: Place, kind: str, token: str) -> tuple[int, dict[str, Any]]:
    """The status and the problem that a reader gets who is not let in."""
    if kind == "socket":
        async with place.raw_socket() as connection:
            await connection.send(json.dumps({"type": "hello", "token": token}))
            told, code, _ = await ending(connection)
            return code - 4_000, told["problem"]
    async with httpx.AsyncClient(base_url=place.url, headers=bearer(token), timeout=30) as client:
        answer = await client.get("/v1/events")
        assert answer.headers["retry-after"] == "5"
        return answer.status_code, answer.json()


def bearer(token: str) -> dict[str, str]:
    """The header of a credential."""
    return {"Authorization": f"Bearer {token}"}


@KINDS
async def test_one_key_cannot_take_the_streams_of_others(tmp_path: Path, kind: str) -> None:
    """A key that floods is refused at its limit; other keys, other tenants and ordinary calls are served."""
    async with limited(tmp_path) as place, AsyncExitStack() as streams:
        token, second = await place.key(), await place.key("acme", "read")
        for _ in range(2):
            await streams.enter_async_context(reading(place, kind))
        for _ in range(20):
            status, problem = await refusal(place, kind, token)
            assert (status, problem["code"], problem["limit"]) == (429, "too_many_streams", "key")
            assert "2 streams" in problem["detail"]
        await streams.enter_async_context(place.socket(token=second))
        status, problem = await refusal(place, kind, second)
        assert (status, problem["limit"]) == (429, "tenant")
        await streams.enter_async_context(place.socket(tenant="other"))
        status, problem = await refusal(place, kind, await place.key("third"))
        assert (status, problem["limit"]) == (429, "all")
        async with httpx.AsyncClient(base_url=place.url, headers=bearer(token)) as client:
            assert (await client.get("/v1/charts")).status_code == 200
        assert place.app.state.streams.refused == {"key": 20, "tenant": 1, "all": 1}


async def test_a_claim_that_waits_counts_as_a_stream(tmp_path: Path) -> None:
    """Long polls of one key are limited; a claim that does not wait is an ordinary call."""
    async with limited(tmp_path) as place:
        headers = bearer(await place.key("acme", "work"))
        body = {"worker": "w", "handlers": ["h"], "wait": 30}
        async with httpx.AsyncClient(base_url=place.url, headers=headers, timeout=60) as client:
            waiting = [asyncio.create_task(client.post("/v1/work/claim", json=body)) for _ in range(2)]
            while len(place.app.state.streams) < 2:  # noqa: ASYNC110 - nobody tells when they are there
                await asyncio.sleep(0.001)
            refused = await client.post("/v1/work/claim", json=body)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert (await client.post("/v1/work/claim", json={**body, "wait": 0})).status_code == 200
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        await freed(place)


async def test_repeats_that_wait_count_as_streams(tmp_path: Path) -> None:
    """With one Idempotency-Key nobody can hold more connections than without."""
    async with limited(tmp_path) as place:
        headers = bearer(await place.key("acme", "work")) | {"Idempotency-Key": "k"}
        body = {"worker": "w", "handlers": ["h"], "wait": 30}
        async with httpx.AsyncClient(base_url=place.url, headers=headers, timeout=10) as client:
            waiting = [asyncio.create_task(client.post("/v1/work/claim", json=body)) for _ in range(2)]
            async with asyncio.timeout(10):
                while len(place.app.state.streams) < 2:  # noqa: ASYNC110 - nobody tells when they are there
                    await asyncio.sleep(0.001)
            refused = await client.post("/v1/work/claim", json=body)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        await freed(place)


@KINDS
async def test_a_stream_that_ends_makes_room(tmp_path: Path, kind: str) -> None:
    """However often a reader comes and goes, it is counted while it is there and no longer."""
    async with limited(tmp_path) as place:
        for _ in range(5):
            async with reading(place, kind), reading(place, kind):
                assert len(place.app.state.streams) == 2
            await freed(place)


async def test_the_streams_of_a_process_that_is_killed_make_room(tmp_path: Path) -> None:
    """Readers that die without a word are counted no more."""
    async with limited(tmp_path) as place:
        reader = await asyncio.create_subprocess_exec(
            sys.executable, "-c", READER, place.url, await place.key(), stdout=asyncio.subprocess.PIPE
        )
        assert reader.stdout is not None
        assert await reader.stdout.readline() == b"2\n"
        assert len(place.app.state.streams) == 2
        os.kill(reader.pid, signal.SIGKILL)
        await reader.wait()
        await freed(place)
        async with place.socket():
            pass


READER = """
import sys, urllib.request
url, key = sys.argv[1:]
streams = [
    urllib.request.urlopen(
        urllib.request.Request(url + "/v1/events", headers={"Authorization": "Bearer " + key})
    ) for _ in range(2)
]
print(len(streams), flush=True)
sys.stdin.read()
"""


async def test_silent_websockets_do_not_keep_others_out(tmp_path: Path) -> None:
    """Far more WebSockets without a hello than there is room for: who sends one is let in."""
    async with limited(tmp_path) as place, AsyncExitStack() as silent:
        for _ in range(40):
            await silent.enter_async_context(place.raw_socket())
        async with (
            place.socket(),
            httpx.AsyncClient(base_url=place.url, headers=bearer(await place.key())) as client,
        ):
            assert (await client.get("/v1/charts")).status_code == 200
        assert len(place.app.state.handshakes) <= 3
        assert place.app.state.handshakes.refused["address"] >= 37


async def test_who_makes_room_is_told_why(tmp_path: Path) -> None:
    """The WebSocket that has waited longest is closed with a problem that names the limit."""
    async with limited(tmp_path) as place, AsyncExitStack() as silent:
        oldest, *_ = [await silent.enter_async_context(place.raw_socket()) for _ in range(4)]
        told, code, reason = await ending(oldest)
        assert (code, reason["code"]) == (4_429, "too_many_handshakes")
        assert told["problem"]["limit"] == "address"


async def test_a_websocket_that_stays_silent_is_closed_in_time(tmp_path: Path) -> None:
    """A hello that does not come in time is not waited for, and its place is free."""
    async with limited(tmp_path, hello=0.05) as place, place.raw_socket() as connection:
        _, code, reason = await ending(connection)
        assert (code, reason["code"]) == (4_408, "silent")
        assert len(place.app.state.handshakes) == 0


async def test_one_whose_time_is_over_makes_room_by_itself() -> None:
    """A WebSocket that comes in the moment in which the oldest one is closed as silent is let in."""
    handshakes, second = Handshakes(Limits(connections=24, address_handshakes=1)), asyncio.Event()

    async def wait(seconds: float) -> None:
        async with handshakes.waiting("a", seconds):
            tasks.append(asyncio.create_task(come()))
            await asyncio.Event().wait()

    async def come() -> None:
        async with handshakes.waiting("a", 60):
            second.set()

    tasks: list[asyncio.Task[None]] = []
    with pytest.raises(Problem) as raised:
        await wait(0)
    await asyncio.gather(*tasks)
    assert (raised.value.code, second.is_set()) == ("silent", True)


async def test_a_websocket_without_a_hello_makes_room_for_a_connection(tmp_path: Path) -> None:
    """WebSockets count among all connections: beyond the limit the one that is silent longest is closed."""
    limits = Limits(connections=6, handshakes=100, address_handshakes=100)
    async with limited(tmp_path, limits, hello=600) as place:
        silent = []
        for _ in range(12):
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(UPGRADE)
            assert b"101" in await reader.readline()
            silent.append((reader, writer))
        async with httpx.AsyncClient(base_url=place.url, headers=bearer(await place.key())) as client:
            assert (await client.get("/v1/charts")).status_code == 200
        with suppress(ConnectionError):
            await silent[0][0].read()
        assert len(place.app.state.handshakes) <= 6
        for _, writer in silent:
            writer.close()


UPGRADE = (
    b"GET /v1/live HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def test_metrics_tell_what_was_refused(tmp_path: Path) -> None:
    """Open and refused streams, and handshakes that made room, are metrics of the process."""
    async with limited(tmp_path) as place, AsyncExitStack() as streams:
        metrics = Metrics(place.node)
        expose(place.front, metrics, "token")
        for _ in range(2):
            await streams.enter_async_context(place.socket())
        await refusal(place, "socket", await place.key())
        text = (await metrics.text()).decode()
        assert 'headway_streams_open{of="all"} 2.0' in text
        assert 'headway_streams_refused_total{limit="key"} 1.0' in text


async def test_a_websocket_is_a_connection_like_others(tmp_path: Path) -> None:
    """WebSockets that are established are counted, and are not closed to make room for new connections."""
    limits = Limits(connections=4, streams=3, tenant_streams=3, key_streams=3)
    async with limited(tmp_path, limits) as place, AsyncExitStack() as streams:
        sockets = [await streams.enter_async_context(place.socket()) for _ in range(3)]
        key = await place.key("acme", "send")
        for _ in range(10):  # each stays open until the next one takes its place
            client = httpx.AsyncClient(base_url=place.url, headers=bearer(key))
            await streams.enter_async_context(client)
            body = {"chart": "Visit", "context": {"user": "ann"}}
            assert (await client.post("/v1/instances", json=body)).status_code == 201
        for each in sockets:
            assert [(await heard(each))["type"] for _ in range(10)] == ["transition"] * 10


async def freed(place: Place) -> None:
    """Wait until no stream is counted any more."""
    while len(place.app.state.streams):  # noqa: ASYNC110 - nobody tells when they are gone
        await asyncio.sleep(0.001)
