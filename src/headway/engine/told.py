"""What is told of an instance's data: without what its chart marks as sensitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.codec import decode, encode, replace
from headway.engine.registry import Registry
from headway.errors import UnknownChartError
from headway.statechart.remap import UPGRADE
from headway.statechart.snapshot import Snapshot
from headway.store.rows import HistoryRow, InstanceRow

Hide = Callable[[dict[str, Any]], dict[str, Any]]
INTERNAL = "before"
"""What an upgrade keeps to be taken back: the old context stands in it as it was."""


def data_of(line: HistoryRow) -> Any:
    """What the event of a line carried. The step that wrote it has hidden what is sensitive."""
    if line.data is None:
        return None
    data = decode(object, line.data)
    if line.event == UPGRADE and isinstance(data, dict):
        return {name: value for name, value in data.items() if name != INTERNAL}
    return data


def context_of(snapshot: Snapshot, charts: Registry) -> dict[str, Any]:
    """What an instance knows, with what is sensitive hidden; nothing where nobody knows what that is."""
    hide = _hiding(charts, snapshot.chart, snapshot.version)
    return snapshot.context if hide is None else hide(snapshot.context)


def snapshot_of(row: InstanceRow, charts: Registry) -> str:
    """The snapshot of a row as JSON, its context as it may be told."""
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
