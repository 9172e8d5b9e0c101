"""A trace goes on over the database: from a call to its work, and from there to a webhook."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headway import person
from headway.engine.orders import tracing
from headway.node import Node
from headway.outbox.endpoint import Endpoint
from headway.outbox.webhook import Webhook
from headway.telemetry.tracing import Tracing
from headway.worker.handlers import observed
from tests.cli.shop import Order, handlers

pytestmark = pytest.mark.mission("ENG-5", "ENG-16")

CALL = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECONDS = 120


@asynccontextmanager
async def receiver(headers: asyncio.Queue[dict[str, str]]) -> AsyncIterator[int]:
    """A server that keeps the headers of what it gets; its port."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        named = dict(line.split(": ", 1) for line in head if line)
        await reader.readexactly(int(named["content-length"]))
        headers.put_nowait(named)
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def ids(span: ReadableSpan) -> tuple[str, str]:
    """Its trace, and its parent."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}" if span.parent else ""


async def test_the_work_and_the_webhook_of_a_call_belong_to_its_trace(database: str) -> None:
    """Also the second attempt, and the delivery that follows; the receiver gets the delivery's span."""
    spans, got = InMemorySpanExporter(), asyncio.Queue[dict[str, str]]()
    traced = Tracing(spans)
    async with receiver(got) as port, asyncio.timeout(SECONDS):
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of this test alone
        endpoint = Endpoint("here", f"http://127.0.0.1:{port}/", secret, tenant="default", allow_private=True)
        node = Node(
            database,
            [Order],
            handlers=observed(handlers, [traced.begin]),
            destinations=[traced.watch(Webhook(endpoint))],
        )
        async with node:
            tenant = node.tenant()
            await tenant.create(Order, "flaky-1", {"customer": "ann"})
            await tenant.send("flaky-1", Order.submit())
            with tracing(CALL):
                await tenant.send("flaky-1", Order.approve(by=person("bob", "manager")))
            await tenant.until("flaky-1", "paid")
            received = await got.get()
    traced.close()
    _, trace, call, _ = CALL.split("-")
    finished = spans.get_finished_spans()
    work = [span for span in finished if span.name == "work pay"]
    assert [ids(span) for span in work] == [(trace, call)] * 2
    [delivery] = [span for span in finished if span.name == "deliver order.paid"]
    assert ids(delivery) == (trace, call)
    assert delivery.context is not None
    assert received["traceparent"] == f"00-{trace}-{delivery.context.span_id:016x}-01"
