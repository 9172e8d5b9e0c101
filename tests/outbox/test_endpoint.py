"""What an endpoint may be, which addresses are public, and which secrets are any good."""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest

from headway.errors import InputError
from headway.outbox.addresses import address_of, is_public
from headway.outbox.destination import Subscriber
from headway.outbox.endpoint import Endpoint, new_secret, signing_key
from headway.outbox.kafka import Kafka
from headway.outbox.redis import RedisChannel, RedisStream

pytestmark = pytest.mark.mission("ENG-5")


def whsec(length: int) -> str:
    """A secret of so many bytes."""
    return "whsec_" + b64encode(b"k" * length).decode()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/hooks", ("https", "example.com", 443, "/hooks", "example.com")),
        ("http://Example.com:8080", ("http", "example.com", 8080, "/", "example.com:8080")),
        ("https://example.com?a=b", ("https", "example.com", 443, "/?a=b", "example.com")),
        ("https://bücher.example/", ("https", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example")),
        (
            "https://[2606:2800:220:1::1]:8443/",
            ("https", "2606:2800:220:1::1", 8443, "/", "[2606:2800:220:1::1]:8443"),
        ),
    ],
)
def test_a_url_is_taken_apart_once(url: str, expected: tuple[object, ...]) -> None:
    """Scheme, host, port and target are known before anything is sent."""
    found = address_of(url)
    assert (found.scheme, found.host, found.port, found.target, found.authority) == expected


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "example.com/hooks",
        "//example.com/hooks",
        "",
        "https://",
        "https:///hooks",
        "https://user:password@example.com/",
        "https://user@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com/#fragment",
        "https://exa mple.com/",
        "https://exam\nple.com/",
        "\thttps://example.com/",
        "https://example.com/a\\b",
        "https://example.com/a b",
        "https://example.com/\r\nhost: else",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://example.com:25/",
        "https://example.com:22/",
        "https://[::1/",
        "https://[what]/",
        "https://exa%6dple.com/",
        "https://example.com/ü",
        "https://-example.com/",
        "https://" + "a" * 300 + ".com/",
        "http://127.0.0.1/",
        "http://10.0.0.1:8080/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://0.0.0.0/",
    ],
)
def test_what_is_no_place_for_webhooks_is_refused(url: str) -> None:
    """Other schemes, credentials, odd ports, disguises, private addresses; no error repeats the URL."""
    with pytest.raises(InputError) as caught:
        Endpoint("main", url, new_secret(), tenant="acme")
    assert "hooks" not in str(caught.value).replace("webhooks", "")


def test_private_addresses_and_ports_can_be_allowed() -> None:
    """An endpoint in one's own network says so."""
    assert address_of("http://127.0.0.1:81/", allow_private=True).port == 81


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    """Also those of IPv4 that IPv6 carries."""
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.100.100.200", "0.0.0.0", "0.1.2.3", "255.255.255.255"),  # noqa: S104
        *(
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
        ),
        *(
            "203.0.113.1",
            "192.88.99.1",
            "::1",
            "::",
            "fe80::1",
            "fe80::1%eth0",
            "fc00::1",
            "fd12::1",
            "fec0::1",
        ),
        *(
            "ff02::1",
            "ff0e::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "5f00::1",
            "2002:7f00:1::",
            "2001:0:1::1",
        ),
        *("::ffff:127.0.0.1", "::ffff:a00:1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
        *("64:ff9b:1::808:808", "2001::1", "4000::1", "", "example.com", "127.1"),
    ],
)
def test_all_other_addresses_are_not(address: str) -> None:
    """Loopback, private, link-local, shared, multicast, reserved, documentation, and what hides them."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "secret", "whsec_!!!", whsec(23), whsec(65), whsec(32)[6:], "whsec_äöü"]
)
def test_a_secret_that_is_too_short_or_none_is_refused(secret: str) -> None:
    """The error does not repeat it."""
    with pytest.raises(InputError) as caught:
        signing_key(secret)
    assert len(secret) <= 6 or secret[6:] not in str(caught.value)


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_holds_24_to_64_bytes(length: int) -> None:
    """As Standard Webhooks asks for."""
    assert signing_key(whsec(length)) == b"k" * length


def test_new_secrets_differ() -> None:
    """Each is 32 random bytes."""
    assert len({new_secret() for _ in range(10)}) == 10
    assert len(signing_key(new_secret())) == 32


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": ()},
        {"timeout": "0s"},
        {"headers": {"webhook-id": "mine"}},
        {"headers": {"Host": "else"}},
        {"headers": {"Content-Length": "1"}},
        {"headers": {"x-split": "a\r\nb: c"}},
        {"headers": {"x split": "a"}},
        {"headers": {"": "a"}},
    ],
)
def test_an_endpoint_that_cannot_work_is_refused(changes: dict[str, Any]) -> None:
    """No secret, no time, and headers that are ours or would split the request."""
    given: dict[str, Any] = {"url": "https://example.com/", "secret": new_secret(), "tenant": "acme"}
    with pytest.raises(InputError):
        Endpoint("main", **{**given, **changes})


@pytest.mark.parametrize("kinds", ["webhok", ("webhook", "topics"), (), (7,), "deliver"])
def test_an_endpoint_wants_kinds_that_exist(kinds: Any) -> None:
    """A kind that nobody ever sends is refused when it is written, with those that there are."""
    with pytest.raises(InputError, match="of live, log, topic, webhook, not"):
        Endpoint("e", "https://example.com/", whsec(32), tenant="acme", kinds=kinds)
    for known in ("topic", ("webhook", "live"), ["log"]):
        Endpoint("e", "https://example.com/", whsec(32), tenant="acme", kinds=known)


@pytest.mark.mission("ENG-5", "ENG-7")
@pytest.mark.parametrize(
    "make",
    [
        partial(Kafka, "k", "t", {"bootstrap.servers": "127.0.0.1:1"}),
        partial(RedisChannel, "r", "c", "redis://127.0.0.1:1"),
        partial(RedisStream, "r", "s", "redis://127.0.0.1:1"),
        partial(Subscriber, "s", AsyncMock()),
    ],
    ids=lambda make: make.func.__name__,
)
def test_what_instances_tell_each_other_goes_to_nobody_else(make: Callable[..., object]) -> None:
    """It holds what is sensitive, for the receiver needs it."""
    with pytest.raises(InputError, match="live, log, topic, webhook"):
        make(kinds=("topic", "deliver"))


EXTRAS = {
    "httpx": ("headway.outbox.webhook", "webhooks"),
    "confluent_kafka": ("headway.outbox.kafka", "kafka"),
    "redis": ("headway.outbox.redis", "redis"),
}


@pytest.mark.parametrize("missing", EXTRAS)
def test_a_missing_client_is_named_with_the_extra_that_brings_it(missing: str) -> None:
    """Who has not installed an extra is told how to."""
    module, extra = EXTRAS[missing]
    told = told_without(missing, f"import {module}")
    assert told.startswith("ModuleNotFoundError: ")
    assert told.endswith(f'pip install "headway[{extra}]"')


HOOKED = f"Node('sqlite:///x.db', destinations=[Endpoint('e', 'https://x.com/', {whsec(32)!r}, tenant='a')])"
NODES = {"httpx": (HOOKED, "webhooks"), "asyncpg": ("Node('postgresql://localhost/x')", "postgres")}


@pytest.mark.parametrize("missing", NODES)
def test_a_node_that_misses_a_client_says_so(missing: str) -> None:
    """What a node cannot do without an extra is an error of Headway's, when the node is made."""
    made, extra = NODES[missing]
    program = f"from headway.node import Node; from headway.outbox.endpoint import Endpoint; {made}"
    told = told_without(missing, program)
    assert told.startswith("headway.errors.InputError: ")
    assert told.endswith(f'pip install "headway[{extra}]"')


def told_without(missing: str, program: str) -> str:
    """The last line of the error of a program in a Python that lacks a module."""
    whole = f"import sys; sys.modules[{missing!r}] = None; {program}"
    done = subprocess.run([sys.executable, "-c", whole], check=False, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1]
