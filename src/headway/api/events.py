"""An event of the log as callers see it, in streams and on the command line."""

from __future__ import annotations

from typing import Any

from headway.clock import time_text
from headway.codec import decode
from headway.engine.redaction import data_of
from headway.engine.registry import Registry
from headway.errors import InputError, UnknownChartError
from headway.statechart.step.step import status_of
from headway.statechart.upgrade.instance import UPGRADE
from headway.store.rows import PRUNED, EventRow, HistoryRow, LiveRow, LogRow, MessageRow, Pruned


def event_data(event: LogRow, name: str, charts: Registry) -> dict[str, Any]:
    """The data of an event; `name` is its id as its readers know it."""
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
    """The states before and after a line, and the status after it; None for a version unknown to this node.

    A chart that computes its status has no other states.
    """
    line = event.line
    try:
        chart = charts.known(event.chart, line.version)
        before, after = (status_of(chart, states) for states in _ends(line))
    except (UnknownChartError, InputError):
        return line.before, line.after, None
    return (before or "", after or "", after) if chart.computed else (line.before, line.after, after)


def _ends(line: HistoryRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The states before and after a line; none before an upgrade, which begins in another version."""
    is_first = line.event == UPGRADE or not line.before
    return () if is_first else tuple(line.before.split("+")), tuple(line.after.split("+"))


def _message(event: LiveRow, name: str) -> dict[str, Any]:
    """Sensitive values were redacted in the step that sent the message."""
    message = event.message
    if message.kind == PRUNED:
        return _pruned(message, name)
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


def _pruned(message: MessageRow, name: str) -> dict[str, Any]:
    """How many instances in which final states are gone: who counts takes them off."""
    gone = decode(Pruned, message.data or "")
    return {
        "id": name,
        "type": "pruned",
        "tenant": message.tenant,
        "chart": message.name,
        "version": gone.version,
        "states": gone.states,
        "count": gone.count,
        "at": time_text(message.at),
    }
