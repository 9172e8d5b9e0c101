"""What cannot be sent is refused before anything is sent, and no error shows a credential."""

from typing import Any

import httpx
import pytest

from headway.client import Client, SyncClient
from headway.client.connection import failure_of
from headway.errors import InputError
from tests.client.conftest import Place, client_at
from tests.client.either import Form

pytestmark = pytest.mark.mission("ENG-24")
NOWHERE = "http://127.0.0.1:9"
LONG = "x" * 70_000


async def test_a_key_that_was_read_from_a_file_is_valid(place: Place) -> None:
    """Such a file ends with a newline."""
    key = await place.service.key("admin")
    async with client_at(place.service.url, f"{key}\n", place.form) as client:
        assert (await client.create("Counter", "c1")).id == "c1"


@pytest.mark.parametrize("kind", [Client, SyncClient])
@pytest.mark.parametrize("key", ["secret\nsecret", "secret\x00", "secrét", "secret secret", "\udcffsecret"])
def test_a_key_that_no_header_can_hold_is_refused(kind: Any, key: str) -> None:
    """At once; the error does not quote it."""
    with pytest.raises(InputError, match="key") as refused:
        kind(NOWHERE, key)
    assert "secr" not in f"{refused.value!r} {refused.value.__cause__!r}"


@pytest.mark.parametrize("key", [" ", "\n"])
def test_a_blank_key_is_none(key: str) -> None:
    """The error says where keys come from."""
    with pytest.raises(InputError, match="no key"):
        SyncClient(NOWHERE, key)


@pytest.mark.parametrize("text", ["a\nb", "a b", "é", "\ud800", ""])
async def test_a_request_id_or_a_place_that_no_header_can_hold_is_refused(form: Form, text: str) -> None:
    """It is not sent, so it is not repeated."""
    async with client_at(NOWHERE, "hw_any", form) as client:
        with pytest.raises(InputError, match="request_id"):
            await client.send("c1", "flip", request_id=text)
        with pytest.raises(InputError, match="after"):
            await client.all("follow", after=text)
    assert client.pauses == []


@pytest.mark.parametrize("name", ["\ud800", LONG])
async def test_a_name_that_no_url_can_hold_is_refused(form: Form, name: str) -> None:
    """In a path and in a filter; the error does not repeat all of it."""
    async with client_at(NOWHERE, "hw_any", form) as client:
        for call in (
            lambda: client.get(name),
            lambda: client.send(name, "flip"),
            lambda: client.all("history", name),
            lambda: client.all("list", owner=name),
            lambda: client.all("follow", instance=name),
        ):
            with pytest.raises(InputError) as refused:
                await call()
            assert len(str(refused.value)) < 200
    assert client.pauses == []


def test_a_request_that_httpx_refuses_was_not_sent() -> None:
    """Its text may quote a header, so it is left out."""
    failure = failure_of(httpx.LocalProtocolError("Illegal header value b'Bearer secret'"))
    assert not failure.sent
    assert "secret" not in failure.message


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://ann:secret@127.0.0.1:9", "user"),
        ("http://ann:secret@127.0.0.1:none", "URL"),
        ("http://secret@127.0.0.1:9/headway", "user"),
        ("http://127.0.0.1:9?token=secret", "query"),
        ("http://127.0.0.1:9/?", "query"),
        ("http://127.0.0.1:9/#secret", "fragment"),
    ],
)
def test_a_url_has_nothing_that_would_be_ignored_or_replace_the_key(url: str, what: str) -> None:
    """Of a user in it httpx would make the credential, instead of the key; the error does not quote it."""
    with pytest.raises(InputError, match=what) as refused:
        SyncClient(url, "hw_any")
    assert "secret" not in str(refused.value)


async def test_a_url_may_have_a_path(form: Form) -> None:
    """The service may be behind a proxy."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"items": [], "next": None})

    transport = httpx.MockTransport(answer)
    async with client_at("http://127.0.0.1:9/headway/", "hw_any", form, transport=transport) as client:
        assert await client.all("list", owner="a b") == []
    [request] = asked
    assert str(request.url) == "http://127.0.0.1:9/headway/v1/instances?owner=a+b&limit=100"
    assert request.headers["authorization"] == "Bearer hw_any"
