"""Traces across calls, work and deliveries: OpenTelemetry spans, linked by the trace stored in rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headway.engine.orders import CURRENT, traceparent, tracing
from headway.outbox.destination import BulkDestination, DeliveryReport, Destination
from headway.outbox.message import Message
from headway.worker.attempt import Fail
from headway.worker.handlers import End
from headway.worker.work import Work

HEADER = b"traceparent"
SERVER_ERROR = 500
W3C = TraceContextTextMapPropagator()


class Tracing:
    """Makes spans and sends them on, in the background."""

    def __init__(self, exporter: SpanExporter, *, service: str = "headway") -> None:
        self._provider = TracerProvider(resource=Resource.create({"service.name": service}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("headway")

    @classmethod
    def to(cls, collector: str, *, service: str = "headway") -> Tracing:
        """Tracing that sends to a collector (OTLP over HTTP) at a base URL."""
        return cls(OTLPSpanExporter(endpoint=f"{collector.rstrip('/')}/v1/traces"), service=service)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    def span(self, name: str, kind: SpanKind, parent: str | None, **attributes: Any) -> Span:
        """A span that has begun, under the one that a `traceparent` names."""
        context = W3C.extract({"traceparent": parent}) if parent else None
        named = {key: value for key, value in attributes.items() if value is not None}
        span = self._tracer.start_span(name, context=context, kind=kind, attributes=named)
        assert isinstance(span, Span)  # noqa: S101 - the provider is the SDK's own
        return span

    def begin(self, work: Work) -> End:
        """Begin the span of an attempt; what its handler does belongs to this span."""
        attributes = {
            "headway.tenant": work.tenant,
            "headway.instance": work.instance,
            "headway.state": work.state,
            "headway.attempt": work.attempt,
        }
        span = self.span(f"work {work.handler}", SpanKind.CONSUMER, traceparent(work.trace), **attributes)
        token = CURRENT.set(parent_of(span))

        def end(outcome: object) -> None:
            CURRENT.reset(token)
            _judge_attempt(span, outcome)
            span.end()

        return end

    def delivering(self, message: Message, destination: str) -> Span:
        """The span of a delivery."""
        return self.span(
            f"deliver {message.name}",
            SpanKind.PRODUCER,
            traceparent(message.trace),
            **{
                "headway.tenant": message.tenant,
                "headway.instance": message.instance,
                "headway.destination": destination,
                "headway.attempt": message.attempt,
            },
        )

    def watch(self, destination: Destination) -> Destination:
        """The same destination, with a span for each delivery."""
        return (
            TracedBulkDestination(destination, self)
            if isinstance(destination, BulkDestination)
            else TracedDestination(destination, self)
        )


class TracedDestination:
    """A destination that makes a span for each delivery."""

    def __init__(self, destination: Destination, tracing: Tracing) -> None:
        self.destination, self._tracing = destination, tracing
        self.name, self.filter, self.policy = destination.name, destination.filter, destination.policy

    async def deliver(self, message: Message) -> None:
        """Hand a message over, as the destination does."""
        span = self._tracing.delivering(message, self.name)
        try:
            with tracing(parent_of(span)):
                await self.destination.deliver(message)
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            span.end()

    async def close(self) -> None:
        """Close connections."""
        await self.destination.close()


class TracedBulkDestination(TracedDestination):
    """A destination for many messages at once that makes a span for each message."""

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Hand messages over, as the destination does."""
        assert isinstance(self.destination, BulkDestination)  # noqa: S101 - see Tracing.watch
        spans: list[Span] = []

        def watched() -> Iterator[Message]:
            for message in messages:
                spans.append(self._tracing.delivering(message, self.name))
                yield message

        try:
            await self.destination.deliver_all(watched(), report)
        finally:
            for place, error in report.failed:
                _failed(spans[place], error)
            for span in spans:
                span.end()


class TracedCalls:
    """ASGI middleware: each request is a span, under the one that its caller names."""

    def __init__(self, app: Any, tracing: Tracing) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request in its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = traceparent(_header(scope["headers"]))
        span = self._tracing.span(scope["method"], SpanKind.SERVER, parent)

        async def note(message: Any) -> None:
            if message["type"] == "http.response.start":
                _judge_answer(span, message["status"])
            await send(message)

        try:
            with tracing(parent_of(span)):
                await self._app(scope, receive, note)
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            route = getattr(scope.get("route"), "path", None)
            if route is not None:
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
            span.end()


def parent_of(span: Span) -> str:
    """The `traceparent` of a span, for its children."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _header(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name == HEADER), None)


def _judge_answer(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= SERVER_ERROR:
        span.set_status(Status(StatusCode.ERROR))


def _judge_attempt(span: Span, outcome: object) -> None:
    if isinstance(outcome, Fail):
        span.set_attribute("error.type", outcome.code)
        span.set_status(Status(StatusCode.ERROR, outcome.code))
    elif isinstance(outcome, BaseException):
        _failed(span, outcome)


def _failed(span: Span, error: BaseException) -> None:
    """Records the class of an error only: its text may hold private data."""
    span.set_attribute("error.type", type(error).__name__)
    if not isinstance(error, asyncio.CancelledError):
        span.set_status(Status(StatusCode.ERROR, type(error).__name__))
