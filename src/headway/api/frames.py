"""Frames: events, heartbeats and gaps as the bytes that readers of a stream get, shared by all of them."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any

from headway.api.cursors import CursorCipher
from headway.api.events import event_data
from headway.codec import encode
from headway.engine.registry import Registry
from headway.store.rows import Cursor, LogRow

MOST_KEPT = 1_000
MOST_BYTES_KEPT = 8_000_000


class Frame:
    """What is sent to readers, in the form of each kind of connection; `id` is its place for them."""

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
    """A heartbeat, which carries the place up to which the log was read."""

    def __init__(self, cursor: Cursor, cipher: CursorCipher) -> None:
        place = cipher.place(cursor)
        super().__init__(cursor, place, encode({"type": "heartbeat", "id": place}))

    @cached_property
    def chunk(self) -> dict[str, Any]:
        """An id without data: the reader resumes from it, and no event is dispatched."""
        text = b"id: %s\n: heartbeat\n\n" % self.id.encode()
        return {"type": "http.response.body", "body": text, "more_body": True}


class Gap(Frame):
    """Notice that events after this place were pruned; the stream continues with the oldest one left."""

    def __init__(self, cursor: Cursor, place: str) -> None:
        super().__init__(cursor, place, encode({"type": "gap", "id": place}))


class Frames:
    """A cache of the frames of recent events, shared by all readers."""

    def __init__(self, charts: Registry) -> None:
        self._charts = charts
        self._kept: OrderedDict[Cursor, Frame] = OrderedDict()
        self._bytes = 0

    def of(self, event: LogRow, cipher: CursorCipher) -> Frame:
        """The frame of an event; its id is encrypted for its tenant, once for all readers."""
        frame = self._kept.get(event.cursor)
        if frame is None:
            name = cipher.event(event.cursor)
            body = encode(event_data(event, name, self._charts))
            frame = self._kept[event.cursor] = Frame(event.cursor, name, body)
            self._bytes += frame.size
            while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES_KEPT:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return frame
