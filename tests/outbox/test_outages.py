"""A receiver that is bad for an hour, and a message that nobody can take: the rest goes on by itself."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headway.engine.engine import Engine
from headway.outbox.destination import Backoff, Subscriber
from headway.outbox.endpoint import Endpoint, new_secret
from headway.outbox.letters import Letters
from headway.outbox.relay import Relay
from headway.outbox.webhook import Webhook
from headway.store.queries import LetterQuery
from headway.testing import FakeClock
from tests.outbox.world import (
    ACME,
    Answer,
    Reader,
    Receiver,
    Request,
    http,
    memory_store,
    never,
    publish,
    reset,
    until_idle,
)

pytestmark = pytest.mark.mission("ENG-5")

SECRET = new_secret()
WELL = http(204)


class Moods(list[Any]):
    """The answers of a receiver, chosen for each request when it has come."""

    def __init__(self, receiver: Receiver, choose: Callable[[Request], Answer]) -> None:
        super().__init__([None])
        self._receiver, self._choose = receiver, choose

    def pop(self, _index: Any = 0) -> Answer:
        """What is answered to the last request."""
        return self._choose(self._receiver.requests[-1])


def webhook(receiver: Receiver, **changes: Any) -> Webhook:
    """A webhook to a receiver on loopback."""
    url = f"http://127.0.0.1:{receiver.port}/"
    given = {"tenant": ACME, "allow_private": True, "timeout": 0.1, **changes}
    return Webhook(Endpoint("main", url, SECRET, **given))


def told(requests: list[Request]) -> Iterator[tuple[str, str, str]]:
    """The instance, the name and the id of each request."""
    for request in requests:
        body = json.loads(request.body)
        yield body["data"]["instance"], body["type"], request.headers["webhook-id"]


async def drip(writer: asyncio.StreamWriter) -> None:
    """Answer a letter at a time, and never come to an end."""
    for letter in http(204)[:12].decode():
        writer.write(letter.encode())
        await writer.drain()
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "bad",
    [http(500), http(503), b"\x00\xffgarbage\r\n\r\n", reset, never, drip],
    ids=["500", "503", "garbage", "reset", "never", "drip"],
)
async def test_a_receiver_that_is_bad_for_an_hour_gets_everything_when_it_is_well(
    bad: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost or dead, others are not held up, it is said what is wrong, and the order holds."""
    caplog.set_level(logging.INFO, "headway")
    clock, reader = FakeClock(), Reader()
    state = {"answer": bad}
    async with memory_store(clock) as store, Receiver() as receiver:
        receiver.answers = Moods(receiver, lambda _: state["answer"])
        relay = Relay(Engine(store), webhook(receiver))
        other = Relay(Engine(store), Subscriber("other", reader, kinds="webhook", begins="first"))
        await until_idle(relay)
        for number in range(6):
            for instance in ("a", "b"):
                name = f"step.{number}"
                await publish(store, instance, name, kind="webhook", data={"instance": instance})
            await until_idle(relay, other)
            clock.advance("10m")
        assert len(reader.taken) == 12
        letters = await store.letters.page(LetterQuery(destination=relay.destination.name))
        assert all("127.0.0.1" in letter.error for letter in letters if letter.attempts)
        assert "step.0" in caplog.text
        state["answer"] = WELL
        receiver.requests.clear()
        for _ in range(8):
            clock.advance("1h")
            await until_idle(relay)
        assert not await store.letters.page(LetterQuery(destination=relay.destination.name))
        arrived = [*told(receiver.requests)]
        for instance in ("a", "b"):
            names = [name for each, name, _ in arrived if each == instance]
            assert names == [f"step.{number}" for number in range(6)]
        await relay.stop()


async def test_a_message_has_the_same_id_at_each_attempt_of_an_hour() -> None:
    """A receiver that took it, and whose answer was lost, can tell that it has it."""
    clock = FakeClock()
    state: dict[str, Answer] = {"answer": reset}
    async with memory_store(clock) as store, Receiver() as receiver:
        receiver.answers = Moods(receiver, lambda _: state["answer"])
        relay = Relay(Engine(store), webhook(receiver))
        await until_idle(relay)
        await publish(store, "a", "one", kind="webhook", data={"instance": "a"})
        for _ in range(12):
            await until_idle(relay)
            clock.advance("5m")
        state["answer"] = WELL
        clock.advance("10h")
        await until_idle(relay)
        seen = [*told(receiver.requests)]
        assert len(seen) > 3
        assert len({*seen}) == 1
        await relay.stop()


async def test_a_poison_message_dies_alone() -> None:
    """It holds up its own instance until its attempts are used up, and nobody else; it waits for a person."""
    clock = FakeClock()
    async with memory_store(clock) as store, Receiver() as receiver:
        receiver.answers = Moods(receiver, lambda request: http(500) if b"poison" in request.body else WELL)
        relay = Relay(Engine(store), webhook(receiver, backoff=Backoff.after("1m", "1m", jitter=0)))
        await until_idle(relay)
        for instance, names in {"a": ("one", "poison", "three"), "b": ("one", "two")}.items():
            await publish(store, instance, *names, kind="webhook", data={"instance": instance})
        await until_idle(relay)
        assert [name for instance, name, _ in told(receiver.requests) if instance == "b"] == ["one", "two"]
        assert [name for instance, name, _ in told(receiver.requests) if instance == "a"] == ["one", "poison"]
        for _ in range(4):
            clock.advance("2m")
            await until_idle(relay)
        assert [name for instance, name, _ in told(receiver.requests) if instance == "a"] == [
            *("one", "poison", "poison", "poison", "three")
        ]
        (letter,) = await Letters(store).list(ACME)
        assert (letter.dead, letter.name, letter.attempts) == (True, "poison", 3)
        await relay.stop()
