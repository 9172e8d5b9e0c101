"""What the outside sees of an event of the log, written once for all who read it."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any

from headway.api.seals import Seal
from headway.codec import decode, encode
from headway.engine.told import data_of
from headway.store.rows import Cursor, EventRow, LiveRow, LogRow

MOST_KEPT = 1_000
MOST_BYTES_KEPT = 8_000_000


def shown(event: LogRow, name: str) -> dict[str, Any]:
    """An event as its readers see it, under the id that they know it by."""
    return _transition(event, name) if isinstance(event, EventRow) else _message(event, name)


def _transition(event: EventRow, name: str) -> dict[str, Any]:
    line = event.line
    return {
        "id": name,
        "type": "transition",
        "tenant": line.tenant,
        "chart": event.chart,
        "version": line.version,
        "instance": line.instance,
        "owner": event.owner,
        "parent": event.parent,
        "seq": line.seq,
        "row": line.row,
        "event": line.event,
        "transition": line.transition,
        "from": line.before,
        "to": line.after,
        "actor": line.actor,
        "at": line.at,
        "reason": line.reason,
        "attempt": line.attempt,
        "data": data_of(line),
    }


def _message(event: LiveRow, name: str) -> dict[str, Any]:
    """The step that sends a message has hidden what is sensitive."""
    message = event.message
    return {
        "id": name,
        "type": "message",
        "tenant": message.tenant,
        "chart": event.chart,
        "instance": message.instance,
        "owner": event.owner,
        "parent": event.parent,
        "message": message.id,
        "name": message.name,
        "at": message.at,
        "data": None if message.data is None else decode(object, message.data),
    }


class Frame:
    """Something to tell, in the form each kind of connection needs; all its readers share the bytes.

    `id` is what they are told of its place.
    """

    def __init__(self, cursor: Cursor, id: str, body: bytes) -> None:  # noqa: A002 - as it is called outside
        self.cursor, self.id, self.body = cursor, id, body
        self.size = len(body)

    @cached_property
    def message(self) -> dict[str, Any]:
        """As a message of a WebSocket."""
        return {"type": "websocket.send", "text": self.body.decode()}

    @cached_property
    def chunk(self) -> dict[str, Any]:
        """As a part of a stream of server-sent events."""
        text = b"id: %s\ndata: %s\n\n" % (self.id.encode(), self.body)
        return {"type": "http.response.body", "body": text, "more_body": True}


class Beat(Frame):
    """A sign of life, which tells how far the log was read."""

    def __init__(self, cursor: Cursor, seal: Seal) -> None:
        place = seal.place(cursor)
        super().__init__(cursor, place, encode({"type": "heartbeat", "id": place}))

    @cached_property
    def chunk(self) -> dict[str, Any]:
        """An id without data: a reader keeps it for its next connection, and nothing is dispatched."""
        text = b"id: %s\n: heartbeat\n\n" % self.id.encode()
        return {"type": "http.response.body", "body": text, "more_body": True}


class Gap(Frame):
    """Something that came after this place is not kept any more; what is kept follows."""

    def __init__(self, cursor: Cursor, place: str) -> None:
        super().__init__(cursor, place, encode({"type": "gap", "id": place}))


class Frames:
    """The frames of the last events: whoever wants one gets the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Cursor, Frame] = OrderedDict()
        self._bytes = 0

    def of(self, event: LogRow, seal: Seal) -> Frame:
        """The frame of an event; its id is closed by the seal of its tenant, once for all readers."""
        frame = self._kept.get(event.cursor)
        if frame is None:
            name = seal.event(event.cursor)
            frame = self._kept[event.cursor] = Frame(event.cursor, name, encode(shown(event, name)))
            self._bytes += frame.size
            while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES_KEPT:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return frame
