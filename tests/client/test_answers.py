"""The client knows everything that the service answers, and both of its forms have the same calls."""

import inspect
from typing import Any

import pytest

from headway import client
from headway.client import Client, SyncClient, answers
from headway.client.events import LiveGap, LiveMessage, LiveTransition
from headway.client.verbs import Verbs
from headway.codec import decode
from headway.errors import InputError
from tests.client.conftest import Place

pytestmark = pytest.mark.mission("ENG-24")
SHARED = [
    kind for kind in vars(answers).values() if inspect.isclass(kind) and kind.__module__ == answers.__name__
]
OWN = {"ServiceAnswer", "AnswerPage", "ChartStates"}
CALLS = {name for name in dir(Verbs) if not name.startswith("_")}


def fields(kind: Any) -> set[str]:
    """The names of a struct's fields in JSON."""
    return set(kind.__struct_encode_fields__)


async def test_an_answer_has_all_that_the_service_says(place: Place) -> None:
    """A struct of the client has the name and the fields of its schema in the OpenAPI document."""
    schemas = (await place.service.client.get("/openapi.json")).json()["components"]["schemas"]
    for kind in SHARED:
        if kind.__name__ not in OWN:
            assert fields(kind) == set(schemas[kind.__name__]["properties"]), kind


async def test_a_live_event_has_all_that_the_service_says(place: Place) -> None:
    """But for its tenant, which is the credential's, and its type, which is the class."""
    await place.service.client.post("/v1/instances", json={"chart": "Leave", "id": "l1"})
    lines = ""
    async with place.service.client.stream("GET", "/v1/events?after=0-0") as stream:
        async for text in stream.aiter_text():
            lines += text
            if "\ndata: " in lines and lines.endswith("\n\n"):
                break
    told = decode(dict[str, Any], lines.partition("\ndata: ")[2].partition("\n")[0])
    assert set(told) == fields(LiveTransition) | {"type", "tenant"}


def test_a_newer_service_may_say_more() -> None:
    """A field that the client does not know is left out, at any depth."""
    text = b'{"items":[{"standing":"held","since":"today"}],"next":null,"total":1}'
    assert decode(answers.AnswerPage[answers.Sign], text).items == [answers.Sign(standing="held")]


@pytest.mark.parametrize("form", [Client, SyncClient])
def test_both_forms_have_every_call(form: Any) -> None:
    """With its arguments and its documentation, and none that the other lacks."""
    public = {name for name in vars(form) if not name.startswith("_")} - {"close"}
    assert public == CALLS
    for name in CALLS:
        assert inspect.signature(getattr(form, name)) == inspect.signature(getattr(Verbs, name))
        assert inspect.getdoc(getattr(form, name)) == inspect.getdoc(getattr(Verbs, name))


def test_url_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments go before; a key that is missing and a URL that is none are told at once."""
    monkeypatch.setenv("HEADWAY_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("HEADWAY_KEY", "hw_1")
    found, given = SyncClient()._service, SyncClient("https://headway.example", "hw_2")._service
    assert (found.url, found.key) == ("http://127.0.0.1:1", "hw_1")
    assert (given.url, given.key) == ("https://headway.example", "hw_2")
    for wrong in ("localhost:8000", "ftp://a", "http://", "http://a:b"):
        with pytest.raises(InputError, match="URL"):
            SyncClient(wrong)
    monkeypatch.delenv("HEADWAY_KEY")
    with pytest.raises(InputError, match="HEADWAY_KEY"):
        Client()


def test_the_events_are_public() -> None:
    """Programs tell them apart by class."""
    assert {LiveGap, LiveMessage, LiveTransition} <= {getattr(client, name) for name in client.__all__}
