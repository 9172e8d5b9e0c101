"""What the outside sees of an event of the log, written once for all who read it."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any

from headway.codec import decode, encode
from headway.engine.tail import cursor_text
from headway.engine.told import data_of
from headway.store.rows import Cursor, EventRow, LiveRow, LogRow

MOST_KEPT = 1_000
MOST_BYTES_KEPT = 8_000_000


def shown(event: LogRow) -> dict[str, Any]:
    """An event as its readers see it."""
    return _transition(event) if isinstance(event, EventRow) else _message(event)


def _transition(event: EventRow) -> dict[str, Any]:
    line = event.line
    return {
        "id": cursor_text(event.cursor),
        "type": "transition",
        "tenant": line.tenant,
        "chart": event.chart,
        "version": line.version,
        "instance": line.instance,
        "owner": event.owner,
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


def _message(event: LiveRow) -> dict[str, Any]:
    """The step that sends a message has hidden what is sensitive."""
    message = event.message
    return {
        "id": cursor_text(event.cursor),
        "type": "message",
        "tenant": message.tenant,
        "chart": event.chart,
        "instance": message.instance,
        "owner": event.owner,
        "message": message.id,
        "name": message.name,
        "at": message.at,
        "data": None if message.data is None else decode(object, message.data),
    }


class Frame:
    """Something to tell, in the form each kind of connection needs; all its readers share the bytes."""

    def __init__(self, cursor: Cursor, body: bytes) -> None:
        self.cursor, self.body = cursor, body
        self.size = len(body)

    @cached_property
    def message(self) -> dict[str, Any]:
        """As a message of a WebSocket."""
        return {"type": "websocket.send", "text": self.body.decode()}

    @cached_property
    def chunk(self) -> dict[str, Any]:
        """As a part of a stream of server-sent events."""
        text = b"id: %s\ndata: %s\n\n" % (cursor_text(self.cursor).encode(), self.body)
        return {"type": "http.response.body", "body": text, "more_body": True}


class Beat(Frame):
    """A sign of life, which tells how far the log was read."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor, encode({"type": "heartbeat", "id": cursor_text(cursor)}))

    @cached_property
    def chunk(self) -> dict[str, Any]:
        """An id without data: a reader keeps it for its next connection, and nothing is dispatched."""
        text = b"id: %s\n: heartbeat\n\n" % cursor_text(self.cursor).encode()
        return {"type": "http.response.body", "body": text, "more_body": True}


class Gap(Frame):
    """Something that came after this place is not kept any more; what is kept follows."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor, encode({"type": "gap", "id": cursor_text(cursor)}))


class Frames:
    """The frames of the last events: whoever wants one gets the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Cursor, Frame] = OrderedDict()
        self._bytes = 0

    def of(self, event: LogRow) -> Frame:
        """The frame of an event."""
        frame = self._kept.get(event.cursor)
        if frame is None:
            frame = self._kept[event.cursor] = Frame(event.cursor, encode(shown(event)))
            self._bytes += frame.size
            while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES_KEPT:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return frame
