"""What guards need to know beyond the instance: counters and records, by the keys a chart names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.statechart import model
from headway.statechart.actions import filled
from headway.statechart.chart import Chart
from headway.statechart.snapshot import Snapshot
from headway.store.rows import Key


def _key(fact: model.Fact, snapshot: Snapshot) -> str:
    """The key as the actions spell it that write there."""
    return filled(fact.key, {"instance": snapshot.instance, **snapshot.context})


def _record(fact: model.Fact, tenant: str, snapshot: Snapshot) -> tuple[str, str, str]:
    kind, _, key = _key(fact, snapshot).partition(":")
    return (tenant, kind, key)


def fact_reads(chart: Chart, tenant: str, snapshot: Snapshot) -> dict[str, Any]:
    """What must be read before the guards of a chart can be asked."""
    facts = chart.model.facts
    return {
        "counters": [(tenant, _key(fact, snapshot)) for fact in facts if fact.kind == "counter"],
        "records": [_record(fact, tenant, snapshot) for fact in facts if fact.kind == "record"],
    }


def fact_values(
    chart: Chart,
    tenant: str,
    snapshot: Snapshot,
    *,
    counters: Mapping[Key, int],
    records: Mapping[tuple[str, str, str], Any],
) -> dict[str, Any]:
    """The facts of a chart by name; one that nobody stored is 0, or None."""
    values: dict[str, Any] = {}
    for fact in chart.model.facts:
        if fact.kind == "counter":
            values[fact.name] = counters.get((tenant, _key(fact, snapshot)), 0)
        elif fact.kind == "record":
            values[fact.name] = records.get(_record(fact, tenant, snapshot))
    return values
