"""Spans: of requests, attempts and deliveries, under what their callers name, and without secrets."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headway import person
from headway.engine.orders import CURRENT, traceparent, tracing
from headway.node import Node
from headway.outbox import Message, PermanentError, Subscriber
from headway.telemetry.tracing import TracedCalls, Tracing, parent_of
from headway.worker.handlers import observed
from tests.cli.shop import Order, handlers

pytestmark = pytest.mark.mission("ENG-16")

TRACE, CALL = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{CALL}-01"
SECONDS = 120


class Traces:
    """Spans that stay in memory."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.tracing = Tracing(self._kept)

    def spans(self) -> list[ReadableSpan]:
        """All that have ended."""
        self.tracing.close()
        return [*self._kept.get_finished_spans()]


async def called(traces: Traces, status: int, *headers: tuple[bytes, bytes]) -> str | None:
    """Make a request of an application that answers with a status; the trace that was current in it."""
    seen: list[str | None] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        seen.append(CURRENT.get())
        scope["route"] = type("Route", (), {"path": "/v1/things/{name}"})
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def nothing(*_: Any) -> None:
        pass

    scope = {"type": "http", "method": "GET", "headers": headers}
    await TracedCalls(app, traces.tracing)(scope, nothing, nothing)
    assert CURRENT.get() is None
    return seen[0]


async def test_a_request_goes_on_under_its_caller() -> None:
    """Its span has the caller's as parent and the route as name; what it calls goes on under it."""
    traces = Traces()
    current = await called(traces, 200, (b"traceparent", HEADER.encode()))
    [span] = traces.spans()
    assert (span.name, span.attributes) == (
        "GET /v1/things/{name}",
        {"http.response.status_code": 200, "http.route": "/v1/things/{name}"},
    )
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, CALL)
    assert current == f"00-{TRACE}-{span.context.span_id:016x}-01"


@pytest.mark.parametrize(
    "header", ["", "nonsense", f"00-{'0' * 32}-{CALL}-01", f"{HEADER}\r\nx: y", HEADER.upper()]
)
async def test_a_header_that_is_none_begins_a_trace(header: str) -> None:
    """What is not a `traceparent` is ignored, as the standard asks for."""
    assert traceparent(header) is None
    traces = Traces()
    await called(traces, 503, (b"traceparent", header.encode()))
    [span] = traces.spans()
    assert span.parent is None
    assert span.status.status_code is StatusCode.ERROR


async def test_attempts_and_deliveries_are_spans(database: str) -> None:
    """A failed attempt has its code; a delivery that fails has its class; neither says what was in them."""
    traces = Traces()
    arrived = asyncio.Event()

    async def take(message: Message) -> None:
        arrived.set()
        raise PermanentError(f"secret {message.instance}")

    subscriber = Subscriber("refuses", take, begins="first")
    node = Node(
        database,
        [Order],
        handlers=observed(handlers, [traces.tracing.begin]),
        destinations=[traces.tracing.watch(subscriber)],
    )
    async with node, asyncio.timeout(SECONDS):
        tenant = node.tenant()
        await tenant.create(Order, "flaky-1", {"customer": "secret"})
        await tenant.send("flaky-1", Order.submit())
        await tenant.send("flaky-1", Order.approve(by=person("bob", "manager")))
        await tenant.until("flaky-1", "paid")
        await arrived.wait()
    spans = traces.spans()
    work = [dict(span.attributes or {}) for span in spans if span.name == "work pay"]
    assert [(each["headway.attempt"], each.get("error.type")) for each in work] == [
        (1, "BANK_BUSY"),
        (2, None),
    ]
    [delivery] = [span for span in spans if span.name == "deliver order.approved"]
    assert dict(delivery.attributes or {})["error.type"] == "PermanentError"
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_a_trace_lasts_as_long_as_its_block() -> None:
    """What runs after it belongs to no trace."""
    with tracing(HEADER):
        assert CURRENT.get() == HEADER
    assert CURRENT.get() is None


def test_a_span_names_itself_as_the_parent_of_others() -> None:
    """The text is a valid `traceparent`."""
    traces = Traces()
    span = traces.tracing.span("one", SpanKind.INTERNAL, None)
    assert traceparent(parent_of(span)) == parent_of(span)
    span.end()
    assert len(traces.spans()) == 1
