"""Live events: server-sent events from bytes, and a stream that resumes after a lost connection."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from headway.client.actions import (
    Action,
    ConnectionFailure,
    HttpReply,
    HttpRequest,
    Item,
    Items,
    Now,
    Pause,
    ReadStream,
    Reply,
)
from headway.client.answers import ServiceAnswer
from headway.client.problems import error_of
from headway.client.retries import pause_after
from headway.codec import decode

EVENTS = frozenset({"transition", "message", "gap"})
"""The types of events that this client knows; a newer service may have more."""


class LiveTransition(ServiceAnswer, tag="transition", rename={"before": "from", "now": "to"}):
    """An instance made a transition, from the states `before` to those that are active `now`."""

    id: str
    chart: str
    version: int
    instance: str
    owner: str | None
    parent: str | None
    seq: int
    row: int
    event: str
    transition: str
    before: str
    now: str
    status: str | None
    actor: str
    at: datetime
    reason: str | None
    attempt: int
    data: Any


class LiveMessage(ServiceAnswer, tag="message"):
    """A chart published a message, such as the progress of work."""

    id: str
    chart: str
    instance: str
    owner: str | None
    parent: str | None
    message: str
    name: str
    at: datetime
    data: Any


class LiveGap(ServiceAnswer, tag="gap"):
    """Events after the id that the stream resumed from are no longer stored: load what you show again."""

    id: str


LiveEvent: TypeAlias = LiveTransition | LiveMessage | LiveGap
"""The items of `follow`. Each has the `id` after which to resume."""


class LiveType(ServiceAnswer):
    """What every live event says of itself."""

    type: str


class StreamProblem(ServiceAnswer):
    """What the client reads of a problem in a stream before it is an error."""

    status: int


class ServerSentEvents:
    """Splits the bytes of a stream into events; `last_id` is where to resume."""

    def __init__(self, last_id: str | None) -> None:
        self.last_id = last_id
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """The events that are complete now: the type and the data of each."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        for block in blocks:
            fields = dict(_field(line) for line in block.split(b"\n"))
            if b"id" in fields:
                self.last_id = fields[b"id"].decode()
            if b"data" in fields:
                yield fields.get(b"event", b"message").decode(), fields[b"data"]

    def restart(self) -> None:
        """Forget the event that a lost connection has left incomplete."""
        self._rest = b""


class StreamEnd(NamedTuple):
    """What ended a connection, and for how many seconds it was open."""

    reply: Reply
    lasted: float = 0.0


def followed(request: HttpRequest, after: str | None, retries: int) -> Items[LiveEvent]:
    """The events of a stream, opened again after its last event whenever it ends; raises ClientError.

    Only failures in a row count: not if something came, nor if it was open for longer than the last pause.
    """
    received, failures, pause = ServerSentEvents(after), 0, 0.0
    while True:
        before = received.last_id
        headers = {} if before is None else {"last-event-id": before}
        end = yield from _until_it_ends(request._replace(headers=headers), received)
        has_worked = received.last_id != before or end.lasted > pause
        failures = 1 if has_worked else failures + 1
        asked = pause_after(end.reply, failures)
        if asked is None or failures > retries:
            raise error_of(request, end.reply, doubt=False)
        pause = asked
        yield Pause(pause)


def _until_it_ends(
    request: HttpRequest, received: ServerSentEvents
) -> Generator[Action | Item[LiveEvent], Any, StreamEnd]:
    """Give the events of one connection, until it ends."""
    reply: Reply = yield request
    if not isinstance(reply, HttpReply) or reply.failed:
        return StreamEnd(reply)
    opened: float = yield Now()
    received.restart()
    end = yield from _events(received)
    return StreamEnd(end, (yield Now()) - opened)


def _events(received: ServerSentEvents) -> Generator[Action | Item[LiveEvent], Any, Reply]:
    """Give the events of an open stream; what ended it. A problem in the stream is as one instead of it."""
    while True:
        data: bytes | ConnectionFailure = yield ReadStream()
        if not isinstance(data, bytes):
            return data
        if not data:
            return ConnectionFailure("the service has ended the stream", sent=True)
        for kind, text in received.feed(data):
            if kind == "problem":
                return HttpReply(decode(StreamProblem, text).status, {}, text)
            if decode(LiveType, text).type in EVENTS:
                yield Item(decode(LiveEvent, text))  # type: ignore[arg-type]  # a union is a type to the decoder


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")
