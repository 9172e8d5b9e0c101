"""What a payload model marks as sensitive is told nowhere: not in history, messages, asks, logs or errors."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from headway.store.queries import EventQuery, MessageQuery
from tests.api.asking import CHARTS
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-7", "ENG-14")

SECRETS = ("DE02-1203", "0815-pin", "tok-4711")
PAYMENT = {"account": {"holder": "ann", "iban": SECRETS[0]}, "pin": SECRETS[1], "note": "thanks"}


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service of charts that keep secrets."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, CHARTS)))
    runner.run(stack.aclose())


async def test_secrets_leave_by_no_way(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """The engine sees them, and neither a reader of history, messages, asks or events does, nor the log."""
    caplog.set_level(logging.DEBUG)
    context = {"token": SECRETS[2], "holder": "ann"}
    made = await service.client.post(
        "/v1/instances", json={"chart": "Transfer", "id": "t", "context": context}
    )
    sent = await service.client.post("/v1/instances/t/events", json={"event": "pay", "data": PAYMENT})
    assert (made.status_code, sent.status_code) == (201, 200)
    store = service.node.engine.store
    told = [
        (await service.client.get("/v1/instances/t/history")).text,
        (await service.client.get("/v1/asks")).text,
        repr(await store.history.page(("default", "t"))),
        repr((await store.events.page(EventQuery())).events),
        repr((await store.messages.page(MessageQuery())).messages),
        repr(await store.asks.get(("default", (await service.node.asks.of_instance("default", "t"))[0].id))),
        caplog.text,
    ]
    assert [text for text in told if any(secret in text for secret in SECRETS)] == []
    assert "[redacted]" in told[0]
    assert "thanks" in told[0]
    kept = await service.node.engine.get("default", "t")
    assert kept.context["token"] == SECRETS[2]


@pytest.mark.parametrize(
    "data",
    [
        {**PAYMENT, "pin": [SECRETS[1]]},
        {**PAYMENT, "account": {"holder": 7, "iban": SECRETS[0]}},
        {**PAYMENT, "more": SECRETS[1]},
    ],
    ids=["wrong type", "wrong neighbour", "unknown field"],
)
async def test_an_error_does_not_repeat_what_was_sent(service: Service, data: object) -> None:
    """A refused payload is told by its places and rules, without its values."""
    await service.client.post("/v1/instances", json={"chart": "Transfer", "id": "t"})
    answer = await service.client.post("/v1/instances/t/events", json={"event": "pay", "data": data})
    assert not any(secret in answer.text for secret in SECRETS)
