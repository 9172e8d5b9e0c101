"""Webhooks: signed, to checked addresses only, and never held up by what a receiver does."""

import asyncio
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Reference
from standardwebhooks.webhooks import WebhookVerificationError

from headway.engine.engine import Engine
from headway.errors import BusyError, DeliveryError, PermanentError
from headway.outbox.endpoint import Endpoint, new_secret, signing_key
from headway.outbox.letters import Letters
from headway.outbox.message import Message
from headway.outbox.relay import Relay
from headway.outbox.webhook import Webhook
from headway.store.port import Store
from headway.testing import FakeClock
from tests.outbox.world import ACME, QUICK, Receiver, http, memory_store, never, publish, reset, until_idle

pytestmark = pytest.mark.mission("ENG-5")

SECRET, OLD_SECRET = new_secret(), new_secret()
PUBLIC = "93.184.216.34"


def message(name: str = "expense.paid", **changes: Any) -> Message:
    """A message."""
    given = {"id": "msg_1", "tenant": ACME, "instance": "exp-1", "kind": "webhook", "name": name}
    return Message(**{**given, "at": FakeClock().now(), "text": '{"amount":12.5,"who":"Zoë"}', **changes})


def endpoint(receiver: Receiver, **changes: Any) -> Endpoint:
    """An endpoint that points to a receiver on loopback."""
    given = {"url": f"http://127.0.0.1:{receiver.port}/hooks?a=1", "secret": SECRET, "allow_private": True}
    return Endpoint("main", **{**given, "tenant": ACME, **changes})


def answers(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver that always finds these addresses."""

    async def look_up(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return look_up


async def delivered(webhook: Webhook, *messages: Message) -> None:
    """Deliver, and close the connections."""
    try:
        for each in messages or (message(),):
            await webhook.deliver(each)
    finally:
        await webhook.close()


def refused(receiver: Receiver, clock: FakeClock | None = None, **changes: Any) -> DeliveryError:
    """The error of a delivery to a receiver that does not take it."""

    async def played() -> None:
        async with receiver:
            webhook = Webhook(endpoint(receiver, **changes), monotonic=lambda: 0.0)
            if clock is not None:
                webhook.keep_time(clock.now())
            await delivered(webhook)

    with pytest.raises(DeliveryError) as caught:
        asyncio.run(played())
    return caught.value


def test_the_reference_library_accepts_what_we_send() -> None:
    """Signature, id and time are those of Standard Webhooks, and the body says what happened."""

    async def played() -> None:
        async with Receiver() as receiver:
            await delivered(Webhook(endpoint(receiver, headers={"X-Team": "Travel"})))
        (request,) = receiver.requests
        assert (request.method, request.target) == ("POST", "/hooks?a=1")
        assert request.headers["content-type"] == "application/json"
        assert (request.headers["x-team"], request.headers["host"]) == (
            "Travel",
            f"127.0.0.1:{receiver.port}",
        )
        assert request.headers["webhook-id"] == "msg_1"
        assert Reference(SECRET).verify(request.body, request.headers) == {
            "type": "expense.paid",
            "timestamp": "2026-01-01T09:00:00Z",
            "data": {"amount": 12.5, "who": "Zoë"},
            "instance": "exp-1",
            "tenant": "acme",
        }
        with pytest.raises(WebhookVerificationError):
            Reference(SECRET).verify(request.body.replace(b"12.5", b"99.5"), request.headers)
        with pytest.raises(WebhookVerificationError):
            Reference(new_secret()).verify(request.body, request.headers)

    asyncio.run(played())


def test_with_two_secrets_a_receiver_can_change_from_one_to_the_other() -> None:
    """Each secret has its signature in the same header."""

    async def played() -> None:
        async with Receiver() as receiver:
            await delivered(Webhook(endpoint(receiver, secret=(SECRET, OLD_SECRET))))
        (request,) = receiver.requests
        for secret in (SECRET, OLD_SECRET):
            assert Reference(secret).verify(request.body, request.headers)
        assert len(request.headers["webhook-signature"].split(" ")) == 2

    asyncio.run(played())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(500, body=b"it broke\r\n\x00"), "127.0.0.1 answered 500: it broke"),
        (http(404), "127.0.0.1 answered 404"),
        (http(302, "location: http://127.0.0.1:1/other"), "127.0.0.1 answered 302"),
        (http(307, "location: /hooks"), "127.0.0.1 answered 307"),
        (b"what?\r\n\r\n", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\n" + b"x-long: " + b"a" * 1_000_000 + b"\r\n\r\n", "RemoteProtocolError"),
        (reset, "127.0.0.1: "),
    ],
    ids=["500", "404", "redirect", "307", "garbage", "bad-header", "endless-header", "reset"],
)
def test_whatever_is_no_yes_is_a_failure_that_may_pass(answer: Any, said: str) -> None:
    """Errors, redirects, garbage and broken connections; a redirect is not followed."""
    receiver = Receiver(answer)
    error = refused(receiver)
    assert said in str(error)
    assert type(error) is DeliveryError
    assert len(receiver.requests) == 1


def test_gone_is_for_good() -> None:
    """410 says that the receiver does not want this any more."""
    assert isinstance(refused(Receiver(http(410))), PermanentError)


@pytest.mark.parametrize(
    ("status", "header", "after"),
    [
        (429, "retry-after: 120", 120),
        (503, "retry-after: 7", 7),
        (503, "retry-after: soon", 0),
        (429, "x-else: 1", 0),
        (429, "retry-after: -5", 0),
        (429, "retry-after: 99999999999999999999", 0),
        (503, "retry-after: Wed, 21 Oct 2015 07:28:00 GMT", 0),
    ],
)
def test_who_is_busy_says_for_how_long(status: int, header: str, after: float) -> None:
    """Retry-After counts in seconds; what is none is ignored."""
    error = refused(Receiver(http(status, header)))
    assert isinstance(error, BusyError)
    assert error.after == after


def test_who_is_busy_may_say_until_when(clock: FakeClock) -> None:
    """Retry-After may be a date."""
    date = format_datetime(clock.now() + timedelta(seconds=100), usegmt=True)
    error = refused(Receiver(http(503, f"retry-after: {date}")), clock)
    assert error.after == 100


def test_a_receiver_that_never_answers_does_not_hold_us() -> None:
    """The whole request has a limit by the wall clock."""
    error = refused(Receiver(never), timeout="100ms")
    assert str(error) == "127.0.0.1 has not answered within 0.1 s"


async def drip(writer: asyncio.StreamWriter) -> None:
    """One byte of a header after the other, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    while not writer.is_closing():
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_body(writer: asyncio.StreamWriter) -> None:
    """An answer at once, and a body that has no end."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
    await drip(writer)


def test_a_receiver_that_drips_does_not_hold_us() -> None:
    """Bytes that keep coming do not start the time anew."""
    assert "has not answered" in str(refused(Receiver(drip), timeout="100ms"))


def test_an_answer_counts_when_its_head_is_there() -> None:
    """A yes is a yes, however long the rest of it takes."""

    async def played() -> None:
        async with Receiver(drip_body) as receiver, asyncio.timeout(60):
            await delivered(Webhook(endpoint(receiver)))
        assert len(receiver.requests) == 1

    asyncio.run(played())


def test_little_of_an_answer_is_read() -> None:
    """A gigabyte of error message costs a few kilobytes, and what the network holds meanwhile."""
    sent: list[int] = []

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 1000000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"a" * 65_536)
            await writer.drain()
            sent.append(65_536)

    assert str(refused(Receiver(flood))) == "127.0.0.1 answered 500: " + "a" * 200
    assert sum(sent) < 20_000_000


def test_connections_are_kept_and_cookies_are_not() -> None:
    """Messages to one endpoint share a connection; what a receiver sets does not come back."""

    async def played() -> None:
        async with Receiver(http(200, "set-cookie: a=b; path=/", body=b"thanks")) as receiver:
            await delivered(Webhook(endpoint(receiver)), message(), message())
        assert (receiver.connections, len(receiver.requests)) == (1, 2)
        assert "cookie" not in receiver.requests[1].headers

    asyncio.run(played())


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would look names up by itself, past our check."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async def played() -> None:
        async with Receiver() as receiver:
            await delivered(Webhook(endpoint(receiver)))
        assert len(receiver.requests) == 1

    asyncio.run(played())


@pytest.mark.parametrize(
    "found",
    [("127.0.0.1",), (PUBLIC, "127.0.0.1"), ("::1",), ("::ffff:127.0.0.1",), ("169.254.169.254",), ("what",)],
    ids=str,
)
def test_a_name_with_a_private_address_is_refused(found: tuple[str, ...]) -> None:
    """One private address among several is enough; nothing is sent anywhere."""

    async def played() -> None:
        async with Receiver() as receiver:
            hidden = endpoint(receiver, url=f"http://hooks.example:{receiver.port}/", allow_private=False)
            with pytest.raises(DeliveryError, match="private address"):
                await delivered(Webhook(hidden, look_up=answers(*found)))
        assert receiver.connections == 0

    asyncio.run(played())


@pytest.mark.parametrize("spelled", ["2130706433", "0x7f000001", "127.1", "localhost"])
def test_spellings_of_loopback_are_seen_through(spelled: str) -> None:
    """What the system's resolver makes of a name is what is checked."""

    async def played() -> None:
        async with Receiver() as receiver:
            hidden = endpoint(receiver, url=f"http://{spelled}:{receiver.port}/", allow_private=False)
            with pytest.raises(DeliveryError):
                await delivered(Webhook(hidden))
        assert receiver.connections == 0

    asyncio.run(played())


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that changes its meaning from one look to the next (DNS rebinding) gains nothing."""
    looks: list[str] = []

    async def rebinding(host: str, _port: int) -> Sequence[str]:
        looks.append(host)
        return ["127.0.0.1"] if len(looks) == 1 else ["127.0.0.2"]

    async def played() -> None:
        async with Receiver() as checked, Receiver(host="127.0.0.2").at(checked.port) as other:
            url = f"http://hooks.example:{checked.port}/"
            await delivered(Webhook(endpoint(checked, url=url), look_up=rebinding))
        assert looks == ["hooks.example"]
        assert (len(checked.requests), other.connections) == (1, 0)
        assert checked.requests[0].headers["host"] == f"hooks.example:{checked.port}"

    asyncio.run(played())


def test_a_kept_connection_is_not_used_for_an_address_that_is_not_checked_anew() -> None:
    """Each delivery looks the name up: one that has become private is refused."""
    found = [["127.0.0.1"], []]

    async def changing(_host: str, _port: int) -> Sequence[str]:
        return found.pop(0)

    async def played() -> None:
        async with Receiver() as receiver:
            webhook = Webhook(
                endpoint(receiver, url=f"http://hooks.example:{receiver.port}/"), look_up=changing
            )
            with pytest.raises(DeliveryError, match="no address"):
                await delivered(webhook, message(), message())
        assert len(receiver.requests) == 1

    asyncio.run(played())


def test_if_one_address_is_down_the_next_one_is_tried() -> None:
    """A name with several addresses is reached at the first that listens."""

    async def played() -> None:
        async with Receiver() as receiver:
            named = endpoint(receiver, url=f"http://hooks.example:{receiver.port}/")
            await delivered(Webhook(named, look_up=answers("127.0.0.3", "127.0.0.1")))
        assert len(receiver.requests) == 1

    asyncio.run(played())


def test_nobody_listens_and_a_name_that_does_not_exist() -> None:
    """Both are failures that may pass."""

    async def missing(_host: str, _port: int) -> Sequence[str]:
        raise OSError("no such name")

    async def played() -> None:
        async with Receiver() as receiver:
            gone = endpoint(receiver)
        with pytest.raises(DeliveryError, match="ConnectError"):
            await delivered(Webhook(gone))
        with pytest.raises(DeliveryError, match="no such name"):
            await delivered(Webhook(gone, look_up=missing))

    asyncio.run(played())


async def test_names_that_hang_hold_up_no_other_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many endpoints wait for a name server, the name of another is found; each takes one thread."""
    ends, asked = threading.Event(), []
    look_up = socket.getaddrinfo

    def hanging(host: str, *given: Any, **named: Any) -> Any:
        asked.append(host)
        if host.startswith("slow"):
            ends.wait()
        return look_up("127.0.0.1", *given, **named)

    async with Receiver() as receiver:
        place = f"example.com:{receiver.port}"
        slow = [
            Webhook(endpoint(receiver, url=f"http://slow{n}.{place}/", timeout="50ms")) for n in range(40)
        ]
        quick = Webhook(endpoint(receiver, url=f"http://quick.{place}/"))
        monkeypatch.setattr(socket, "getaddrinfo", hanging)
        try:
            for _ in range(2):
                outcomes = await asyncio.gather(
                    *(each.deliver(message()) for each in slow), return_exceptions=True
                )
                assert all("has not answered within 0.05 s" in str(error) for error in outcomes)
            await quick.deliver(message())
            assert len(receiver.requests) == 1
            assert sorted(asked) == sorted(
                ["quick.example.com", *(f"slow{n}.example.com" for n in range(40))]
            )
        finally:
            ends.set()
        for each in (*slow, quick):
            await each.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for hooks.example with its key, made for this run."""
    folder = tmp_path_factory.mktemp("tls")
    path = folder / "both.pem"
    subject = ["-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", *kind, *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return path


@pytest.mark.parametrize(
    ("host", "trusted", "passes"),
    [("hooks.example", True, True), ("other.example", True, False), ("hooks.example", False, False)],
)
def test_the_certificate_must_be_that_of_the_name(
    certificate: Path, host: str, *, trusted: bool, passes: bool
) -> None:
    """Over TLS the name is checked although the connection goes to an address."""

    async def played() -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
        client = ssl.create_default_context(cafile=certificate) if trusted else None
        async with Receiver(tls=tls) as receiver:
            named = endpoint(receiver, url=f"https://{host}:{receiver.port}/")
            webhook = Webhook(named, look_up=answers("127.0.0.1"), tls=client)
            if passes:
                await delivered(webhook)
            else:
                with pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED"):
                    await delivered(webhook)
        assert len(receiver.requests) == passes

    asyncio.run(played())


def test_a_relay_sends_webhooks_in_order_with_the_same_id_until_they_arrive() -> None:
    """A failing receiver gets the message again later, unchanged but for time and signature."""

    async def played() -> None:
        clock = FakeClock()
        async with memory_store(clock) as store, Receiver(http(500), http(200), http(410)) as receiver:
            webhook = Webhook(endpoint(receiver, events="expense.*", backoff=QUICK))
            relay = Relay(Engine(store), webhook)
            await publish(store, "exp-1", "expense.before", kind="webhook")
            await until_idle(relay)
            await publish(
                store, "exp-1", "expense.one", "expense.two", "travel", kind="webhook", data={"n": 1}
            )
            await publish(store, "exp-1", "expense.theirs", kind="webhook", tenant="other")
            await until_idle(relay)
            assert [json.loads(request.body)["type"] for request in receiver.requests] == ["expense.one"]
            clock.advance("10s")
            await until_idle(relay)
            first, second, third = receiver.requests
            assert first.body == second.body
            assert first.headers["webhook-id"] == second.headers["webhook-id"] != third.headers["webhook-id"]
            assert json.loads(third.body)["type"] == "expense.two"
            (letter,) = await Letters(store).list(ACME)
            assert letter.error == "127.0.0.1 answered 410"
            assert await Letters(store).redrive(ACME, destination=webhook.name) == 1
            await until_idle(relay)
            assert receiver.requests[3].headers["webhook-id"] == third.headers["webhook-id"]
            await relay.stop()
        assert relay.tally["delivered"] == 2

    asyncio.run(played())


async def test_a_webhook_tells_the_time_of_the_store(store: Store, clock: FakeClock) -> None:
    """The timestamp is the database's, on which all nodes agree, and not that of a machine."""
    async with Receiver(http(200), http(200)) as receiver:
        relay = Relay(Engine(store), Webhook(endpoint(receiver)))
        await until_idle(relay)
        for _ in range(2):
            await publish(store, "exp-1", "expense.one", kind="webhook")
            await until_idle(relay)
            sent = int(receiver.requests[-1].headers["webhook-timestamp"])
            assert 0 <= sent - int(clock.now().timestamp()) < 60
            clock.advance("30d")
        await relay.stop()


def test_no_secret_is_in_errors_letters_or_representations() -> None:
    """Neither the secret nor headers nor the path, which may be one, is shown anywhere."""

    async def played() -> str:
        clock = FakeClock()
        async with memory_store(clock) as store, Receiver(http(500)) as receiver:
            url = f"http://127.0.0.1:{receiver.port}/token-in-path?key=token-in-query"
            hook = Webhook(endpoint(receiver, url=url, headers={"authorization": "token-in-header"}))
            relay = Relay(Engine(store), hook)
            await relay.turn()
            await publish(store, "exp-1", "expense.one", kind="webhook")
            await relay.turn()
            (letter,) = await Letters(store).list(ACME, dead=False)
            await relay.stop()
        return f"{hook.endpoint!r} {hook.endpoint} {letter!r}"

    shown = asyncio.run(played())
    assert "answered 500" in shown
    key = repr(signing_key(SECRET))[2:-1]
    assert not any(secret in shown for secret in ("token-in", SECRET, SECRET[6:], key))
