"""What the outside sees of an event of the log, written once for all who read it."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any

from headway.api.cursors import CursorCipher
from headway.clock import time_text
from headway.codec import decode, encode
from headway.engine.redaction import data_of
from headway.engine.registry import Registry
from headway.errors import InputError, UnknownChartError
from headway.statechart.step.step import status_of
from headway.statechart.upgrade.instance import UPGRADE
from headway.store.rows import Cursor, EventRow, HistoryRow, LiveRow, LogRow

MOST_KEPT = 1_000
MOST_BYTES_KEPT = 8_000_000


def shown(event: LogRow, name: str, charts: Registry) -> dict[str, Any]:
    """An event as its readers see it, under the id that they know it by."""
    return _transition(event, name, charts) if isinstance(event, EventRow) else _message(event, name)


def _transition(event: EventRow, name: str, charts: Registry) -> dict[str, Any]:
    line = event.line
    before, after, status = _places(event, charts)
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
        "from": before,
        "to": after,
        "status": status,
        "actor": line.actor,
        "at": time_text(line.at),
        "reason": line.reason,
        "attempt": line.attempt,
        "data": data_of(line),
    }


def _places(event: EventRow, charts: Registry) -> tuple[str, str, str | None]:
    """The states before and after a line, and the status then: a chart that computes its status has no other.

    The status is None for a version that this node does not know.
    """
    line = event.line
    try:
        chart = charts.known(event.chart, line.version)
        before, after = (status_of(chart, states) for states in _ends(line))
    except (UnknownChartError, InputError):
        return line.before, line.after, None
    return (before or "", after or "", after) if chart.computed else (line.before, line.after, after)


def _ends(line: HistoryRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The states before and after; those before an upgrade are of another version."""
    is_first = line.event == UPGRADE or not line.before
    return () if is_first else tuple(line.before.split("+")), tuple(line.after.split("+"))


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
        "at": time_text(message.at),
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

    def __init__(self, cursor: Cursor, cipher: CursorCipher) -> None:
        place = cipher.place(cursor)
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

    def __init__(self, charts: Registry) -> None:
        self._charts = charts
        self._kept: OrderedDict[Cursor, Frame] = OrderedDict()
        self._bytes = 0

    def of(self, event: LogRow, cipher: CursorCipher) -> Frame:
        """The frame of an event; its id is closed by the seal of its tenant, once for all readers."""
        frame = self._kept.get(event.cursor)
        if frame is None:
            name = cipher.event(event.cursor)
            body = encode(shown(event, name, self._charts))
            frame = self._kept[event.cursor] = Frame(event.cursor, name, body)
            self._bytes += frame.size
            while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES_KEPT:
                self._bytes -= self._kept.popitem(last=False)[1].size
        return frame
