"""Who may read live events, for how long, and what a reader gets that does not behave."""

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
import pytest
import websockets

from headway.api.limits import LiveLimits
from headway.errors import StoreError
from tests.api.live.place import READER, Place, Told, events, heard, line, placed, seqs
from tests.clocks import Ahead

pytestmark = pytest.mark.mission("ENG-14", "ENG-15")

QUICK = LiveLimits(heartbeat=0.1, look=0.05, most_waiting=10, most_waiting_bytes=100_000, patience=0.3)
LARGE = "x" * 200_000


async def ending(connection: Any) -> tuple[Told, int, Told]:
    """The last problem, the code and the reason that a WebSocket is closed with."""
    last: Told = {}
    with suppress(websockets.ConnectionClosed):
        while True:
            last = await heard(connection)
    return last, connection.close_code, json.loads(connection.close_reason)


@pytest.mark.parametrize(
    ("hello", "code", "status"),
    [
        ("", "invalid", 422),
        ("{", "invalid", 422),
        ("[]", "invalid", 422),
        ('{"type": "goodbye"}', "invalid", 422),
        ('{"type": "hello", "who": "me"}', "invalid", 422),
        ('{"type": "hello", "after": 7}', "invalid", 422),
        ('{"type": "hello", "chart": "' + "x" * 30_000 + '"}', "invalid", 422),
        (b'{"type": "hello"}', "invalid", 422),
        ('{"type": "hello"}', "unauthenticated", 401),
        ('{"type": "hello", "token": "hw_forged_0123456789"}', "unauthenticated", 401),
        ('{"type": "hello", "token": "KEY", "after": "x"}', "cursor", 422),
        ('{"type": "hello", "token": "KEY", "after": "1-2-3-4"}', "cursor", 422),
        ('{"type": "hello", "token": "KEY", "instance": "theirs"}', "unknown_instance", 404),
        ('{"type": "hello", "token": "KEY", "instance": "nobody\'s"}', "unknown_instance", 404),
        ('{"type": "hello", "token": "KEY", "parent": "theirs"}', "unknown_instance", 404),
        ('{"type": "hello", "token": "KEY", "chart": "Nothing"}', "unknown_chart", 404),
        ('{"type": "hello", "token": "WORKER"}', "forbidden", 403),
    ],
)
async def test_a_bad_hello_gets_a_problem_and_a_clean_close(
    place: Place, hello: str | bytes, code: str, status: int
) -> None:
    """It is told what is wrong; what another tenant has is as unknown as what nobody has."""
    await place.visit("theirs", tenant="other")
    if isinstance(hello, str):
        hello = hello.replace("KEY", await place.key()).replace("WORKER", await place.key("acme", "work"))
    async with place.raw_socket() as connection:
        await connection.send(hello)
        told, closed_with, reason = await ending(connection)
    assert told["type"] == "problem"
    assert told["problem"]["code"] == reason["code"] == code
    assert (told["problem"]["status"], closed_with) == (status, 4_000 + status)
    assert "theirs" not in json.dumps(told).replace("no instance theirs", "")


@pytest.mark.parametrize(
    ("query", "code", "status"),
    [
        ("?after=x", "cursor", 422),
        ("?instance=theirs", "unknown_instance", 404),
        ("?parent=theirs", "unknown_instance", 404),
        ("?chart=Nothing", "unknown_chart", 404),
        ("?what=ever", "invalid", 422),
    ],
)
async def test_a_bad_address_of_a_stream_gets_a_problem(
    place: Place, query: str, code: str, status: int
) -> None:
    """Before the stream begins."""
    await place.visit("theirs", tenant="other")
    headers = {"Authorization": f"Bearer {await place.key()}"}
    async with httpx.AsyncClient(base_url=place.url, headers=headers, timeout=30) as client:
        answer = await client.get(f"/v1/events{query}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_stream_needs_a_credential_that_may_read(place: Place) -> None:
    """None, and one for something else, are told apart."""
    other = {"Authorization": f"Bearer {await place.key('acme', 'send')}"}
    async with httpx.AsyncClient(base_url=place.url, timeout=30) as client:
        assert (await client.get("/v1/events")).status_code == 401
        assert (await client.get("/v1/events", headers=other)).status_code == 403


async def test_a_credential_may_come_in_the_header(place: Place) -> None:
    """For those who are no browser."""
    headers = {"Authorization": f"Bearer {await place.key()}"}
    async with place.raw_socket(additional_headers=headers) as connection:
        await connection.send('{"type": "hello"}')
        assert (await heard(connection))["type"] == "welcome"


@pytest.mark.parametrize(
    ("origin", "is_let_in"),
    [("http://evil.example", False), ("null", False), ("OWN", True), ("https://named.example", True)],
)
async def test_a_page_of_another_site_is_not_let_in(place: Place, origin: str, *, is_let_in: bool) -> None:
    """A browser lets any page connect; the service lets in its own, and those that are named."""
    place.app.state.origins = ("https://named.example",)
    own = origin.replace("OWN", place.url)
    async with place.raw_socket(origin=own) as connection:
        with suppress(websockets.ConnectionClosed):  # it may be over already
            await connection.send(json.dumps({"type": "hello", "token": await place.key()}))
        told = await heard(connection)
    assert told["type"] == ("welcome" if is_let_in else "problem")


async def test_who_says_nothing_is_closed(address: str) -> None:
    """A connection without a hello does not stay."""
    limits = LiveLimits(hello=0.1)
    async with placed(address, limits=limits) as place, place.raw_socket() as connection:
        told, code, _ = await ending(connection)
    assert (told["problem"]["code"], code) == ("silent", 4_408)


async def test_who_says_more_than_hello_is_closed(place: Place) -> None:
    """A reader reads."""
    async with place.socket() as connection:
        await connection.send('{"type": "hello"}')
        told, code, _ = await ending(connection)
    assert (told["problem"]["code"], code) == ("invalid", 4_422)


async def test_a_sign_of_life_moves_the_cursor(address: str) -> None:
    """Who comes back from it does not look again at what it did not want."""
    async with placed(address, limits=QUICK) as place:
        await place.visit("a")
        async with place.socket(instance="a") as connection, place.stream(instance="a") as stream:
            first = await anext(stream)
            await place.visit("b", 3)
            for source in (connection, stream):
                beat, cipher = {"id": first["last"]}, await place.app.state.ciphers.of("acme")
                while cipher.cursor(beat["id"]) == cipher.cursor(first["last"]):
                    told = await (heard(connection) if source is connection else anext(stream))
                    assert told["type"] == "heartbeat"
                    beat = {"id": told.get("id") or told["last"]}
                async with place.socket(instance="a", after=beat["id"]) as again:
                    await place.turn("a")
                    [found] = await events(again, 1)
                assert found["event"] == "turn"
                await events(connection, 1)
                await events(stream, 1)


@pytest.mark.parametrize("end", ["revoked", "expired"])
async def test_a_key_that_is_no_good_any_more_ends_its_connections(address: str, end: str) -> None:
    """Within seconds, with the reason; those of other keys go on."""
    clock = Ahead()
    async with placed(address, limits=QUICK, clock=clock) as place:
        made = await place.access.keyring.make("acme", READER, ("read",), lasts="1h")
        async with place.socket() as other, place.socket(token=made.text) as connection:
            if end == "revoked":
                await place.access.keyring.revoke("acme", made.key.id)
            else:
                clock.ahead += timedelta(hours=1)
            told, code, _ = await ending(connection)
            await place.visit("a")
            assert seqs(await events(other, 1)) == line("a", 1)
    assert (told["problem"]["code"], code) == ("unauthenticated", 4_401)


async def test_a_slow_socket_is_cut_off_and_can_go_on(address: str) -> None:
    """Nothing fills the memory; what it was sent and what it reads later is everything, once."""
    async with placed(address, limits=QUICK) as place:
        await place.visit("a")
        async with place.raw_socket(max_queue=1, max_size=None) as slow:
            await slow.send(json.dumps({"type": "hello", "token": await place.key(), "after": "0-0"}))
            assert (await heard(slow))["type"] == "welcome"
            await place.turn("a", 80, data=LARGE)
            await place.nobody_left()
            found: list[Told] = []
            told: Told = {"type": "transition"}
            while told["type"] in {"transition", "heartbeat"}:
                told = await heard(slow)
                found += [told] if told["type"] == "transition" else []
            _, code, reason = await ending(slow)
        assert (code, told["problem"]["code"], reason["code"]) == (4_429, "slow", "slow")
        assert 0 < len(found) < 81
        assert reason["after"] == told["problem"]["after"] == found[-1]["id"]
        async with place.socket(after=reason["after"]) as again:
            found += await events(again, 81 - len(found))
    assert seqs(found) == line("a", *range(1, 82))


async def test_a_slow_stream_is_cut_off_with_a_last_event(address: str) -> None:
    """It says why, and the id of the last event is where to go on."""
    async with placed(address, limits=QUICK) as place:
        await place.visit("a")
        async with place.stream(after="0-0") as slow:
            await place.turn("a", 80, data=LARGE)
            await place.nobody_left()
            found = [each async for each in slow]
        last = found.pop()
        assert (last["kind"], last["code"]) == ("problem", "slow")
        found = [each for each in found if each["type"] == "transition"]
        async with place.stream(last=last["last"]) as again:
            found += await events(again, 81 - len(found))
    assert seqs(found) == line("a", *range(1, 82))


async def test_a_service_that_stops_lets_its_readers_go(address: str) -> None:
    """Each hears that it should come back, and the service does not wait for them."""
    async with placed(address, limits=QUICK) as first:
        sockets = first.socket(), first.stream()
        connection, stream = [await each.__aenter__() for each in sockets]
        await first.visit("a")
        [seen], _ = await events(connection, 1), await events(stream, 1)
        listening = asyncio.gather(ending(connection), _last(stream))
        first.app.state.stopping.set()
        (told, code, _), last = await listening
        for each in sockets:
            await each.__aexit__(None, None, None)
    assert (told["problem"]["code"], code) == ("unavailable", 4_503)
    assert (last["code"], last["last"]) == ("unavailable", seen["id"])


async def _last(stream: Any) -> Told:
    told: list[Told] = [each async for each in stream]
    return told[-1]


async def test_two_credentials_are_refused(place: Place) -> None:
    """A hello with a token beside the header Authorization, or that header twice, is not believed."""
    key = await place.key()
    header = ("Authorization", f"Bearer {key}")
    for headers, hello in (
        ([header], {"type": "hello", "token": key}),
        ([header, header], {"type": "hello"}),
    ):
        async with asyncio.timeout(10), place.raw_socket(additional_headers=headers) as connection:
            with suppress(websockets.ConnectionClosed):  # a header that came twice is enough
                await connection.send(json.dumps(hello))
            last, code, _ = await ending(connection)
        assert (last["problem"]["code"], code) == ("doubled_header", 4_400)
    async with place.raw_socket(additional_headers=[header]) as connection:
        await connection.send('{"type": "hello"}')
        assert (await heard(connection))["type"] == "welcome"


@pytest.mark.parametrize("read", [1, 2], ids=["at the check", "at the second reading of the instance"])
async def test_who_comes_while_the_last_other_reader_leaves_gets_the_events(
    place: Place, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    """A feed is closed without readers: whoever is still being let in does not depend on one that goes."""
    await place.visit("a")
    credential = f"Bearer {await place.key()}"
    first = await place.hub.enter(credential, instance="a")
    of_instance, left = place.node.engine.row, iter(range(1, 3))

    async def leaving(tenant: str, instance: str) -> Any:
        row = await of_instance(tenant, instance)
        if next(left) == read:
            place.hub.leave(first)
        return row

    with monkeypatch.context() as patch:
        patch.setattr(place.node.engine, "row", leaving)
        second = await place.hub.enter(credential, instance="a")
    given: asyncio.Queue[Any] = asyncio.Queue()
    running = asyncio.create_task(second.run(given.put))
    await place.turn("a")
    async with asyncio.timeout(10):
        frame = await given.get()
    assert json.loads(frame.body)["event"] == "turn"
    place.hub.leave(second)
    second.end()
    await running


@pytest.mark.parametrize("read", [1, 2], ids=["at the check", "at the second reading of the instance"])
async def test_who_cannot_be_let_in_takes_no_place(
    place: Place, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    """An error on the way in leaves neither a stream that is counted nor a feed behind."""
    await place.visit("a")
    of_instance, left = place.node.engine.row, iter(range(1, 3))

    async def failing(tenant: str, instance: str) -> Any:
        if next(left) == read:
            raise StoreError("the database is away")
        return await of_instance(tenant, instance)

    monkeypatch.setattr(place.node.engine, "row", failing)
    with pytest.raises(StoreError):
        await place.hub.enter(f"Bearer {await place.key()}", instance="a")
    assert (len(place.app.state.streams), place.hub.readers, place.hub._feeds) == (0, 0, {})
