"""What is told of an instance's data: without what its chart marks as sensitive."""

from __future__ import annotations

from typing import Any

from headway.codec import decode
from headway.engine.registry import Registry
from headway.errors import UnknownChartError
from headway.statechart.remap import UPGRADE
from headway.statechart.snapshot import Snapshot
from headway.store.rows import HistoryRow

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
    try:
        chart = charts.known(snapshot.chart, snapshot.version)
    except UnknownChartError:
        return {}
    if chart.secrets is None:
        return snapshot.context if chart.context_type or chart.model.context is None else {}
    told: dict[str, Any] = chart.secrets.context(snapshot.context)
    return told
