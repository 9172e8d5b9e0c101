"""Live events in both forms of the client, against the real service and from bytes."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from headway.client import LiveGap, LiveTransition
from headway.client.actions import ConnectionFailure, HttpReply, HttpRequest, Item, Now, Pause, ReadStream
from headway.client.events import followed
from headway.errors import ForbiddenError, NotFoundError, ServiceUnavailableError
from tests.client.conftest import Place

pytestmark = pytest.mark.mission("ENG-24", "ENG-15")
BEGINNING = "0-0"
WELCOME = b"retry: 1000\nid: w\n: welcome\n\n"


async def first(events: AsyncGenerator[Any, None], count: int) -> list[Any]:
    """So many of the events, then the stream is closed."""
    found = []
    async for each in events:
        found.append(each)
        if len(found) == count:
            break
    await events.aclose()
    return found


async def test_events_come_as_they_happen(place: Place) -> None:
    """From the beginning and then live, with all that the service tells of a transition."""
    async with place.client() as client:
        await client.create("Counter", "c1")
        events = client.each("follow", instance="c1", after=BEGINNING)
        created = await anext(events)
        await client.send("c1", "flip")
        flipped = await anext(events)
        await events.aclose()
    assert isinstance(flipped, LiveTransition)
    assert (created.before, created.now) == ("", "on")
    assert (flipped.before, flipped.now, flipped.event, flipped.seq) == ("on", "off", "flip", 2)


async def test_a_reader_comes_back_after_its_last_event(place: Place) -> None:
    """Nothing is missed and nothing comes twice."""
    async with place.client() as client:
        await client.create("Counter", "c1")
        for _ in range(3):
            await client.send("c1", "flip")
        begun = await first(client.each("follow", chart="Counter", after=BEGINNING), 2)
        rest = await first(client.each("follow", chart="Counter", after=begun[-1].id), 2)
    assert [each.seq for each in begun + rest] == [1, 2, 3, 4]


async def test_a_stream_that_may_not_be_opened_is_an_error(place: Place) -> None:
    """It is not tried again."""
    async with place.client() as client:
        with pytest.raises(NotFoundError):
            await anext(client.each("follow", instance="none"))
    async with place.client("send") as client:
        with pytest.raises(ForbiddenError):
            await anext(client.each("follow"))
        assert client.pauses == []


def event(name: str) -> bytes:
    """An event as the service sends it."""
    return b'id: %s\ndata: {"type":"gap","id":"%s"}\n\n' % (name.encode(), name.encode())


def played(replies: list[Any], retries: int = 2, after: str | None = None) -> list[Any]:
    """What a stream does when it is answered like this; a number is the seconds until the next answer."""
    steps = followed(HttpRequest("GET", "/v1/events", stream=True), after, retries)
    done, outcome, now = [], None, 0.0
    for _ in range(1_000):
        action = steps.send(outcome)
        done.append(action)
        outcome = now if isinstance(action, Now) else None
        now += action.seconds if isinstance(action, Pause) else 0.0
        if isinstance(action, HttpRequest | ReadStream):
            while replies and isinstance(replies[0], float):
                now += replies.pop(0)
            if not replies:
                return done
            outcome = replies.pop(0)
    raise AssertionError("it has no end")


OPENED = HttpReply(200, {})


def test_events_are_found_however_the_bytes_are_cut() -> None:
    """An event may come in pieces, and several in one; what the client does not know is left out."""
    text = (
        WELCOME
        + event("a")
        + b'id: n\ndata: {"type":"new","x":1}\n\n'
        + b"id: h\n: heartbeat\n\n"
        + event("b")
    )
    for size in (1, 7, len(text)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        done = played([OPENED, *pieces])
        assert [each.value for each in done if isinstance(each, Item)] == [LiveGap("a"), LiveGap("b")]


@pytest.mark.parametrize("end", [b"", ConnectionFailure("lost", sent=True)])
def test_a_lost_stream_goes_on_where_it_was(end: Any) -> None:
    """It is opened again with the last id, an event's or a heartbeat's; half an event is forgotten."""
    done = played(
        [OPENED, WELCOME + event("a") + b"id: h\n: heartbeat\n\nid: half\nda", end, OPENED, event("b")]
    )
    requests = [each for each in done if isinstance(each, HttpRequest)]
    assert [each.headers for each in requests] == [{}, {"last-event-id": "h"}]
    assert [each.value for each in done if isinstance(each, Item)] == [LiveGap("a"), LiveGap("b")]


def test_a_service_that_stops_is_opened_again() -> None:
    """A problem in the stream that passes is as one when it is opened."""
    problem = b'id: p\nevent: problem\ndata: {"status":503,"code":"unavailable"}\n\n'
    done = played([OPENED, WELCOME + problem, OPENED])
    assert [each.headers for each in done if isinstance(each, HttpRequest)] == [{}, {"last-event-id": "p"}]


def test_a_revoked_key_ends_the_stream() -> None:
    """The problem says so, and the stream is not opened again."""
    problem = b'id: p\nevent: problem\ndata: {"status":403,"code":"forbidden","detail":"no"}\n\n'
    with pytest.raises(ForbiddenError):
        played([OPENED, WELCOME + problem])


def test_a_service_that_stays_away_is_an_error_at_last() -> None:
    """Tries that reach nothing are counted, and any progress begins the count anew."""
    lost = ConnectionFailure("lost", sent=False)
    with pytest.raises(ServiceUnavailableError):
        played([lost, lost, lost])
    done = played([lost, lost, OPENED, WELCOME, lost, lost, OPENED])
    assert [each.seconds for each in done if isinstance(each, Pause)] == [0.25, 0.5, 0.25, 0.5]


def test_a_stream_that_was_open_for_a_while_begins_the_count_again() -> None:
    """A quiet stream that a proxy closes every minute is no failure, however often."""
    done = played([OPENED, 60.0, b""] * 20)
    assert {each.seconds for each in done if isinstance(each, Pause)} == {0.25}


@pytest.mark.parametrize(
    "ends",
    [
        [OPENED, b""],
        [OPENED, 0.2, ConnectionFailure("lost", sent=True)],
        [60.0, ConnectionFailure("no answer", sent=False)],
    ],
)
def test_a_stream_that_does_not_stay_open_is_an_error_at_last(ends: list[Any]) -> None:
    """It must be open, and for longer than the pause before it."""
    with pytest.raises(ServiceUnavailableError):
        played(ends * 3)
