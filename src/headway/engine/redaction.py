"""Redaction: an instance's data without what its chart marks as sensitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.codec import decode, encode, replace
from headway.engine.registry import Registry
from headway.errors import UnknownChartError
from headway.statechart.snapshot import Snapshot
from headway.statechart.upgrade.instance import UPGRADE
from headway.store.rows import HistoryRow, InstanceRow

Hide = Callable[[dict[str, Any]], dict[str, Any]]
UNTOLD = {
    UPGRADE: ("before",),
    "child.changed": ("counts", "errors"),
}
"""Data of history lines that only the engine reads: the context before an upgrade, and changes of counts
(readers get the counts after the line)."""


def data_of(line: HistoryRow) -> Any:
    """What the event of a line carried. The step that wrote it has redacted sensitive values."""
    if line.data is None:
        return None
    data = decode(object, line.data)
    hidden = UNTOLD.get(line.event)
    if hidden is None or not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if name not in hidden}


def context_of(snapshot: Snapshot, charts: Registry) -> dict[str, Any]:
    """The context with sensitive values redacted; empty when the chart version is unknown here."""
    hide = _hiding(charts, snapshot.chart, snapshot.version)
    return snapshot.context if hide is None else hide(snapshot.context)


def snapshot_of(row: InstanceRow, charts: Registry) -> str:
    """The snapshot of a row as JSON, its context redacted."""
    hide = _hiding(charts, row.chart, row.version)
    if hide is None:
        return row.snapshot
    snapshot = decode(Snapshot, row.snapshot)
    return encode(replace(snapshot, context=hide(snapshot.context))).decode()


def _hiding(charts: Registry, name: str, version: int) -> Hide | None:
    """What hides the sensitive parts of a chart's contexts; None when there are none."""
    try:
        chart = charts.known(name, version)
    except UnknownChartError:
        return _nothing
    if chart.secrets is not None:
        return chart.secrets.context
    return None if chart.context_type or chart.model.context is None else _nothing


def _nothing(_context: dict[str, Any]) -> dict[str, Any]:
    return {}
